"""Re-ranker: a second model, with an encoder of its own, that learns to tell apart what a finished ranker confuses.

It sees every training text with its labels and the ranker's best others; of a text that is answered, it scores the
ranker's best labels anew (DeepXML, section 4; its code's defaults). What depends on the data is 0, -1 or empty here and
chosen by `sized`. As a part of other methods it is a group of their settings and changes nothing else of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.tokenizer import inputs_of
from laconic.errors import ConfigError, ModelError
from laconic.evaluation.evaluate import figures_of, on_device, places_to_validate, rank_all
from laconic.evaluation.metrics.pairs import holds
from laconic.methods.common import (
    BOUNDS,
    UNORDERED,
    build_encoder,
    check_known,
    check_subwords,
    check_within,
    config_with,
    filled,
    sized_batch,
    sized_length,
    sizes_in,
    start_encoder,
    usual_length,
)
from laconic.methods.result import Trained
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import ENCODERS, Encoder
from laconic.models.layers import Transfer
from laconic.models.rankers import SHARES, FlatRanker, Ranker, Reranker
from laconic.models.shortlisters.nearest import tensor_of
from laconic.training.optimizer import Halving, Plan
from laconic.training.run import Run
from laconic.training.tasks import Shortlisted
from laconic.types import NO_LABEL, Ranking

USUAL_ALPHA = 0.6  # of the code behind the paper's figures
_AT_ONCE = 4096  # texts whose candidates are found or scored at a time


@dataclass(frozen=True, kw_only=True)
class Config:
    size: int = 200  # of the base's best labels that are scored anew
    alpha: float = -1.0  # the re-ranker's share of a score; -1: the best on the validation split, or 0.6
    epochs: int = 0  # 0: from 10 for half a million texts and more to 30 for a few
    batch_size: int = 0  # 0: 256, less for small data
    learning_rate: float = 0.0  # 0: from 0.002 for 25,000 steps and more to 0.02 for 2,500 and fewer
    halve_after: float = 0.7  # share of the epochs until the learning rate is first halved
    seed: int = -1  # -1: the base's
    encoder: str = ""  # empty: bag or, for dense features, dense
    attention: bool = True  # inception's two attention layers
    length: int = 0  # words of a text that are read; 0: as many as 99.5 % of texts have, at most 32 where order counts
    embedding: int = 300
    permutation: int = 0  # a seed that puts the dimensions of the base's `vectors` in another order; 0: as they are
    dropout: float = 0.5

    def __post_init__(self) -> None:
        bounds = {name: BOUNDS[name] for name in ("epochs", "batch_size", "length", "embedding", "dropout")}
        own = {"size": (1, 1 << 20), "alpha": (-1, 1), "learning_rate": (0, 100), "seed": (-1, 1 << 40)}
        check_within(self, bounds | own | {"halve_after": (0.01, 1)})
        if self.encoder:
            check_known(self, {"encoder": ENCODERS})
        if self.batch_size == 1:
            raise ConfigError("batch_size must be 0 (chosen by the data) or at least 2, because of BatchNorm, but is 1")


def train(data: Dataset, base: Trained, config: Config, run: Run) -> Trained:
    """Over any finished ranker, whose config says which texts it has not learnt from: they choose epoch and alpha."""
    config = sized(config, data, base.config)
    learn, held = _split(data, base.config)
    found = run.remember("reranker-candidates", lambda: _candidates(base.ranker, learn, held, config.size))
    encoder, classifier = _built(config, learn)
    task = Shortlisted(encoder, classifier, random=0).to(run.device)
    ranker = Reranker(base.ranker, encoder, classifier, size=config.size, alpha=0.0)

    def figures(alphas: Sequence[float]) -> list[dict[str, float]]:
        return _figures(ranker, held, Ranking(found["held_labels"], found["held_scores"]), alphas, run.device)

    usual = USUAL_ALPHA if config.alpha < 0 else config.alpha
    state = run.fit(
        "reranker",
        task,
        Resident.of(learn, config.length, run.device, found["labels"]),
        _plan(config),
        validate=(lambda: figures([usual])[0]) if len(held) else None,
    )
    facts: dict[str, Any] = {"best_epoch": state.best_epoch, "epochs": state.history}
    if config.alpha < 0:
        # Of no held-out texts there are no figures.
        scores = {alpha: next(iter(one.values())) for alpha, one in zip(SHARES, figures(SHARES), strict=False)}
        facts["alphas"] = {str(alpha): score for alpha, score in scores.items()}
        config = replace(config, alpha=best_alpha(scores))
    device = next(iter(base.ranker.state_dict().values())).device  # a base may be one for the host alone
    return Trained(
        ranker.to(device).blended(config.alpha).eval(),
        with_group(base.config, config),
        {**base.facts, "reranking": facts},
    )


def best_alpha(scores: Mapping[float, float]) -> float:
    """The share with the best score; of equals the nearest to the usual one, which it is where nothing was tried."""
    tried = scores or {USUAL_ALPHA: 0.0}
    return min(tried, key=lambda alpha: (-tried[alpha], abs(alpha - USUAL_ALPHA)))


def restore(config: Config, base: Ranker, tensors: Mapping[str, Tensor]) -> Reranker:
    """The ranker from the tensors that are its own, whose shapes say how large it is."""
    alpha = tensor_of(tensors, "alpha", torch.float32)
    if alpha.ndim or not 0 <= float(alpha) <= 1:
        raise ModelError(
            "the model's tensor 'alpha' must be one number from 0 to 1; its folder is damaged: fetch it again"
        )

    def make() -> FlatRanker:
        num_labels, _ = tensors["classifier.weight"].shape
        own, num_ids = sizes_in(config, tensors)
        encoder = build_encoder(own, num_ids)
        sizes = {"labels": (num_labels, base.num_labels), "token ids": (encoder.num_ids, base.num_ids)}
        for name, (mine, others) in sizes.items():
            if others and mine != others:
                raise ValueError(f"it knows {mine} {name}, but what it re-ranks {others}")
        return FlatRanker(encoder, _classifier(own, encoder, num_labels))

    parts = filled("the re-ranker", make, {name: tensor for name, tensor in tensors.items() if name != "alpha"})
    share = float(alpha) if config.alpha < 0 else config.alpha
    return Reranker(base, parts.encoder, parts.classifier, size=config.size, alpha=share).eval()


def sized(config: Config, data: Dataset, base: Any) -> Config:
    """The config with a number wherever the data, or the base's config, decides; what cannot be is refused."""
    config = replace(config, encoder=config.encoder or ("bag" if isinstance(data.inputs, csr_array) else "dense"))
    check_subwords(config.encoder, base.vocabulary)
    usual = usual_length(data, config, "the re-ranker")
    known = 0 if data.word_vectors is None else data.word_vectors.vectors.shape[1]
    if known > config.embedding:
        raise ConfigError(f"reranker.embedding must be at least the vectors' {known}, but is {config.embedding}")
    epochs = config.epochs or round(np.clip(10 * (485_000 / max(len(data), 1)) ** 0.5, 10, 30))
    batch_size = sized_batch(config.batch_size, len(data), 256)
    # Near the code's rate at its 19,000 steps, and at the best of 0.002 to 0.02 in some thousand steps (docs/log.md).
    rate = 50 * batch_size / (epochs * max(len(data), 1))
    return replace(
        config,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=config.learning_rate or float(np.clip(rate, 0.002, 0.02)),
        seed=_seed(base) if config.seed < 0 else config.seed,
        length=sized_length(config.length, usual, bag=config.encoder in UNORDERED),
    )


