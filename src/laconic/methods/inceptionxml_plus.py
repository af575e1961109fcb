"""InceptionXML+, also called SyncXML: InceptionXML's encoder for millions of labels (paper, section 5).

A meta-classifier ranks clusters of labels, an extreme classifier the labels of the best clusters. Both are trained
together, so negatives become harder as the meta-classifier improves. Defaults are those of Table 7 and of the code
behind the paper's figures; what depends on the size of the data is 0 here and chosen by `with_sizes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.config import Bounds, Choices
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.shards import Shard
from laconic.errors import ConfigError, ModelError
from laconic.evaluation.evaluate import validation_figures
from laconic.evaluation.shortlists import shortlist_figures
from laconic.methods.common import (
    build_encoder,
    choose_batch_size,
    choose_epochs,
    choose_length,
    clusters_of_labels,
    frequencies,
    remember_tree,
    restore_module,
    seeded,
    sizes_from,
    start_encoder,
    train_and_refit,
    usual_length,
)
from laconic.methods.config import PRECISIONS, TRANSFORMER, InceptionConfig
from laconic.methods.costs import Shape, report_inception_costs, report_transformer_costs
from laconic.methods.inception_ablations import HEADS, head_layer
from laconic.methods.result import Trained
from laconic.methods.transformer import encoded_if_frozen, encoder_plan
from laconic.methods.warm_up import before_rows, check_label_texts, start_rows, warm_up
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import Clustering, LabelTree
from laconic.models.rankers import ShortlistRanker
from laconic.models.shortlisters.clusters import Clusters, label_shard
from laconic.system.ranks import ALONE, Ranks
from laconic.training.loop import TrainState
from laconic.training.optimizer import OneCycle
from laconic.training.run import Run
from laconic.training.tasks import ClustersAndLabels
from laconic.units import counted

RANKINGS = ("extreme", "product")
_LABELS_PER_CLUSTER, _MOST_CLUSTERS = 6, 1 << 17  # give Table 7's numbers of clusters, except WikiTitles-500K's


@dataclass(frozen=True, kw_only=True)
class Config(InceptionConfig):
    """Settings of InceptionXML+."""

    bounds: ClassVar[Bounds] = {
        **InceptionConfig.bounds,
        "learning_rate": (0, 100),
        "clusters": (0, 1 << 30),
        "top": (0, 1 << 30),
        "answer_top": (0, 1 << 30),
        "detached": (0, 1),
        "cluster_dropout": (0, 0.99),
    }
    choices: ClassVar[Choices] = {**InceptionConfig.choices, "heads": HEADS, "ranking": RANKINGS}

    epochs: int = 0
    """Passes over the training texts. 0: from 8 for half a million texts and more to 67 for a few."""
    batch_size: int = 0
    """Texts per training step. 0: 256, fewer for small data."""
    learning_rate: float = 0.0
    """Learning rate at the peak of the cycle. 0: from 0.002 for short runs to the paper's 0.008. Symbol: lr_max
    (InceptionXML, Table 7).
    """
    clusters: int = 0
    """Clusters of labels, a power of two. 0: the largest that leaves 6 labels per cluster, at most 131,072. Symbol: L′
    (InceptionXML, Table 7).
    """
    top: int = 0
    """Best clusters whose labels are scored in training. 0: clusters^0.6, at most 800. Symbol: K (InceptionXML, section
    5).
    """
    answer_top: int = 0
    """Best clusters whose labels are scored in prediction. 0: as many as `top`. With more than `top`, labels are ranked
    by product.
    """
    ranking: str = "extreme"
    """How labels are ranked: by the extreme classifier's scores, or by their product with the meta-classifier's."""
    detached: float = 0.25
    """Fraction of training in which the encoder learns from clusters alone (InceptionXML, section 5.2)."""
    heads: str = "synchronised"
    """Layers before the two classifiers: one of the same kind before each, or those of LightXML, none before the
    clusters and a linear one before the labels.
    """
    cluster_dropout: float = 0.3
    """Probability that an input of the cluster rows is set to 0 in training."""
    bias: bool = False
    """Whether every label has a bias."""
    lazy: bool = False
    """Whether Adam skips words and labels without a gradient."""
    clustering: Clustering = Clustering()
    """How labels are clustered."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clusters & (self.clusters - 1):
            raise ConfigError(f"clusters must be a power of two (or 0, chosen by the data), but is {self.clusters}")
        if self.heads == "lightxml" and self.hidden:
            raise ConfigError("heads=lightxml has no layer whose width hidden could set")


