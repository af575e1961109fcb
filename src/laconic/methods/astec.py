"""Astec: DeepXML with a bag of words, clusters of labels as the surrogate, nearest labels as the shortlist (section 4).

Defaults are those of the code behind the paper's figures (docs/papers/deepxml.md lists the differences); what depends
on the size of the data is 0 here and chosen by `with_sizes`. The paper's ablations are in astec_ablations.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from laconic.config import Bounds, Choices, check_known, check_within
from laconic.data.dataset import Dataset
from laconic.errors import ConfigError, DataError
from laconic.methods import siamese
from laconic.methods.astec_ablations import (
    GROUPS,
    NEGATIVES,
    TRANSFERS,
    negative_frequencies,
    surrogate_groups,
    transfer_layer,
)
from laconic.methods.common import (
    build_encoder,
    choose_batch_size,
    choose_length,
    clusters_of_labels,
    restore_module,
    seeded,
    sizes_from,
    start_encoder,
    usual_length,
)
from laconic.methods.config import NEURAL_BOUNDS, EncoderConfig, WarmUp
from laconic.methods.costs import Machine, TrainingCosts, bag_reading, report_costs, transformer_macs, with_warm_up
from laconic.methods.deepxml import Parts, Plans, scores_by_beta
from laconic.methods.deepxml import train as train_four_modules
from laconic.methods.label_shortlist import SHORTLISTERS, Shortlisting, with_neighbour_weight
from laconic.methods.result import Trained
from laconic.methods.transformer import encoder_plan
from laconic.methods.warm_up import check_label_texts, warm_up
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import Clustering, LabelTree
from laconic.models.encoders import ENCODERS
from laconic.models.rankers import CandidatesRanker
from laconic.models.shortlisters.labels import Nearness
from laconic.models.shortlisters.nearest import tensor_of
from laconic.training.loop import check_optimiser
from laconic.training.optimizer import OPTIMISERS, Halving, Plan
from laconic.training.run import Run

BETAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)
VOTES = (0.075, 0.25, 0.5, 0.75, 0.9, 1.0)
_SEARCH = 5.0  # operations for each number of a vector that a text is compared with
_CLUSTERING = 1e7  # bytes that are moved for each label, most of them in random walks
USUAL_BETA = 0.6  # where nothing is held out to choose it
_PAIRS_PER_GROUP = 36  # of text and label, at least
_REMEDIES = (
    {"shortlist.size": 200, "shortlist.neighbours": 0},
    {"embedding": 128},
    {"embedding": 64, "shortlist.size": 200, "shortlist.neighbours": 0},
)


@dataclass(frozen=True, kw_only=True)
class Surrogate:
    """Settings of module I, in which the encoder learns."""

    bounds: ClassVar[Bounds] = {**NEURAL_BOUNDS, "count": (0, 1 << 30), "learning_rate": (0, 100)}
    choices: ClassVar[Choices] = {"groups": GROUPS}

    groups: str = "clusters"
    """What the encoder learns to predict: clusters of labels, the most frequent labels, random buckets of labels, or
    nothing, which keeps the word vectors of `vectors` fixed.
    """
    count: int = 0
    """Number of groups. 0: a power of two that leaves 36 pairs of text and label per group, at most 65,536. Symbol: L̂
    (DeepXML, section 3).
    """
    epochs: int = 0
    """Epochs of this module. 0: five sevenths of all epochs."""
    learning_rate: float = 0.0
    """Learning rate of this module. 0: the method's `learning_rate`."""
    halve_after: float = 0.7
    """Fraction of the epochs after which the learning rate is halved for the first time."""


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """Settings of modules III and IV, in which the classifier of all labels learns."""

    bounds: ClassVar[Bounds] = {**NEURAL_BOUNDS, "random": (0, 1 << 30), "learning_rate": (0, 100)}
    choices: ClassVar[Choices] = {"transfer": TRANSFERS, "negatives": NEGATIVES, "optimiser": OPTIMISERS}

    epochs: int = 0
    """Epochs of these modules. 0: two sevenths of all epochs."""
    learning_rate: float = 0.0
    """Learning rate of these modules. 0: three tenths of the method's `learning_rate`."""
    halve_after: float = 0.5
    """Fraction of the epochs after which the learning rate is halved for the first time."""
    negatives: str = "shortlist"
    """Negative labels of a text: those of its shortlist with random ones, or random ones alone, drawn uniformly or by
    frequency^0.75 (unigram).
    """
    random: int = 150
    """Random negative labels per text."""
    transfer: str = "residual"
    """Layer between encoder and classifier: residual with a bounded spectral norm, the same without the bound, a full
    layer without a skip, or none.
    """
    fine_tuned: bool = False
    """Whether the encoder is trained too, after which the shortlist is built again."""
    optimiser: str = "adam"
    """Optimiser of the label rows; adam-bf16 and adagrad-bf16 need less memory and run on a GPU only."""


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """Settings of Astec."""

    bounds: ClassVar[Bounds] = {**EncoderConfig.bounds, "beta": (-1, 1), "votes": (-1, 1)}
    choices: ClassVar[Choices] = {**EncoderConfig.choices, "shortlister": SHORTLISTERS}

    epochs: int = 0
    """Epochs of all modules together. 0: from 14 for half a million texts and more to 42 for a few."""
    batch_size: int = 0
    """Texts per training step. 0: 256, fewer for small data."""
    learning_rate: float = 0.01
    """Learning rate of the surrogate task."""
    surrogate: Surrogate = Surrogate()
    """Module I, in which the encoder learns."""
    shortlister: str = "nearest"
    """How labels are shortlisted: by nearest centroids and texts, by clusters learnt on the encoder's vectors, or by
    their own texts, in a space that is learnt first (siamese).
    """
    shortlist: Nearness = Nearness()
    """Module II, the search for the nearest labels."""
    label_texts: int = 0
    """Shortlist entries for labels whose own texts share words with a text; fewer than `shortlist.size`."""
    extreme: Extreme = Extreme()
    """Modules III and IV, in which the classifier of all labels learns."""
    prior: bool = True
    """Whether biases start at the log-odds of groups and labels instead of near 0."""
    beta: float = -1.0
    """Weight of the classifier's score against the shortlist's. -1: the best on the validation split, or 0.6 without
    one. Symbol: α (DeepXML, appendix A.1).
    """
    votes: float = -1.0
    """Weight of neighbours in nearness. -1: the best on the validation split, or the shortlist's own weight without
    one.
    """
    clustering: Clustering = Clustering(walks=50, restart=0.2)
    """How labels are clustered for the surrogate task."""
    warm_up: WarmUp = WarmUp()
    """Training of the encoder by contrast of texts and label texts, before its own training."""
    row_start: float = 0.0
    """How much a label's score is above its bias at first, for a text whose vector is that of the label's own text. 0:
    rows start at random.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_within(self, {"label_texts": (0, self.shortlist.size - 1)})
        check_within(self.surrogate, self.surrogate.bounds, "surrogate.")
        check_known(self.surrogate, self.surrogate.choices)
        check_within(self.extreme, self.extreme.bounds, "extreme.")
        check_known(self.extreme, self.extreme.choices)
        if self.surrogate.groups == "none" and not self.vectors and self.encoder in ENCODERS:
            raise ConfigError("surrogate.groups=none keeps word vectors fixed; give some with vectors=FILE")
        if self.transformer.frozen:
            raise ConfigError("transformer.frozen is not for astec: surrogate.groups=none leaves the encoder as it is")
        if self.surrogate.groups == "none" and self.warm_up.epochs:
            raise ConfigError("surrogate.groups=none keeps word vectors fixed, but warm_up.epochs trains them; use one")
        if self.extreme.fine_tuned and self.shortlister != "nearest":
            raise ConfigError(
                f"extreme.fine_tuned builds the shortlist again, but shortlister={self.shortlister} is trained once; "
                "use nearest"
            )
        if self.label_texts and self.shortlister == "siamese":
            raise ConfigError("shortlister=siamese finds labels by their texts already; leave label_texts at 0")


def train(data: Dataset, config: Config, run: Run) -> Trained:
    config = with_sizes(config, len(data), data.num_labels, usual_length(data, config, "astec"), int(data.labels.nnz))
    sizes = {"words": data.inputs.shape[1], "labels": data.num_labels, "texts": len(data)}
    report_costs(run, config, partial(training_costs, **sizes, ranks=run.ranks.world), _REMEDIES)
    check_label_texts(data, config.warm_up, config.row_start)
    if config.shortlister == "siamese" and not siamese.suits(data):
        raise DataError("shortlister=siamese needs labels with texts, but this data has none; use nearest")
    plans = Plans(
        _plan(config, config.surrogate, **encoder_plan(config)),
        _plan(config, config.extreme, optimiser=config.extreme.optimiser),
    )
    check_optimiser(plans.extreme, run.device)  # before the stages that come first
    learn, held = data.split(config.validation, config.seed)
    with seeded(config.seed):
        encoder = build_encoder(config, data.inputs.shape[1])
    start_encoder(encoder, config, learn)
    parts = Parts(
        encoder=encoder,
        surrogate=surrogate_groups(
            config.surrogate.groups, config.surrogate.count, config.seed, partial(_tree, config)
        ),
        shortlister=_shortlisting(config).make,
        transform=partial(_transform, config, encoder.dim),
        random=config.extreme.random,
        length=config.length,
        seed=config.seed,
        beta=USUAL_BETA if config.beta < 0 else config.beta,
        hard=config.extreme.negatives == "shortlist",
        likely=negative_frequencies(config.extreme.negatives, learn),
        fine_tuned=config.extreme.fine_tuned,
        prior=config.prior,
        row_start=config.row_start,
    )
    warm_up("warm-up", encoder.to(run.device), learn, config.warm_up, config, run)
    learnt = train_four_modules(learn, held, parts, plans, run)
    facts: dict[str, Any] = {"best_epoch": learnt.extreme.best_epoch, "epochs": learnt.extreme.history}
    if learnt.surrogate is not None:
        facts["surrogate"] = learnt.surrogate.history
    with run.stage("blend"):
        ranker, blend = _with_best_weights(learnt.ranker, config, held)
    config, facts = replace(config, beta=blend.beta, votes=blend.votes), facts | {"blends": blend.tried}
    return Trained(ranker, config, {"training": facts})


class _Blend(NamedTuple):
    votes: float
    beta: float
    tried: dict[str, float]  # nDCG@5 of each beta with the best votes, and of each votes with its best beta


def _with_best_weights(ranker: CandidatesRanker, config: Config, held: Dataset) -> tuple[CandidatesRanker, _Blend]:
    """Return the ranker with the weights of the config, or with those that are best on held-out texts."""
    votes = VOTES if config.votes < 0 else (config.votes,)
    betas = BETAS if config.beta < 0 else (config.beta,)
    if not len(held) or len(votes) * len(betas) == 1:
        usual = config.shortlist.neighbour_weight if config.votes < 0 else config.votes
        blend = _Blend(usual, USUAL_BETA if config.beta < 0 else config.beta, {})
    else:
        found = {vote: scores_by_beta(_listing(ranker, vote), held, betas) for vote in votes}
        best = max(found, key=lambda vote: next(iter(found[vote].values())))
        tried = {f"beta {beta}": score for beta, score in found[best].items()}
        tried |= {f"votes {vote}": next(iter(scores.values())) for vote, scores in found.items()}
        blend = _Blend(best, next(iter(found[best])), tried)
    return _listing(ranker, blend.votes).blended(blend.beta).eval(), blend


def _listing(ranker: CandidatesRanker, votes: float) -> CandidatesRanker:
    return ranker.listing(with_neighbour_weight(ranker.shortlister, votes))


def restore(config: Config, tensors: Mapping[str, Tensor]) -> CandidatesRanker:
    """Restore the ranker from its state_dict, whose shapes give its sizes."""
    beta = float(tensor_of(tensors, "beta", torch.float32).flatten()[:1].sum()) if config.beta < 0 else config.beta

    def make() -> CandidatesRanker:
        num_labels, dim = tensors["classifier.weight"].shape
        encoder = build_encoder(*sizes_from(tensors, config))
        shortlister = _shortlisting(config).restore(tensors, encoder, num_labels)
        classifier = LinearClassifier(dim, num_labels, transform=_transform(config, encoder.dim))
        return CandidatesRanker(encoder, shortlister, classifier, beta=0.0)

    if not config.shortlist.neighbour_power:  # older models have the shortlist's fixed weight
        tensors = {"shortlister.neighbour_weight": torch.tensor(config.shortlist.neighbour_weight), **tensors}
    may_be_empty = {name for name in tensors if name.startswith("shortlister.")}  # no neighbours, labels without texts
    ranker = restore_module("astec", make, tensors, may_be_empty)
    if config.votes >= 0:
        ranker = _listing(ranker, config.votes)
    return ranker.blended(beta).eval()


def with_sizes(config: Config, texts: int, labels: int, usual: int, pairs: int) -> Config:
    """Return the config with a value wherever the data decides.

    `usual` is the 99.5 % quantile of words per text, `pairs` the number of labels of all texts together.
    """
    epochs = config.epochs or round(np.clip(14 * (485_000 / max(texts, 1)) ** 0.5, 14, 42))
    # Every group should have enough pairs: this gives the paper's 65,536 for its AmazonTitles-670K.
    count = config.surrogate.count or 1 << int(np.log2(np.clip(pairs // _PAIRS_PER_GROUP, 1, min(labels, 65_536))))
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
        batch_size=choose_batch_size(config.batch_size, texts, 256),
        length=choose_length(config.length, usual, encoder=config.encoder),
        surrogate=surrogate,
        shortlist=replace(config.shortlist, neighbour_power=config.shortlist.neighbour_power or 3.0),
        extreme=extreme,
    )


def training_costs(
    config: Config, machine: Machine, *, words: int, labels: int, texts: int, ranks: int = 1
) -> TrainingCosts:
    """Estimate the memory of the largest stage, and the time of both stages and of the exact search between them.

    Several ranks share rows of groups and labels; each has the centroids of all labels.
    """
    dim, batch = config.embedding, config.batch_size
    groups = 0 if config.surrogate.groups == "none" else config.surrogate.count
    listed = config.extreme.random + config.shortlist.size * (config.extreme.negatives == "shortlist")
    neighbours = has_neighbours(config)
    kept = dim * (1 + neighbours) + 2 * config.length + listed  # of every text, beside four numbers per parameter
    rows = words + -(-max(groups, labels) // ranks) + (ranks > 1) * labels // 4  # centroids are not trained
    memory = 16 * rows * dim + 4 * texts * kept + 12 * batch * max(groups, listed)
    seconds = sum(stage_seconds(config, machine, words=words, labels=labels, texts=texts).values())
    costs = TrainingCosts(memory, seconds)
    if config.shortlister == "siamese":
        settings = siamese.sized(siamese.space_config(dim, config), texts, config.length)
        space = siamese.training_costs(settings, machine, words=words, labels=labels, texts=texts)
        costs = TrainingCosts(max(costs.memory, space.memory), costs.seconds + space.seconds)
    return with_warm_up(costs, config.warm_up, bag_reading(words, config), texts=texts, machine=machine)


def stage_seconds(
    config: Config, machine: Machine, *, words: int, labels: int, texts: int, held: int = 0
) -> dict[str, float]:
    """Estimate the time of each stage, by its name in a run; `held` texts choose the best epoch of the last one."""
    dim, batch, steps = config.embedding, config.batch_size, -(-texts // config.batch_size)
    groups = 0 if config.surrogate.groups == "none" else config.surrogate.count
    is_hard = config.extreme.negatives == "shortlist"
    listed = config.extreme.random + config.shortlist.size * is_hard
    met, scored = min(words, batch * config.length), batch * listed
    surrogate = 6 * batch * (groups * dim + transformer_macs(config)) / machine.flops
    surrogate += 28 * (groups + met) * dim / machine.bandwidth + machine.launch
    extreme = (8 * 12 * scored + 28 * min(labels, scored)) * dim / machine.bandwidth + machine.launch
    search = _SEARCH * (labels + texts * has_neighbours(config)) * dim / machine.flops  # for one text
    return {
        "surrogate-groups": _CLUSTERING * labels / machine.bandwidth * (groups > 0),
        "surrogate": config.surrogate.epochs * steps * surrogate * (groups > 0),
        "negatives": texts * search * is_hard,
        "extreme": config.extreme.epochs * (steps * extreme + held * search),
        "blend": (held * search) * (len(VOTES) if config.votes < 0 else 1),
    }


def has_neighbours(config: Config) -> bool:
    """Return whether vectors of training texts are kept."""
    return config.shortlister == "nearest" and config.shortlist.neighbours > 0


def shortlists_by_text(config: Config) -> bool:
    """Return whether labels are shortlisted by their own texts."""
    return config.label_texts > 0 or config.shortlister == "siamese"


def _plan(config: Config, stage: Surrogate | Extreme, **more: Any) -> Plan:
    more = {"schedule": Halving(after=stage.halve_after), **more}
    return config.plan(epochs=stage.epochs, learning_rate=stage.learning_rate, lazy=True, **more)


def _transform(config: Config, dim: int) -> nn.Module:
    return transfer_layer(config.extreme.transfer, dim, config.dropout)


def _shortlisting(config: Config) -> Shortlisting:
    return Shortlisting(
        kind=config.shortlister,
        nearness=config.shortlist,
        label_texts=config.label_texts,
        transform=partial(_transform, config),
        clusters=lambda data: _tree(config, data, max(data.num_labels // 6, 1)),
        plan=lambda: _plan(config, replace(config.surrogate, epochs=config.extreme.epochs)),
        space=siamese.space_config(config.embedding, config),
        seed=config.seed,
    )


def _tree(config: Config, data: Dataset, most: int) -> LabelTree:
    """Cluster the labels into as many clusters as the largest power of two up to `most`."""
    return clusters_of_labels(data, 1 << int(np.log2(most)), config.clustering, config.seed)
