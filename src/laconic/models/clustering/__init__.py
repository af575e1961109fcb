"""Cluster labels into equal sizes by their texts: centroids, optionally smoothed, and balanced 2-means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset
from laconic.data.vocabulary import bags
from laconic.errors import ConfigError
from laconic.kernels.csr import Lists, make_unit
from laconic.models.clustering.bisection import halved
from laconic.models.clustering.rows import product
from laconic.models.clustering.tree import LabelTree, check_clusters, even_bounds, random_tree
from laconic.models.clustering.walks import by_rows, label_graph, symmetric

__all__ = ["Clustering", "LabelTree", "cluster_labels", "cluster_vectors", "random_tree", "texts_of_labels"]

SMOOTHINGS = ("symmetric", "rows")


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """Settings of label clustering."""

    seed: int = -1  # -1: the method's own
    walks: int = 0  # steps of a walk from each label, to smooth centroids over labels that go together; 0: none
    restart: float = 0.8  # chance that a walk begins anew before a step
    neighbours: int = 10  # labels kept of a walk, the one where it began among them
    # How a label's centroid is smoothed. symmetric (ECLARE): centroids of length 1, the graph divided by the roots of
    # what leaves and arrives. rows (DeepXML): sums of texts as they are, so that frequent labels weigh more, and rows
    # of the graph that add up to 1.
    smoothing: str = "symmetric"
    # A label of more than this fraction of texts goes with everything: it is neither smoothed nor walked through. A
    # hundredth is the 5,000 texts of DeepXML's code at the size of AmazonTitles-670K.
    head: float = 0.01
    features: int = 1000  # largest features kept of a centroid

    def __post_init__(self) -> None:
        if self.seed < -1:
            raise ConfigError(f"clustering.seed must be -1 (the method's own) or more, but is {self.seed}")
        if not 0 <= self.walks <= 10_000:
            raise ConfigError(f"clustering.walks must be 0 to 10000 steps, but is {self.walks}")
        for name, fraction in {"restart": self.restart, "head": self.head}.items():
            if not 0 <= fraction <= 1:
                raise ConfigError(f"clustering.{name} must be 0 to 1, but is {fraction}")
        if not 1 <= self.neighbours <= 1000:
            raise ConfigError(f"clustering.neighbours must be 1 to 1000, but is {self.neighbours}")
        if self.smoothing not in SMOOTHINGS:
            raise ConfigError(f"clustering.smoothing must be {' or '.join(SMOOTHINGS)}, but is {self.smoothing!r}")
        if self.features < 1:
            raise ConfigError(f"clustering.features must be 1 or more, but is {self.features}")


def cluster_labels(data: Dataset, clusters: int, config: Clustering, seed: int) -> LabelTree:
    """Cluster labels by their texts; cluster sizes differ by at most one label."""
    check_clusters(clusters, data.num_labels)
    return _grown(centroids(data, config, seed), data.inputs.shape[1], clusters, seed)


def cluster_vectors(vectors: Float[np.ndarray, "labels dim"], clusters: int, seed: int) -> LabelTree:
    """Cluster labels by vectors of their own; cluster sizes differ by at most one label."""
    num_labels, dim = vectors.shape
    check_clusters(clusters, num_labels)
    return _grown(Lists.dense(vectors), dim, clusters, seed)


def _grown(rows: Lists, num_features: int, clusters: int, seed: int) -> LabelTree:
    """Grow a tree of labels, one for each row."""
    num_labels, described = len(rows.starts) - 1, make_unit(rows)
    # A label without any text is like nothing, so it belongs nowhere: such labels are dealt out evenly.
    others = np.flatnonzero(~described)
    bounds = even_bounds(num_labels, clusters)
    own_bounds = np.maximum.accumulate(bounds - even_bounds(len(others), clusters))
    own = halved(rows, num_features, np.flatnonzero(described), own_bounds, seed)
    cluster = [np.repeat(np.arange(clusters), np.diff(part)) for part in (own_bounds, bounds - own_bounds)]
    order = np.concatenate([own, others])[np.argsort(np.concatenate(cluster), kind="stable")]
    return LabelTree(order=torch.from_numpy(order), starts=torch.from_numpy(bounds))


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