# As a part of other methods


def config_over(kind: type[Any]) -> type[Any]:
    """The config of a method whose ranker is re-ranked: its own, with a group of settings for the re-ranker."""
    return config_with(kind, "reranker", Config())


def with_group(config: Any, group: Config) -> Any:
    """A method's config with the re-ranker's settings, whether it had some or not."""
    if hasattr(config, "reranker"):
        return replace(config, reranker=group)
    values = {each.name: getattr(config, each.name) for each in fields(config)}
    return config_over(type(config))(**values, reranker=group)


def train_over(train_base: Callable[[Dataset, Any, Run], Trained], data: Dataset, config: Any, run: Run) -> Trained:
    sized(config.reranker, data, config)  # what cannot be is refused before the base learns
    return train(data, train_base(data, config, run), config.reranker, run)


def restore_over(
    restore_base: Callable[[Any, Mapping[str, Tensor]], Ranker], config: Any, tensors: Mapping[str, Tensor]
) -> Reranker:
    """The base is looked at as it would be alone."""
    under = {name.removeprefix("base."): tensor for name, tensor in tensors.items() if name.startswith("base.")}
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith("base.")}
    return restore(config.reranker, restore_base(config, under), own)


def _split(data: Dataset, base: Any) -> tuple[Dataset, Dataset]:
    """What the base has learnt from, and what it has not."""
    share = 0.0 if getattr(base, "refit", False) else getattr(base, "validation", 0.0)
    return data.split(share, _seed(base))


