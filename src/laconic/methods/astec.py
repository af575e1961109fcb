"""Astec: DeepXML with a bag of words, clusters of labels as the surrogate, nearest labels as the shortlist (section 4).

Defaults are those of the code behind the paper's figures (docs/methods.md has the differences); what depends on the
size of the data is 0 here and chosen by `sized`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.data.dataset import Dataset
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ConfigError
from laconic.methods.common import (
    BOUNDS,
    UNORDERED,
    build_encoder,
    check_known,
    check_subwords,
    check_within,
    filled,
    sized_batch,
    sized_length,
    sizes_in,
    start_encoder,
    usual_length,
)
from laconic.methods.costs import StagedShape, staged_memory, staged_seconds, training_machine
from laconic.methods.deepxml import Parts, Plans, best_beta
from laconic.methods.deepxml import train as train_four_modules
from laconic.methods.label_shortlist import SHORTLISTERS, Shortlisting, weighing
from laconic.methods.result import Trained
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import Clustering, LabelTree, cluster_labels
from laconic.models.clustering.groups import frequent_labels, of_tree, random_buckets
from laconic.models.encoders import ENCODERS
from laconic.models.layers import Transfer
from laconic.models.rankers import CandidatesRanker
from laconic.models.shortlisters.labels import Nearness
from laconic.models.shortlisters.nearest import tensor_of
from laconic.training.optimizer import Halving, Plan
from laconic.training.run import Run

log = logging.getLogger(__name__)

BETAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)
VOTES = (0.075, 0.25, 0.5, 0.75, 0.9, 1.0)
USUAL_BETA = 0.6  # where nothing is held out to choose it
GROUPS = ("clusters", "frequent", "random", "none")
TRANSFERS = ("residual", "unbounded", "full", "none")
NEGATIVES = ("shortlist", "uniform", "unigram")

_PAIRS_A_GROUP = 36  # of text and label, at least


@dataclass(frozen=True, kw_only=True)
class Surrogate:
    """Module I: what the encoder learns first."""

    groups: str = "clusters"  # or the most frequent labels, random buckets, or none: the vectors stay as they start
    count: int = 0  # of groups; 0: a power of two that leaves 36 pairs of text and label a group, at most 65,536
    epochs: int = 0  # 0: five sevenths of all
    learning_rate: float = 0.0  # 0: learning_rate
    halve_after: float = 0.7  # share of its epochs until the learning rate is first halved


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """Modules III and IV: what the classifier of all labels learns."""

    epochs: int = 0  # 0: two sevenths of all
    learning_rate: float = 0.0  # 0: three tenths of learning_rate
    halve_after: float = 0.5
    negatives: str = "shortlist"  # and random ones; or random ones alone: uniform, or unigram (by frequency^0.75)
    random: int = 150  # random negatives a text
    transfer: str = "residual"  # or unbounded, full (no skip), none
    fine_tuned: bool = False  # the encoder goes on learning, and the shortlist is made anew in the end


@dataclass(frozen=True, kw_only=True)
class Config:
    epochs: int = 0  # of both stages; 0: from 14 for half a million texts and more to 42 for a few
    batch_size: int = 0  # 0: 256, less for small data
    learning_rate: float = 0.01  # of the surrogate task
    seed: int = 29
    encoder: str = "bag"  # or inception, cnn, mlp; dense for dense features
    attention: bool = True  # inception's two attention layers
    length: int = 0  # words of a text that are read; 0: as many as 99.5 % of texts have, at most 32 where order counts
    embedding: int = 300
    permutation: int = 0  # a seed that puts the dimensions of `vectors` in another order; 0: as they are
    dropout: float = 0.5
    surrogate: Surrogate = Surrogate()
    shortlister: str = "nearest"  # or clusters, learnt on the encoder's vectors
    shortlist: Nearness = Nearness()
    label_texts: int = 0  # places of the shortlist for labels whose own texts share words with a text
    extreme: Extreme = Extreme()
    prior: bool = True  # start biases at the log-odds of groups and labels, not near 0
    beta: float = -1.0  # the classifier's share of a score; -1: the best on the validation split, or 0.6
    votes: float = -1.0  # the neighbours' share of nearness; -1: the best on the validation split, or the shortlist's
    validation: float = 0.05  # share of training texts that choose epoch, beta and votes; 0: the last epoch is kept
    vectors: str = ""  # a file of word vectors to start from
    clustering: Clustering = Clustering(walks=50, restart=0.2)
    text: Splitter = Splitter()
    vocabulary: VocabularyConfig = VocabularyConfig()

    def __post_init__(self) -> None:
        bounds = {name: bound for name, bound in BOUNDS.items() if name != "classifier_dropout"}
        check_within(self, bounds | {"beta": (-1, 1), "votes": (-1, 1), "label_texts": (0, self.shortlist.size - 1)})
        check_known(self, {"encoder": ENCODERS, "shortlister": SHORTLISTERS})
        check_subwords(self.encoder, self.vocabulary)
        check_known(self.surrogate, {"groups": GROUPS})
        check_known(self.extreme, {"transfer": TRANSFERS, "negatives": NEGATIVES})
        if self.surrogate.groups == "none" and not self.vectors:
            raise ConfigError("surrogate.groups=none keeps word vectors as they are; give some with vectors=FILE")
        if self.extreme.fine_tuned and self.shortlister != "nearest":
            raise ConfigError(
                "extreme.fine_tuned moves the vectors that shortlister=clusters was learnt on; use nearest"
            )


def train(data: Dataset, config: Config, run: Run) -> Trained:
    config = sized(config, len(data), data.num_labels, usual_length(data, config, "astec"), int(data.labels.nnz))
    _announce(config, data, run)
    learn, held = data.split(config.validation, config.seed)
    with torch.random.fork_rng([]):
        torch.manual_seed(config.seed)
        encoder = build_encoder(config, data.inputs.shape[1])
    start_encoder(encoder, config, learn)
    parts = Parts(
        encoder=encoder,
        surrogate=_surrogate(config),
        shortlister=_shortlisting(config).made,
        transform=partial(_transform, config, encoder.dim),
        random=config.extreme.random,
        length=config.length,
        seed=config.seed,
        beta=USUAL_BETA if config.beta < 0 else config.beta,
        hard=config.extreme.negatives == "shortlist",
        likely=torch.from_numpy(learn.label_counts**0.75) if config.extreme.negatives == "unigram" else None,
        fine_tuned=config.extreme.fine_tuned,
        prior=config.prior,
    )
    plans = Plans(_plan(config, config.surrogate), _plan(config, config.extreme))
    learnt = train_four_modules(learn, held, parts, plans, run)
    facts: dict[str, Any] = {"best_epoch": learnt.extreme.best_epoch, "epochs": learnt.extreme.history}
    if learnt.surrogate is not None:
        facts["surrogate"] = learnt.surrogate.history
    ranker, blend = _blended(learnt.ranker, config, held)
    config, facts = replace(config, beta=blend.beta, votes=blend.votes), facts | {"blends": blend.tried}

    return Trained(ranker, config, {"training": facts})


class _Blend(NamedTuple):
    votes: float
    beta: float
    tried: dict[str, float]  # nDCG@5 of each beta with the best share of votes, and of each share with its best beta


def _blended(ranker: CandidatesRanker, config: Config, held: Dataset) -> tuple[CandidatesRanker, _Blend]:
    """The ranker with the shares that are given, or that are best on held-out texts."""
    votes = VOTES if config.votes < 0 else (config.votes,)
    betas = BETAS if config.beta < 0 else (config.beta,)
    if not len(held) or len(votes) * len(betas) == 1:
        usual = config.shortlist.neighbour_weight if config.votes < 0 else config.votes
        blend = _Blend(usual, USUAL_BETA if config.beta < 0 else config.beta, {})
    else:
        found = {share: best_beta(ranker.listing(weighing(ranker.shortlister, share)), held, betas) for share in votes}
        best = max(found, key=lambda share: next(iter(found[share].values())))
        tried = {f"beta {beta}": score for beta, score in found[best].items()}
        tried |= {f"votes {share}": next(iter(scores.values())) for share, scores in found.items()}
        blend = _Blend(best, next(iter(found[best])), tried)
    listing = ranker.listing(weighing(ranker.shortlister, blend.votes))
    return listing.blended(blend.beta).eval(), blend


def restore(config: Config, tensors: Mapping[str, Tensor]) -> CandidatesRanker:
    """The ranker from its state_dict, whose shapes say how large it is."""

    beta = float(tensor_of(tensors, "beta", torch.float32).flatten()[:1].sum()) if config.beta < 0 else config.beta

    def make() -> CandidatesRanker:
        num_labels, dim = tensors["classifier.weight"].shape
        encoder = build_encoder(*sizes_in(config, tensors))
        shortlister = _shortlisting(config).restored(tensors, encoder, num_labels)
        classifier = LinearClassifier(dim, num_labels, transform=_transform(config, encoder.dim))
        return CandidatesRanker(encoder, shortlister, classifier, beta=0.0)

    if not config.shortlist.neighbour_power:  # a model from before votes could be chosen: they are the shortlist's
        tensors = {"shortlister.neighbour_weight": torch.tensor(config.shortlist.neighbour_weight), **tensors}
    may_be_empty = {name for name in tensors if name.startswith("shortlister.")}  # no neighbours, labels without texts
    ranker = filled("astec", make, tensors, may_be_empty)
    if config.votes >= 0:
        ranker = ranker.listing(weighing(ranker.shortlister, config.votes))
    return ranker.blended(beta).eval()


def sized(config: Config, texts: int, labels: int, usual: int, pairs: int) -> Config:
    """The config with a number wherever the data decides; `usual` is how many words 99.5 % of texts do not exceed,
    `pairs` how many labels all texts have together.
    """
    epochs = config.epochs or round(np.clip(14 * (485_000 / max(texts, 1)) ** 0.5, 14, 42))
    # Groups are to be well fed: this gives the paper's 65,536 for its AmazonTitles-670K.
    count = config.surrogate.count or 1 << int(np.log2(np.clip(pairs // _PAIRS_A_GROUP, 1, min(labels, 65_536))))
    surrogate = replace(
        config.surrogate,
        count=min(count, labels),
        epochs=config.surrogate.epochs or max(1, round(epochs * 5 / 7)),
        learning_rate=config.surrogate.learning_rate or config.learning_rate,
    )
    extreme = replace(
        config.extreme,
        epochs=config.extreme.epochs or max(1, round(epochs * 2 / 7)),
        learning_rate=config.extreme.learning_rate or 0.3 * config.learning_rate,
    )
    return replace(
        config,
        epochs=surrogate.epochs + extreme.epochs,
        batch_size=sized_batch(config.batch_size, texts, 256),
        length=sized_length(config.length, usual, bag=config.encoder in UNORDERED),
        surrogate=surrogate,
        shortlist=replace(config.shortlist, neighbour_power=config.shortlist.neighbour_power or 3.0),
        extreme=extreme,
    )


def staged_shape(config: Config, words: int, labels: int, texts: int) -> StagedShape:
    return StagedShape(
        words=words,
        labels=labels,
        groups=0 if config.surrogate.groups == "none" else config.surrogate.count,
        texts=texts,
        length=config.length,
        dim=config.embedding,
        batch=config.batch_size,
        shortlist=config.extreme.random + config.shortlist.size * (config.extreme.negatives == "shortlist"),
        neighbours=config.shortlister == "nearest" and config.shortlist.neighbours > 0,
    )


def _announce(config: Config, data: Dataset, run: Run) -> None:
    shape = staged_shape(config, data.inputs.shape[1], data.num_labels, len(data))
    machine = training_machine(run.device)
    narrow = replace(shape, dim=min(shape.dim, 128))
    few = replace(shape, shortlist=min(shape.shortlist, 200 + config.extreme.random), neighbours=False)
    remedies = {
        "--set shortlist.size=200 and --set shortlist.neighbours=0": staged_memory(few),
        "--set embedding=128": staged_memory(narrow),
        "--set embedding=64 and --set shortlist.neighbours=0": staged_memory(replace(few, dim=min(shape.dim, 64))),
    }
    epochs = config.surrogate.epochs, config.extreme.epochs
    run.announce(staged_memory(shape), staged_seconds(shape, epochs=epochs, machine=machine), remedies)


def _plan(config: Config, stage: Surrogate | Extreme) -> Plan:
    return Plan(
        epochs=stage.epochs,
        batch_size=config.batch_size,
        learning_rate=stage.learning_rate,
        schedule=Halving(after=stage.halve_after),
        lazy=True,
        seed=config.seed,
    )


def _transform(config: Config, dim: int) -> nn.Module:
    kind = config.extreme.transfer
    if kind == "none":
        return nn.Identity()
    return Transfer(dim, dropout=config.dropout, bounded=kind == "residual", skip=kind != "full")


def _shortlisting(config: Config) -> Shortlisting:
    return Shortlisting(
        kind=config.shortlister,
        nearness=config.shortlist,
        label_texts=config.label_texts,
        transform=partial(_transform, config),
        clusters=lambda data: _tree(config, data, max(data.num_labels // 6, 1)),
        plan=lambda: _plan(config, replace(config.surrogate, epochs=config.extreme.epochs)),
        seed=config.seed,
    )


def _surrogate(config: Config) -> Callable[[Dataset], csr_array] | None:
    count = config.surrogate.count
    kinds: dict[str, Callable[[Dataset], csr_array] | None] = {
        "clusters": lambda data: of_tree(_tree(config, data, count)),
        "frequent": lambda data: frequent_labels(data, count),
        "random": lambda data: random_buckets(data.num_labels, count, config.seed),
        "none": None,
    }
    return kinds[config.surrogate.groups]


def _tree(config: Config, data: Dataset, most: int) -> LabelTree:
    """Of as many clusters as the largest power of two up to `most`."""
    own = config.seed if config.clustering.seed < 0 else config.clustering.seed
    return cluster_labels(data, 1 << int(np.log2(most)), config.clustering, own)
