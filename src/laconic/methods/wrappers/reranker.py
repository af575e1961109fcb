"""Re-ranker: a second model, with an encoder of its own, that learns to separate the labels a ranker confuses.

It trains on every text with its labels and the ranker's best others; in prediction it scores the ranker's best labels
again (DeepXML, section 4; its code's defaults). Settings that depend on the data are 0, -1 or empty and chosen by
`with_sizes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.errors import ConfigError, ModelError
from laconic.evaluation.evaluate import batches, device_of, figures_of, places_to_validate, rank_all
from laconic.evaluation.metrics.pairs import holds
from laconic.methods.common import (
    build_encoder,
    choose_batch_size,
    choose_length,
    restore_module,
    seeded,
    sizes_from,
    start_encoder,
    tensors_under,
    usual_length,
)
from laconic.methods.config import MethodConfig, RerankerConfig, check_subwords, plan_from
from laconic.methods.result import Trained
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Encoder
from laconic.models.layers import Transfer
from laconic.models.rankers import SHARES, FlatRanker, Ranker, Reranker
from laconic.models.shortlisters.nearest import tensor_of
from laconic.training.optimizer import Halving
from laconic.training.run import Run
from laconic.training.tasks import Shortlisted
from laconic.types import NO_LABEL, Ranking

USUAL_ALPHA = 0.6  # of the code behind the paper's figures
_AT_ONCE = 4096  # texts whose candidates are searched or scored at a time


def train(data: Dataset, base: Trained, config: RerankerConfig, run: Run) -> Trained:
    """Train over any finished ranker; texts that its config held out choose epoch and alpha."""
    config = with_sizes(config, data, base.config)
    learn, held = _split(data, base.config)
    found = run.remember("reranker-candidates", lambda: _candidates(base.ranker, learn, held, config.size))
    encoder, classifier = _build(config, learn)
    task = Shortlisted(encoder, classifier, random=0).to(run.device)
    ranker = Reranker(base.ranker, encoder, classifier, size=config.size, alpha=0.0)

    def figures(alphas: Sequence[float]) -> list[dict[str, float]]:
        return _figures(ranker, held, Ranking(found["held_labels"], found["held_scores"]), alphas, run.device)

    usual = USUAL_ALPHA if config.alpha < 0 else config.alpha
    state = run.fit(
        "reranker",
        task,
        Resident.of(learn, config.length, run.device, found["labels"]),
        plan_from(config, schedule=Halving(after=config.halve_after), lazy=True),
        validate=(lambda: figures([usual])[0]) if len(held) else None,
    )
    facts: dict[str, Any] = {"best_epoch": state.best_epoch, "epochs": state.history}
    if config.alpha < 0:
        # Without held-out texts there are no figures.
        scores = {alpha: next(iter(one.values())) for alpha, one in zip(SHARES, figures(SHARES), strict=False)}
        facts["alphas"] = {str(alpha): score for alpha, score in scores.items()}
        config = replace(config, alpha=best_alpha(scores))
    return Trained(
        ranker.to(device_of(base.ranker)).blended(config.alpha).eval(),
        replace(base.config, reranker=config),
        {**base.facts, "reranking": facts},
    )


def best_alpha(scores: Mapping[float, float]) -> float:
    """Return the weight with the best score; of equals, or without scores, the nearest to the usual one."""
    tried = scores or {USUAL_ALPHA: 0.0}
    return min(tried, key=lambda alpha: (-tried[alpha], abs(alpha - USUAL_ALPHA)))


def restore(config: RerankerConfig, base: Ranker, tensors: Mapping[str, Tensor]) -> Reranker:
    """Restore a re-ranker from its own tensors, whose shapes give its sizes."""
    alpha = tensor_of(tensors, "alpha", torch.float32)
    if alpha.ndim or not 0 <= float(alpha) <= 1:
        raise ModelError(
            "the model's tensor 'alpha' must be one number from 0 to 1; its folder is damaged: fetch it again"
        )

    def make() -> FlatRanker:
        num_labels, _ = tensors["classifier.weight"].shape
        own, num_ids = sizes_from(tensors, config)
        encoder = build_encoder(own, num_ids)
        sizes = {"labels": (num_labels, base.num_labels), "token ids": (encoder.num_ids, base.num_ids)}
        for name, (mine, others) in sizes.items():
            if others and mine != others:
                raise ValueError(f"it knows {mine} {name}, but what it re-ranks {others}")
        return FlatRanker(encoder, _classifier(own, encoder, num_labels))

    parts = restore_module("the re-ranker", make, {name: tensor for name, tensor in tensors.items() if name != "alpha"})
    weight = float(alpha) if config.alpha < 0 else config.alpha
    return Reranker(base, parts.encoder, parts.classifier, size=config.size, alpha=weight).eval()


def with_sizes(config: RerankerConfig, data: Dataset, base: MethodConfig) -> RerankerConfig:
    """Return the config with a value wherever the data or the base's config decides; refuse what does not fit."""
    config = replace(config, encoder=config.encoder or ("bag" if isinstance(data.inputs, csr_array) else "dense"))
    check_subwords(config.encoder, base.vocabulary)
    usual = usual_length(data, config, "the re-ranker")
    known = 0 if data.word_vectors is None else data.word_vectors.vectors.shape[1]
    if known > config.embedding:
        raise ConfigError(f"reranker.embedding must be at least the vectors' {known}, but is {config.embedding}")
    epochs = config.epochs or round(np.clip(10 * (485_000 / max(len(data), 1)) ** 0.5, 10, 30))
    batch_size = choose_batch_size(config.batch_size, len(data), 256)
    # Close to the published code's rate at its 19,000 steps, and to the best rate in some thousand steps (docs/log.md).
    rate = 50 * batch_size / (epochs * max(len(data), 1))
    return replace(
        config,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=config.learning_rate or float(np.clip(rate, 0.002, 0.02)),
        seed=base.seed if config.seed < 0 else config.seed,
        length=choose_length(config.length, usual, encoder=config.encoder),
    )