def _seed(base: Any) -> int:
    seed: int = getattr(base, "seed", 29)
    return seed


def _candidates(base: Ranker, learn: Dataset, held: Dataset, size: int) -> dict[str, Tensor]:
    """The base's best labels, which do not change while the re-ranker learns; of held-out texts with their scores."""
    width = max(min(size, base.num_labels), places_to_validate(held))
    ranked = rank_all(base, held.inputs, width)
    return {
        "labels": torch.cat([_negatives(base, learn, at, size) for at in range(0, len(learn), _AT_ONCE)]),
        "held_labels": ranked.labels,
        "held_scores": ranked.scores,
    }


def _negatives(base: Ranker, data: Dataset, first: int, size: int) -> Int[Tensor, "texts size"]:
    """The base's best labels of some texts; NO_LABEL where a pair is to be left out, for it may well be true."""
    part = slice(first, first + _AT_ONCE)
    labels = rank_all(base, data.inputs[part], min(size, base.num_labels)).labels.to(torch.int32)
    if data.leave_out is not None:
        labels[torch.from_numpy(holds(data.leave_out[part], labels.numpy()))] = NO_LABEL
    return labels


@torch.no_grad()
def _figures(
    ranker: Reranker, held: Dataset, ranked: Ranking, alphas: Sequence[float], device: torch.device
) -> list[dict[str, float]]:
    """What each share of the re-ranker gives on held-out texts."""
    k, parts = places_to_validate(held), []
    for first in range(0, len(held), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        inputs = on_device(inputs_of(held.inputs[part]), device)
        by_base = Ranking(ranked.labels[part].to(device), ranked.scores[part].to(device))
        parts.append(ranker.rerank(inputs, by_base, k, alphas))
    joined = [[torch.cat(several).cpu() for several in zip(*one, strict=True)] for one in zip(*parts, strict=True)]
    return [figures_of(Ranking(*one), held) for one in joined]


def _built(config: Config, data: Dataset) -> tuple[Encoder, LinearClassifier]:
    with torch.random.fork_rng([]):
        torch.manual_seed(config.seed)
        encoder = build_encoder(config, data.inputs.shape[1])
        classifier = _classifier(config, encoder, data.num_labels)
        classifier.spread(encoder.dim**-0.5)
    start_encoder(encoder, config, data)
    return encoder, classifier


def _classifier(config: Config, encoder: Encoder, num_labels: int) -> LinearClassifier:
    return LinearClassifier(encoder.dim, num_labels, transform=Transfer(encoder.dim, dropout=config.dropout))


def _plan(config: Config) -> Plan:
    return Plan(
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        schedule=Halving(after=config.halve_after),
        lazy=True,
        seed=config.seed,
    )