def train(data: Dataset, config: Config, run: Run) -> Trained:
    check_label_texts(data, config.warm_up, config.row_start)
    config = with_sizes(config, len(data), data.num_labels, usual_length(data, config, "inceptionxml+"))
    words, labels, world = data.inputs.shape[1], data.num_labels, run.ranks.world

    def shape_of_rank(one: Config) -> Shape:
        shape = shape_of(one, words, labels)
        parts = {name: -(-getattr(shape, name) // world) for name in ("labels", "clusters", "top")}
        return replace(shape, **parts)

    if config.encoder == TRANSFORMER:
        report_transformer_costs(run, config, words=words, labels=labels // world, texts=len(data))
    else:
        # Nothing is gathered on a CPU: rows are read cluster by cluster.
        report_inception_costs(run, config, shape_of_rank, len(data), chunk=0, small_batch=64)
    return train_and_refit(_fit, data, config, run)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> ShortlistRanker:
    """Restore the ranker from its state_dict, whose shapes give its sizes."""
    try:
        tree = LabelTree(order=tensors["clusters.order"], starts=tensors["clusters.starts"])
    except KeyError as error:
        raise ModelError(f"the model's tensors are not those of inceptionxml+: {error} is missing") from None
    tree.check()

    def make() -> ShortlistRanker:
        num_labels, _ = tensors["classifier.weight"].shape
        if num_labels != len(tree.order):
            raise ValueError(f"classifier.weight has {num_labels} rows, but clusters.order {len(tree.order)} labels")
        return build(*sizes_from(tensors, config), tree)

    return restore_module("inceptionxml+", make, tensors)


def build(config: Config, num_ids: int, tree: LabelTree, ranks: Ranks = ALONE) -> ShortlistRanker:
    encoder = build_encoder(config, num_ids, projection_dropout=0.0)
    width = config.hidden or encoder.dim
    head = partial(head_layer, config.heads, encoder.dim, width, config.dropout)
    clusters = Shard.even(ranks, tree.num_clusters, "cluster")
    labels = label_shard(clusters, tree.starts)
    meta = LinearClassifier(width, tree.num_clusters, transform=head(for_clusters=True), shard=clusters)
    classifier = LinearClassifier(
        width, len(tree.order), transform=head(for_clusters=False), bias=config.bias, shard=labels
    )
    trained = min(config.top or tree.num_clusters, tree.num_clusters)
    top, product = min(config.answer_top or trained, tree.num_clusters), config.ranking == "product"
    return ShortlistRanker(encoder, Clusters(meta, tree), classifier, top=top, product=product, trained=trained)


def with_sizes(config: Config, texts: int, labels: int, usual: int) -> Config:
    """Return the config with a value wherever the data decides; `usual` is the 99.5 % quantile of words per text."""
    if config.clusters > labels:
        raise ConfigError(f"clusters must be at most the {counted(labels, 'label')}, but is {config.clusters:,}")
    clusters = config.clusters or 1 << int(np.log2(np.clip(labels // _LABELS_PER_CLUSTER, 1, _MOST_CLUSTERS)))
    top = min(config.top or min(800, round(clusters**0.6)), clusters)
    epochs = choose_epochs(config.epochs, texts, 2 / 3)
    batch_size = choose_batch_size(config.batch_size, texts, 256)
    # A curve through the paper's rate at its 66,000 steps and the best rates on validation splits of smaller data.
    rate = 0.008 * (epochs * texts / batch_size / 66_000) ** 0.4
    return replace(
        config,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=config.learning_rate or float(np.clip(rate, 0.002, 0.008)),
        length=choose_length(config.length, usual, encoder=config.encoder),
        clusters=clusters,
        top=top,
        answer_top=min(config.answer_top or top, clusters),
    )


def shape_of(config: Config, words: int, labels: int) -> Shape:
    return Shape(
        words=words,
        labels=labels,
        length=config.length,
        dim=config.embedding,
        clusters=config.clusters,
        top=config.top,
        row=config.hidden,
    )


def _fit(
    stage: str, data: Dataset, held: Dataset, config: Config, run: Run, last_epoch: int = 0
) -> tuple[ShortlistRanker, TrainState]:
    make_tree = partial(clusters_of_labels, data, config.clusters, config.clustering, config.seed)
    tree = remember_tree(run, f"{stage}-clusters", make_tree)
    with seeded(config.seed):
        ranker = build(config, data.inputs.shape[1], tree, run.ranks)
    start_encoder(ranker.encoder, config, data)
    # Inside, labels are numbered in the order of the tree: a cluster is then a range.
    placed = data.renumbered(tree.places().numpy())
    if config.prior:
        _start_from_frequencies(ranker, placed)
    ranker.to(run.device)
    classifier = ranker.classifier
    assert isinstance(classifier, LinearClassifier)
    warm_up(f"{stage}-warm-up", before_rows(ranker.encoder, classifier), placed, config.warm_up, config, run)
    start_rows(classifier, ranker.encoder, placed, config.row_start, run.device)
    reader, placed, held = encoded_if_frozen(ranker.encoder, config, placed, held, run.device)
    task = ClustersAndLabels(
        reader,
        ranker.clusters,
        classifier,
        top=max(config.top, _usual_clusters(placed, tree)),
        dropouts=(config.cluster_dropout, config.classifier_dropout),
        detached=config.detached,
        chunk=config.chunk,
        precision=PRECISIONS[config.precision],
    )
    schedule = {"schedule": OneCycle(warm_up=0.33), **encoder_plan(config)}
    plan = config.plan(eps=config.eps, optimiser=config.optimiser, lazy=config.lazy, **schedule)
    learnt = ranker.over(reader, ranker.clusters, classifier)

    def figures() -> dict[str, float]:
        return validation_figures(learnt, held) | shortlist_figures(learnt, held.inputs, held.labels)

    state = run.fit(
        stage,
        task,
        Resident.of(placed, config.length, run.device, shard=classifier.shard),
        plan,
        validate=figures if len(held) else None,
        last_epoch=last_epoch,
    )
    return ranker.eval(), state


def _by_cluster(data: Dataset, tree: LabelTree) -> csr_array:
    """Return a matrix of texts × clusters: which clusters each text's labels are in."""
    cluster = torch.searchsorted(tree.starts, torch.from_numpy(data.labels.indices.astype(np.int64)), right=True) - 1
    pairs = csr_array(
        (np.ones(data.labels.nnz, dtype=np.float32), cluster.numpy(), data.labels.indptr.copy()),
        shape=(len(data), tree.num_clusters),
    )
    pairs.sum_duplicates()
    return pairs


def _usual_clusters(data: Dataset, tree: LabelTree) -> int:
    """Return the 99 % quantile of clusters that a text's labels are in.

    For texts with more, the best-scored true clusters are picked: one text of very many labels would otherwise make
    every text's shortlist longer.
    """
    counts = np.diff(_by_cluster(data, tree).indptr)
    return int(np.quantile(counts, 0.99, method="inverted_cdf")) if len(counts) else 1


def _start_from_frequencies(ranker: ShortlistRanker, data: Dataset) -> None:
    meta, classifier = ranker.clusters.classifier, ranker.classifier
    assert isinstance(classifier, LinearClassifier)
    by_cluster = _by_cluster(data, LabelTree(order=ranker.clusters.order, starts=ranker.clusters.starts))
    meta.start_from(torch.from_numpy(np.diff(by_cluster.tocsc().indptr) / len(data)))
    if classifier.bias is not None:
        classifier.start_from(frequencies(data))
