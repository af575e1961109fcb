"""Choose how many clusters DECAF probes and which, and measure how many true labels they hold."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.evaluation.evaluate import batches
from laconic.methods.decaf.modules import Shortlister, sum_of
from laconic.models.clustering import LabelTree

_AT_ONCE = 1 << 26  # scores of clusters held at a time
_PAIRS_AT_ONCE = 1 << 16  # of a text and a label, compared with all picked clusters at a time


@torch.no_grad()
def true_ranks(shortlister: Shortlister, data: Dataset, device: torch.device) -> Int[Tensor, "pairs"]:
    """Return, for every pair of a text and a true label, how many clusters rank before the label's own."""
    cluster_of = shortlister.tree.cluster_of().to(device)
    found = []
    for rows, scores in _cluster_scores(shortlister, data, device):
        text, label = (torch.from_numpy(one.astype(np.int64)).to(device) for one in data.labels[rows].nonzero())
        counts = torch.bincount(text, minlength=len(scores))
        position = torch.arange(len(text), device=device) - (counts.cumsum(0) - counts)[text]
        own = scores.new_zeros(len(scores), int(counts.max()))
        own[text, position] = scores[text, cluster_of[label]]
        after = torch.searchsorted(scores.sort(dim=1).values, own, right=True)  # itself among them
        found.append((scores.shape[1] - after[text, position]).cpu())
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64)


@torch.no_grad()
def best_clusters(shortlister: Shortlister, data: Dataset, beam: int, device: torch.device) -> Int[Tensor, "texts k"]:
    """Return the `beam` best clusters of every text, in no particular order."""
    parts = [
        scores.topk(beam, sorted=False).indices.to(torch.int32).cpu()
        for _, scores in _cluster_scores(shortlister, data, device)
    ]
    return torch.cat(parts)


def smallest_beam(ranks: Int[Tensor, "pairs"], recall: float) -> int:
    """Return the fewest clusters that hold this fraction of the true labels."""
    return int(ranks.sort().values[ceil(recall * len(ranks)) - 1]) + 1 if len(ranks) else 1


def recall_by_beam(ranks: Int[Tensor, "pairs"], clusters: int) -> dict[str, float]:
    """Return the fraction of true labels found, for beams of 1, 2, 4 and so on."""
    beams = [1 << power for power in range(clusters.bit_length())]
    return {str(beam): round(float((ranks < beam).float().mean()), 4) for beam in beams if len(ranks)}


def recall_of(labels: csr_array, picks: Int[Tensor, "texts beam"], tree: LabelTree) -> float:
    """Return the fraction of pairs of a text and a true label whose label is in a cluster picked for the text."""
    text, label = labels.nonzero()
    clusters, picked = tree.cluster_of().numpy()[label], picks.numpy()
    parts = range(0, len(text), _PAIRS_AT_ONCE)
    spans = (slice(first, first + _PAIRS_AT_ONCE) for first in parts)
    found = sum(int((picked[text[span]] == clusters[span, None]).any(1).sum()) for span in spans)
    return found / max(len(text), 1)


def _cluster_scores(
    shortlister: Shortlister, data: Dataset, device: torch.device
) -> Iterator[tuple[slice, Float[Tensor, "batch clusters"]]]:
    classifier = shortlister.clusters.classifier
    encoder = sum_of(shortlister.words, length=shortlister.length).to(device)
    at_once = max(1, min(4096, _AT_ONCE // classifier.num_labels))
    for rows, inputs in batches(data.inputs, device, at_once):
        yield rows, classifier.score_all(encoder(inputs))
