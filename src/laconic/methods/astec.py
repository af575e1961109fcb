"""Astec: DeepXML with a bag of words, clusters of labels as the surrogate, nearest labels as the shortlist (section 4).

Defaults are those of the code behind the paper's figures (docs/methods.md has the differences); what depends on the
size of the data is 0 here and chosen by `sized`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.classifiers import LinearClassifier
from laconic.clustering import Clustering, LabelTree, cluster_labels
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.encoders import ENCODERS, Encoder, Identity
from laconic.errors import ConfigError, DataError
from laconic.layers import Transfer
from laconic.methods.deepxml import Parts, Plans, best_beta
from laconic.methods.deepxml import train as train_four_modules
from laconic.methods.parts import (
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
from laconic.methods.trained import Trained
from laconic.optim import Halving, Plan
from laconic.rankers import CandidatesRanker
from laconic.run import Run
from laconic.shortlisters.base import Shortlister
from laconic.shortlisters.clusters import Clusters, OfClusters
from laconic.shortlisters.label_texts import WithLabelTexts
from laconic.shortlisters.labels import NearestLabels, Nearness
from laconic.shortlisters.nearest import tensor_of
from laconic.tasks import AllLabels

BETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)
GROUPS = ("clusters", "frequent", "random", "none")
TRANSFERS = ("residual", "unbounded", "full", "none")
SHORTLISTERS = ("nearest", "clusters")
NEGATIVES = ("shortlist", "uniform", "unigram")


@dataclass(frozen=True, kw_only=True)
class Surrogate:
    """Module I: what the encoder learns first."""

    groups: str = "clusters"  # or the most frequent labels, random buckets, or none: the vectors stay as they start
    count: int = 0  # of groups; 0: 65,536, less for fewer labels
    epochs: int = 0  # 0: four sevenths of all
    learning_rate: float = 0.0  # 0: learning_rate
    halve_after: float = 0.7  # share of its epochs until the learning rate is first halved


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """Modules III and IV: what the classifier of all labels learns."""

    epochs: int = 0  # 0: three sevenths of all
    learning_rate: float = 0.0  # 0: a tenth of learning_rate
    halve_after: float = 0.93
    negatives: str = "shortlist"  # and random ones; or random ones alone: uniform, or unigram (by frequency^0.75)
    random: int = 150  # random negatives a text
    transfer: str = "residual"  # or unbounded, full (no skip), none
    fine_tuned: bool = False  # the encoder goes on learning, and the shortlist is made anew in the end


@dataclass(frozen=True, kw_only=True)
class Config:
    epochs: int = 0  # of both stages; 0: from 35 for half a million texts and more to 105 for a few
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
    prior: bool = False  # start biases at the log-odds of groups and labels, not near 0
    beta: float = 0.0  # the classifier's share of a score; 0: the best on the validation split, or 0.6
    validation: float = 0.05  # share of training texts that choose epoch and beta; 0: the last epoch is kept
    vectors: str = ""  # a file of word vectors to start from
    clustering: Clustering = Clustering(walks=50, restart=0.2)
    text: Splitter = Splitter()
    vocabulary: VocabularyConfig = VocabularyConfig()

    def __post_init__(self) -> None:
        bounds = {name: bound for name, bound in BOUNDS.items() if name != "classifier_dropout"}
        check_within(self, bounds | {"beta": (0, 1), "label_texts": (0, self.shortlist.size - 1)})
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
    config = sized(config, len(data), data.num_labels, usual_length(data, config, "astec"))
    learn, held = data.split(config.validation, config.seed)
    with torch.random.fork_rng([]):
        torch.manual_seed(config.seed)
        encoder = build_encoder(config, data.inputs.shape[1])
    start_encoder(encoder, config, learn)
    parts = Parts(
        encoder=encoder,
        surrogate=_surrogate(config),
        shortlister=_shortlister(config),
        transform=lambda: _transform(config, encoder.dim),
        random=config.extreme.random,
        length=config.length,
        seed=config.seed,
        beta=config.beta or 0.6,
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
    if not config.beta:
        found = best_beta(learnt.ranker, held, BETAS) if len(held) else {0.6: 0.0}
        config = replace(config, beta=next(iter(found)))
        facts["betas"] = {str(beta): score for beta, score in found.items()}
    return Trained(learnt.ranker.blended(config.beta).eval(), config, {"training": facts})


def restore(config: Config, tensors: Mapping[str, Tensor]) -> CandidatesRanker:
    """The ranker from its state_dict, whose shapes say how large it is."""

    beta = float(tensor_of(tensors, "beta", torch.float32).flatten()[:1].sum()) if not config.beta else config.beta

    def make() -> CandidatesRanker:
        num_labels, dim = tensors["classifier.weight"].shape
        encoder = build_encoder(*sizes_in(config, tensors))
        shortlister = _restored_shortlister(config, tensors, encoder, num_labels)
        classifier = LinearClassifier(dim, num_labels, transform=_transform(config, encoder.dim))
        return CandidatesRanker(encoder, shortlister, classifier, beta=0.0)

    may_be_empty = {name for name in tensors if name.startswith("shortlister.")}  # no neighbours, labels without texts
    return filled("astec", make, tensors, may_be_empty).blended(beta).eval()


def _restored_shortlister(
    config: Config, tensors: Mapping[str, Tensor], encoder: Encoder, num_labels: int
) -> Shortlister:
    name = "shortlister.others" if config.label_texts else "shortlister"
    shortlister: Shortlister
    if config.shortlister == "clusters":
        tree = LabelTree(order=tensors[f"{name}.clusters.order"], starts=tensors[f"{name}.clusters.starts"])
        tree.check()
        if len(tree.order) != num_labels:
            raise ValueError(f"{name}.clusters.order has {len(tree.order)} labels, classifier.weight {num_labels}")
        shortlister = _of_clusters(config, encoder.dim, tree)
    else:
        shortlister = NearestLabels.of_tensors(tensors, name, config.shortlist, num_labels)
        if shortlister.centres.shape[1] != encoder.dim:
            raise ValueError(f"{name}.centres are {shortlister.centres.shape[1]} wide, vectors {encoder.dim}")
    if not config.label_texts:
        return shortlister
    return WithLabelTexts.of_tensors(tensors, "shortlister", shortlister, config.label_texts, encoder.num_ids)


def sized(config: Config, texts: int, labels: int, usual: int) -> Config:
    """The config with a number wherever the data decides; `usual` is how many words 99.5 % of texts do not exceed."""
    epochs = config.epochs or round(np.clip(35 * (485_000 / max(texts, 1)) ** 0.5, 35, 105))
    count = config.surrogate.count or 1 << int(np.log2(np.clip(labels // 6, 1, 65_536)))
    surrogate = replace(
        config.surrogate,
        count=min(count, labels),
        epochs=config.surrogate.epochs or max(1, round(epochs * 4 / 7)),
        learning_rate=config.surrogate.learning_rate or config.learning_rate,
    )
    extreme = replace(
        config.extreme,
        epochs=config.extreme.epochs or max(1, round(epochs * 3 / 7)),
        learning_rate=config.extreme.learning_rate or config.learning_rate / 10,
    )
    return replace(
        config,
        epochs=surrogate.epochs + extreme.epochs,
        batch_size=sized_batch(config.batch_size, texts, 256),
        length=sized_length(config.length, usual, bag=config.encoder in UNORDERED),
        surrogate=surrogate,
        extreme=extreme,
    )


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


def _shortlister(config: Config) -> Callable[[Dataset, Float[Tensor, "texts dim"], Run], Shortlister]:
    def made(data: Dataset, vectors: Float[Tensor, "texts dim"], run: Run) -> Shortlister:
        learnt = config.shortlister == "clusters"
        shortlister = (
            _learnt_clusters(config, data, vectors, run)
            if learnt
            else NearestLabels.of(vectors.to(run.device), data.labels, config.shortlist, config.seed)
        )
        if not config.label_texts:
            return shortlister
        if data.label_inputs is None:
            raise DataError("label_texts wants labels with texts, but this data has none; leave label_texts at 0")
        return WithLabelTexts.of(shortlister, config.label_texts, data.label_inputs, run.device)

    return made


def _learnt_clusters(config: Config, data: Dataset, vectors: Float[Tensor, "texts dim"], run: Run) -> OfClusters:
    """A classifier over clusters of labels, as in InceptionXML+, but on vectors that are there already."""
    count = 1 << int(np.log2(max(data.num_labels // 6, 1)))
    made = run.remember("shortlister-tree", lambda: _of_tree(_tree(config, data, count)))
    tree = LabelTree(order=made["order"], starts=made["starts"])
    shortlister = _of_clusters(config, vectors.shape[1], tree).to(run.device)
    mapping = _mapping(tree.cluster_of().numpy(), tree.num_clusters)
    grouped = replace(data.relabelled(mapping), inputs=vectors.numpy())
    task = AllLabels(Identity(vectors.shape[1]), shortlister.clusters.classifier, dropout=0.0, chunk=65_536)
    plan = _plan(config, replace(config.surrogate, epochs=config.extreme.epochs))
    run.fit("shortlister", task.to(run.device), Resident.of(grouped, 0, run.device), plan)
    return shortlister


def _of_clusters(config: Config, dim: int, tree: LabelTree) -> OfClusters:
    classifier = LinearClassifier(dim, tree.num_clusters, transform=_transform(config, dim))
    return OfClusters(Clusters(classifier, tree), config.shortlist.size)


def _of_tree(tree: LabelTree) -> dict[str, Tensor]:
    return {"order": tree.order, "starts": tree.starts}


def _tree(config: Config, data: Dataset, count: int) -> LabelTree:
    own = config.seed if config.clustering.seed < 0 else config.clustering.seed
    return cluster_labels(data, count, config.clustering, own)


def _surrogate(config: Config) -> Callable[[Dataset], csr_array] | None:
    count, seed = config.surrogate.count, config.seed

    def clusters(data: Dataset) -> csr_array:
        power = 1 << int(np.log2(count))
        return _mapping(_tree(config, data, power).cluster_of().numpy(), power)

    def frequent(data: Dataset) -> csr_array:
        """Each of the most frequent labels is a group; the others are in none."""
        kept = np.argsort(-data.label_counts, kind="stable")[:count]
        ones = np.ones(len(kept), dtype=np.float32)
        return csr_array((ones, (kept, np.arange(len(kept)))), shape=(data.num_labels, count))

    def random(data: Dataset) -> csr_array:
        return _mapping(np.random.default_rng(seed).integers(count, size=data.num_labels), count)

    return {"clusters": clusters, "frequent": frequent, "random": random, "none": None}[config.surrogate.groups]


def _mapping(group_of: Int[np.ndarray, "labels"], count: int) -> csr_array:
    ones, starts = np.ones(len(group_of), dtype=np.float32), np.arange(len(group_of) + 1)
    return csr_array((ones, group_of, starts), shape=(len(group_of), count))
