"""Cluster labels into equal sizes by their texts: centroids, optionally smoothed, and balanced 2-means."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.config import Bounds, Choices, check_known, check_within
from laconic.data.dataset import Dataset
from laconic.data.vocabulary import bags
from laconic.kernels.csr import Lists, make_unit
from laconic.models.clustering.bisection import halved
from laconic.models.clustering.levels import halved_together, make_unit_rows
from laconic.models.clustering.rows import product
from laconic.models.clustering.tree import LabelTree, check_clusters, even_bounds, random_tree
from laconic.models.clustering.walks import by_rows, label_graph, symmetric

__all__ = [
    "Clustering",
    "LabelRows",
    "LabelTree",
    "cluster_labels",
    "cluster_vectors",
    "random_tree",
    "texts_of_labels",
]

SMOOTHINGS = ("symmetric", "rows")
_MANY = 10_000  # rows from which on a GPU clusters them


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """Settings of label clustering."""

    bounds: ClassVar[Bounds] = {
        "seed": (-1, math.inf),
        "walks": (0, 10_000),
        "restart": (0, 1),
        "neighbours": (1, 1000),
        "head": (0, 1),
        "features": (1, math.inf),
    }
    choices: ClassVar[Choices] = {"smoothing": SMOOTHINGS}

    seed: int = -1
    """Seed of the clustering. -1: the method's own seed."""
    walks: int = 0
    """Steps of the random walk from each label that smooths its centroid over labels that occur with it. 0: no
    smoothing.
    """
    restart: float = 0.8
    """Probability that a random walk starts again from its label before a step."""
    neighbours: int = 10
    """Labels that are kept of a random walk, the one where it starts among them."""
    smoothing: str = "symmetric"
    """How centroids are smoothed. "symmetric" (ECLARE): centroids of length 1, and a label graph normalised on both
    sides. "rows" (DeepXML): plain sums of texts, so that frequent labels weigh more, and graph rows that sum to 1.
    """
    head: float = 0.01
    """Fraction of the training texts above which a label is neither smoothed nor walked through, because it occurs with
    everything. The default is the 5,000 texts of DeepXML's code at the size of AmazonTitles-670K.
    """
    features: int = 1000
    """Largest features that are kept of a centroid."""

    def __post_init__(self) -> None:
        check_within(self, self.bounds, "clustering.")
        check_known(self, self.choices, "clustering.")


class LabelRows(NamedTuple):
    """A row of features for each label, of length 1 where the label has any."""

    rows: Lists
    described: Bool[np.ndarray, "labels"]  # labels with any feature
    num_features: int

    @staticmethod
    def of_texts(data: Dataset, config: Clustering, seed: int) -> LabelRows:
        """Describe labels by their texts."""
        return LabelRows.of(centroids(data, config, seed), data.inputs.shape[1])

    @staticmethod
    def of(rows: Lists, num_features: int) -> LabelRows:
        """Take rows of any length, which are changed in place."""
        return LabelRows(rows, make_unit(rows), num_features)

    def clustered(self, clusters: int, seed: int) -> LabelTree:
        """Cluster the labels; cluster sizes differ by at most one label."""
        halve = partial(halved, self.rows, self.num_features, seed=seed)
        return _tree_of(self.described, clusters, halve)


def _tree_of(
    described: Bool[np.ndarray, "labels"],
    clusters: int,
    halve: Callable[[Int[np.ndarray, "n"], Int[np.ndarray, "bounds"]], Int[np.ndarray, "n"]],
) -> LabelTree:
    """Cluster the described labels by `halve`, which orders them for these bounds, and deal out the others evenly.

    A label without any text is like nothing, so it belongs nowhere.
    """
    num_labels = len(described)
    check_clusters(clusters, num_labels)
    others = np.flatnonzero(~described)
    bounds = even_bounds(num_labels, clusters)
    own_bounds = np.maximum.accumulate(bounds - even_bounds(len(others), clusters))
    own = halve(np.flatnonzero(described), own_bounds)
    cluster = [np.repeat(np.arange(clusters), np.diff(part)) for part in (own_bounds, bounds - own_bounds)]
    order = np.concatenate([own, others])[np.argsort(np.concatenate(cluster), kind="stable")]
    return LabelTree(order=torch.from_numpy(order), starts=torch.from_numpy(bounds))


def cluster_labels(data: Dataset, clusters: int, config: Clustering, seed: int) -> LabelTree:
    """Cluster labels by their texts; cluster sizes differ by at most one label."""
    check_clusters(clusters, data.num_labels)
    return LabelRows.of_texts(data, config, seed).clustered(clusters, seed)


def cluster_vectors(vectors: Float[Tensor, "labels dim"], clusters: int, seed: int) -> LabelTree:
    """Cluster labels by vectors of their own; cluster sizes differ by at most one label.

    Many vectors that are on a GPU are clustered there.
    """
    if vectors.is_cuda and len(vectors) >= _MANY:
        return cluster_together(vectors, clusters, seed)
    rows = vectors.cpu().numpy()
    return LabelRows.of(Lists.dense(rows), rows.shape[1]).clustered(clusters, seed)


def cluster_together(vectors: Float[Tensor, "labels dim"], clusters: int, seed: int) -> LabelTree:
    """Cluster labels by vectors of their own where these are, all nodes of a level at a time."""
    rows = vectors.to(torch.float32, copy=True)
    described = make_unit_rows(rows).cpu().numpy()
    return _tree_of(described, clusters, partial(halved_together, rows, seed=seed))


def centroids(data: Dataset, config: Clustering, seed: int) -> Lists:
    """Return a row for every label: the sum of its normalised texts, smoothed if the config says so."""
    num_features, texts = data.inputs.shape[1], Lists.of(bags(csr_array(data.inputs)))
    make_unit(texts)
    texts_of = texts_of_labels(data)
    rows = product(Lists.of(texts_of), texts, num_features, config.features)
    if config.walks:
        if config.smoothing == "symmetric":
            make_unit(rows)
        graph = label_graph(
            texts_of,
            steps=config.walks,
            restart=config.restart,
            neighbours=config.neighbours,
            most=config.head * len(data),
            seed=seed,
        )
        normalised = (symmetric if config.smoothing == "symmetric" else by_rows)(graph)
        rows = product(Lists.of(normalised), rows, num_features, config.features)
    return rows


def texts_of_labels(data: Dataset) -> csr_array:
    """Return for each label its texts with their weights."""
    pairs = data.labels if data.weights is None else csr_array(data.labels.multiply(data.weights[:, None]))
    texts_of = csr_array(pairs.T)
    texts_of.eliminate_zeros()
    return texts_of
