"""Learns groups of the clusters that a model has of its own, and the rows that select them, from texts.

A model such as InceptionXML+ scores all of its clusters for every text. Clusters of a group lie together in the tree of
labels, so they are similar, and a group is worth opening where one of its clusters is among a text's best. Its row
learns just that (learned_tree.py) along whitened directions, and is then rotated back, so that it reads what clusters
read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float16
from torch import Tensor

from laconic.export.learned_tree import FAR, GROUP, OPEN, SCANNED, LabelRows, fitted, whitening_of
from laconic.packed.engine.nibble_rows import NibbleRows

_BEST = 4  # of the clusters that the model probes, one of so many has nearly all that is found
_SCORES, _SCORES_ON_GPU = 1 << 30, 1 << 34  # texts × clusters that are looked at, at most
_AT_ONCE = 1 << 25  # and together


def are_grouped(clusters: int) -> bool:
    """Return whether so many clusters are too many to score all of them for every text."""
    return clusters > SCANNED and clusters % GROUP == 0


def texts_enough(clusters: int, device: torch.device) -> int:
    """Return how many texts groups of so many clusters are learnt from, at most."""
    return (_SCORES_ON_GPU if device.type == "cuda" else _SCORES) // clusters


def learnt_groups(
    clusters: LabelRows, vectors: Float[np.ndarray, "texts dim"], probed: int, device: torch.device
) -> dict[str, Any]:
    """Learn groups of clusters, of which the model probes so many, from vectors of texts as the clusters read them.

    They are returned as a packed ranker has them: groups, group_starts and open_groups.
    """
    rows, biases = (torch.from_numpy(part).to(device) for part in clusters)
    heights = _heights(rows, biases, torch.from_numpy(vectors).to(device), max(1, probed // _BEST))
    whitening, mean = whitening_of(vectors, vectors.shape[1]), vectors.mean(0, dtype=np.float64)
    seen = np.ones((len(vectors), len(whitening) + 1), dtype=np.float32)  # of which the last weight is a bias
    seen[:, :-1] = (vectors - mean) @ whitening.T
    weights = fitted(torch.from_numpy(seen).to(device), heights).cpu().numpy().astype(np.float64)
    in_inputs = weights[:, :-1] @ whitening
    groups = NibbleRows.of(
        in_inputs.astype(np.float32), (weights[:, -1] - in_inputs @ mean).astype(np.float32), with_exact=False
    )
    starts = np.arange(0, clusters.size + 1, GROUP, dtype=np.int32)
    return {"groups": groups, "group_starts": starts, "open_groups": groups.size // OPEN}


def _heights(
    rows: Float[Tensor, "clusters dim"],
    biases: Float[Tensor, "clusters"],
    vectors: Float[Tensor, "texts dim"],
    good: int,
) -> Float16[Tensor, "texts groups"]:
    """Return how far the best cluster of each group is above so many best clusters of all."""
    heights = vectors.new_empty((len(vectors), len(rows) // GROUP), dtype=torch.float16)
    step = max(1, _AT_ONCE // len(rows))
    for some, into in zip(torch.split(vectors, step), torch.split(heights, step), strict=True):
        scores = (some @ rows.T).add_(biases)
        enough = scores.topk(min(good, len(rows))).values[:, -1:]
        into.copy_((scores.view(len(some), -1, GROUP).amax(2) - enough).clamp_(-FAR, FAR))
    return heights
