"""Groups rows of similar direction into cells, and clusters into groups, for packed search trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from laconic.models.classifiers import Classifier
from laconic.models.clustering import cluster_vectors
from laconic.models.shortlisters.centres import k_means, nearest_means
from laconic.packed.engine.cells import Cells
from laconic.packed.engine.nibble_rows import NibbleRows

BEAM = 12  # one of so many clusters is probed, where no text says how many it takes
_CELL = 64  # rows of a cell, about
_SEEN_OF_CELL = 24  # rows by which its middle is found
_ROUNDS = 6  # of k-means
_SCANNED_CELLS = 2048  # cells whose middles are all looked at
_CELLS_OF_GROUP = 32
_SCANNED = 8192  # clusters that are all scored; where there are more, they are in groups
_GROUP = 128  # clusters of a group
_GROUPS = 16  # groups that are probed, at first


def rows_of(classifier: Classifier) -> tuple[Float[np.ndarray, "labels dim"], Float[np.ndarray, "labels"]]:
    every = slice(0, classifier.num_labels)
    return classifier.rows(every).detach().cpu().numpy(), classifier.biases(every).detach().cpu().numpy()


def cells_of(rows: Float[np.ndarray, "rows dim"], *, with_exact: bool = False) -> Cells:
    """Cluster rows by direction with k-means; similar cells are adjacent."""
    cells = 1 << int(np.log2(max(1, len(rows) // _CELL)))
    vectors = torch.from_numpy(rows)
    middles = _middles(vectors, cells)
    nearest = nearest_means(vectors, middles).numpy()
    order, starts = np.argsort(nearest, kind="stable"), np.searchsorted(np.sort(nearest), np.arange(cells + 1))
    of_cells = NibbleRows.of(middles.numpy(), np.zeros(cells, np.float32), with_exact=False)
    return Cells(
        rows=NibbleRows.of(rows[order], np.zeros(len(rows), np.float32), with_exact=with_exact),
        order=order.astype(np.int32),
        starts=starts.astype(np.int32),
        middles=of_cells,
        **grouped(of_cells, _SCANNED_CELLS, _CELLS_OF_GROUP),
        beam=-(-cells // BEAM),
    )


def grouped(clusters: NibbleRows, scanned: int = _SCANNED, size: int = _GROUP) -> dict[str, Any]:
    """Group runs of adjacent clusters, which are similar because of their order in the tree."""
    if clusters.size <= scanned:
        return {"groups": None, "group_starts": np.array([0, clusters.size], dtype=np.int32), "open_groups": 1}
    starts = np.append(np.arange(0, clusters.size, size), clusters.size)
    rows = clusters.coarse * clusters.scales[:, None]
    means = np.add.reduceat(rows, starts[:-1]) / np.diff(starts)[:, None]
    groups = NibbleRows.of(means, np.maximum.reduceat(clusters.biases, starts[:-1]), with_exact=False)
    return {"groups": groups, "group_starts": starts.astype(np.int32), "open_groups": _GROUPS}


def _middles(rows: Float[Tensor, "rows dim"], cells: int) -> Float[Tensor, "cells dim"]:
    """Return cell centres ordered by a tree over them, so that runs of cells are similar."""
    chance = torch.Generator().manual_seed(0)
    some = rows[torch.randperm(len(rows), generator=chance)[: cells * _SEEN_OF_CELL]]
    middles = k_means(some, cells, seed=0, rounds=_ROUNDS)
    groups = max(1, cells // _CELLS_OF_GROUP)
    return middles[cluster_vectors(middles, groups, seed=0).order]