def train_over(
    train_base: Callable[[Dataset, Any, Run], Trained], data: Dataset, config: MethodConfig, run: Run
) -> Trained:
    """Train the base, then a re-ranker over it."""
    assert config.reranker is not None
    with_sizes(config.reranker, data, config)  # refuses what does not fit before the base is trained
    return train(data, train_base(data, config, run), config.reranker, run)


def restore_over(
    restore_base: Callable[[Any, Mapping[str, Tensor]], Ranker], config: MethodConfig, tensors: Mapping[str, Tensor]
) -> Reranker:
    """Restore base and re-ranker; the base is checked as a model of its own."""
    assert config.reranker is not None
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith("base.")}
    return restore(config.reranker, restore_base(config, tensors_under(tensors, "base.")), own)


def _split(data: Dataset, base: MethodConfig) -> tuple[Dataset, Dataset]:
    """Split the data into what the base has learnt from and what it has not."""
    return data.split(0.0 if base.refit else base.validation, base.seed)


def _candidates(base: Ranker, learn: Dataset, held: Dataset, size: int) -> dict[str, Tensor]:
    """Return the base's best labels, which training does not change; for held-out texts with their scores."""
    width = max(min(size, base.num_labels), places_to_validate(held))
    ranked = rank_all(base, held.inputs, width)
    return {
        "labels": torch.cat([_negatives(base, learn, at, size) for at in range(0, len(learn), _AT_ONCE)]),
        "held_labels": ranked.labels,
        "held_scores": ranked.scores,
    }


def _negatives(base: Ranker, data: Dataset, first: int, size: int) -> Int[Tensor, "texts size"]:
    """Return the base's best labels of some texts; NO_LABEL for left-out pairs, which may well be true."""
    part = slice(first, first + _AT_ONCE)
    labels = rank_all(base, data.inputs[part], min(size, base.num_labels)).labels.to(torch.int32)
    if data.leave_out is not None:
        labels[torch.from_numpy(holds(data.leave_out[part], labels.numpy()))] = NO_LABEL
    return labels


@torch.no_grad()
def _figures(
    ranker: Reranker, held: Dataset, ranked: Ranking, alphas: Sequence[float], device: torch.device
) -> list[dict[str, float]]:
    """Return figures on held-out texts for each weight of the re-ranker."""
    k, parts = places_to_validate(held), []
    for part, inputs in batches(held.inputs, device, _AT_ONCE):
        by_base = Ranking(ranked.labels[part].to(device), ranked.scores[part].to(device))
        parts.append(ranker.rerank(inputs, by_base, k, alphas))
    joined = [[torch.cat(several).cpu() for several in zip(*one, strict=True)] for one in zip(*parts, strict=True)]
    return [figures_of(Ranking(*one), held) for one in joined]


def _build(config: RerankerConfig, data: Dataset) -> tuple[Encoder, LinearClassifier]:
    with seeded(config.seed):
        encoder = build_encoder(config, data.inputs.shape[1])
        classifier = _classifier(config, encoder, data.num_labels)
        classifier.spread(encoder.dim**-0.5)
    start_encoder(encoder, config, data)
    return encoder, classifier


def _classifier(config: RerankerConfig, encoder: Encoder, num_labels: int) -> LinearClassifier:
    return LinearClassifier(encoder.dim, num_labels, transform=Transfer(encoder.dim, dropout=config.dropout))
