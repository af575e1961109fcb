"""Add labels to a shortlister and remove labels from it, for every kind of shortlister."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array, vstack
from torch import Tensor
from torch.nn import functional

from laconic.errors import ModelError
from laconic.models.clustering import LabelTree
from laconic.models.shortlisters.base import Shortlister
from laconic.models.shortlisters.clusters import Clusters, OfClusters
from laconic.models.shortlisters.label_texts import WithLabelTexts
from laconic.models.shortlisters.labels import NearestLabels
from laconic.types import NO_LABEL
from laconic.update.rankers.additions import Additions, Seen

_AT_ONCE = 1 << 26  # scores of clusters held at a time
_CHOICES = 64  # clusters that a new label may join
_TEXTS = 1 << 20  # pairs of text and label summed at a time


def renumbered(kept: Int[Tensor, "kept"], num_labels: int) -> Int[Tensor, "labels"]:
    """Return the new number of each label when only these are kept; NO_LABEL for removed ones."""
    numbers = torch.full((num_labels,), NO_LABEL, device=kept.device)
    return numbers.index_put_((kept,), torch.arange(len(kept), device=kept.device))


# Labels are removed


@singledispatch
def shortlister_without_labels(shortlister: Shortlister, kept: Int[Tensor, "kept"]) -> Shortlister:
    """Return a shortlister of these labels alone, in their order."""
    raise ModelError(f"labels cannot be taken from a {type(shortlister).__name__}")


@shortlister_without_labels.register
def _(shortlister: NearestLabels, kept: Int[Tensor, "kept"]) -> NearestLabels:
    """Keep the texts of removed labels, so that other texts keep their neighbours."""
    numbers = renumbered(kept, shortlister.num_labels)
    owners = numbers[shortlister.centre_labels]
    further = (owners[shortlister.num_labels :] != NO_LABEL).nonzero().flatten() + shortlister.num_labels
    centres = torch.cat([kept, further])
    labels = numbers[shortlister.text_labels]
    there = functional.pad((labels != NO_LABEL).cumsum(0), (1, 0))
    return shortlister.holding(
        num_labels=len(kept),
        centres=shortlister.centres[centres],
        centre_labels=owners[centres],
        text_starts=there[shortlister.text_starts],
        text_labels=labels[labels != NO_LABEL],
    )


@shortlister_without_labels.register
def _(shortlister: WithLabelTexts, kept: Int[Tensor, "kept"]) -> WithLabelTexts:
    rows = _words(shortlister)[kept.cpu().numpy()]
    return WithLabelTexts.of(
        shortlister_without_labels(shortlister.others, kept), shortlister.count, rows, shortlister.starts.device
    )


@shortlister_without_labels.register
def _(shortlister: OfClusters, kept: Int[Tensor, "kept"]) -> OfClusters:
    return OfClusters(clusters_without_labels(shortlister.clusters, kept)[0], shortlister.size)


def clusters_without_labels(clusters: Clusters, kept: Int[Tensor, "kept"]) -> tuple[Clusters, Int[Tensor, "kept"]]:
    """Return clusters of these labels alone, some of which may be empty, and the old positions that are kept."""
    order = renumbered(kept, len(clusters.order))[clusters.order]
    places = (order != NO_LABEL).nonzero().flatten()
    there = functional.pad((order != NO_LABEL).cumsum(0), (1, 0))
    return Clusters(clusters.classifier, LabelTree(order=order[places], starts=there[clusters.starts])), places


# Labels are added


@singledispatch
def shortlister_with_labels(shortlister: Shortlister, additions: Additions, labels: Seen) -> Shortlister:
    """Return the shortlister with the new labels and the examples."""
    raise ModelError(f"labels cannot be added to a {type(shortlister).__name__}")


@shortlister_with_labels.register
def _(shortlister: NearestLabels, additions: Additions, labels: Seen) -> NearestLabels:
    known, device = shortlister.num_labels, shortlister.centres.device
    own = functional.normalize(labels.new, dim=1) + labels.near.mean(shortlister.centres)
    new = functional.normalize(own, dim=1)
    parts = {
        "centres": torch.cat([shortlister.centres[:known], new, shortlister.centres[known:]]),
        "centre_labels": torch.cat(
            [torch.arange(additions.num_labels, device=device), shortlister.centre_labels[known:]]
        ),
    }
    if not shortlister.nearness.neighbours or not len(additions.examples):
        return shortlister.holding(num_labels=additions.num_labels, **parts)
    starts, numbers = (torch.from_numpy(part.astype(np.int64)).to(device) for part in _pairs(additions.examples.labels))
    grown = shortlister.holding(
        num_labels=additions.num_labels,
        **parts,
        texts=torch.cat([shortlister.texts, functional.normalize(labels.examples, dim=1)]),
        text_starts=torch.cat([shortlister.text_starts, shortlister.text_starts[-1] + starts[1:]]),
        text_labels=torch.cat([shortlister.text_labels, numbers]),
    )
    moved = np.unique(additions.examples.labels.indices)
    return _with_new_centroids(grown, torch.from_numpy(moved[moved < known].astype(np.int64)).to(device))


@shortlister_with_labels.register
def _(shortlister: WithLabelTexts, additions: Additions, labels: Seen) -> WithLabelTexts:
    rows = vstack([_words(shortlister), additions.label_texts], format="csr")
    others = shortlister_with_labels(shortlister.others, additions, labels)
    return WithLabelTexts.of(others, shortlister.count, rows, shortlister.starts.device)


@shortlister_with_labels.register
def _(shortlister: OfClusters, additions: Additions, labels: Seen) -> OfClusters:
    return OfClusters(clusters_with_labels(shortlister.clusters, labels.new)[0], shortlister.size)


def clusters_with_labels(clusters: Clusters, new: Float[Tensor, "new dim"]) -> tuple[Clusters, Int[Tensor, "labels"]]:
    """Return clusters with new labels, each in the best one for its vector that is not full, and the label at each
    position, where new labels are numbered after the old positions.
    """
    count, known = clusters.classifier.num_labels, len(clusters.order)
    transformed = clusters.classifier.transform(new)
    parts = torch.split(transformed, max(1, _AT_ONCE // count))
    choices = [
        clusters.classifier.score_range(part, slice(0, count)).topk(min(_CHOICES, count)).indices for part in parts
    ]
    numbers = torch.arange(known + len(new), device=new.device)
    # Probing any cluster costs as much as the largest: none may become much larger than the others.
    most = max(clusters.size, 2 * -(-len(numbers) // count))
    chosen = _assign_clusters(torch.cat(choices).cpu().numpy(), clusters.starts.diff().cpu().numpy(), most)
    cluster = torch.cat([clusters.of(numbers[:known]), torch.from_numpy(chosen).to(new.device)])
    places = cluster.sort(stable=True).indices
    order = torch.cat([clusters.order, numbers[known:]])[places]
    starts = functional.pad(cluster.bincount(minlength=count).cumsum(0), (1, 0))
    return Clusters(clusters.classifier, LabelTree(order=order, starts=starts)), places


def _assign_clusters(
    choices: Int[np.ndarray, "new n"], sizes: Int[np.ndarray, "clusters"], most: int
) -> Int[np.ndarray, "new"]:
    """Return the first choice of each label with fewer than `most` labels; otherwise the smallest cluster."""
    sizes, chosen = sizes.copy(), np.empty(len(choices), dtype=np.int64)
    for label, own in enumerate(choices):
        free = own[sizes[own] < most]
        chosen[label] = free[0] if len(free) else sizes.argmin()
        sizes[chosen[label]] += 1
    return chosen


def _with_new_centroids(shortlister: NearestLabels, labels: Int[Tensor, "n"]) -> NearestLabels:
    """Return the shortlister with the centroids of these labels recomputed from all of their texts."""
    texts = torch.repeat_interleave(shortlister.text_starts.diff())
    place = renumbered(labels, shortlister.num_labels)[shortlister.text_labels]
    sums = shortlister.centres.new_zeros(len(labels), shortlister.centres.shape[1])
    for part in torch.split((place != NO_LABEL).nonzero().flatten(), _TEXTS):
        sums.index_add_(0, place[part], shortlister.texts[texts[part]])
    centres = shortlister.centres.index_copy(0, labels, functional.normalize(sums, dim=1))
    return shortlister.holding(num_labels=shortlister.num_labels, centres=centres)


def _pairs(labels: csr_array) -> tuple[np.ndarray, np.ndarray]:
    pairs = labels.copy()
    pairs.eliminate_zeros()
    return pairs.indptr, pairs.indices


def _words(shortlister: WithLabelTexts) -> csr_array:
    """Return the words of every label, one row per label."""
    parts = (part.cpu().numpy() for part in (shortlister.weights, shortlister.words, shortlister.starts))
    return csr_array(tuple(parts), shape=(shortlister.num_labels, shortlister.num_ids))
