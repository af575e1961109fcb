"""Add labels to a ranker and remove labels from it, for every kind of ranker.

A new kind registers itself with both functions.
"""

from __future__ import annotations

from functools import singledispatch

import torch
from jaxtyping import Int
from torch import Tensor

from laconic.errors import ModelError
from laconic.evaluation.evaluate import device_of
from laconic.models.classifiers import Classifier, HashedClassifier, LinearClassifier
from laconic.models.rankers import (
    BucketsRanker,
    CandidatesRanker,
    Ensemble,
    FlatRanker,
    Ranker,
    Reranker,
    ShortlistRanker,
)
from laconic.update.rankers.additions import Additions, Seen
from laconic.update.rankers.rows import with_new_rows, with_rows
from laconic.update.rankers.shortlisters import (
    clusters_with_labels,
    clusters_without_labels,
    shortlister_with_labels,
    shortlister_without_labels,
)

# Of the first ten labels by the classifier's scores, how many may be new: no neighbour votes for new labels.
_PLACES = 2.5


def linear(classifier: Classifier) -> LinearClassifier:
    """Return the classifier after checking that it has a row of its own for every label."""
    if not isinstance(classifier, LinearClassifier):
        raise ModelError(f"a {type(classifier).__name__} has no row of its own for each label, which is needed here")
    return classifier


# Labels are removed


@singledispatch
def without_labels(ranker: Ranker, kept: Int[Tensor, "kept"]) -> Ranker:
    """Return a ranker of these labels alone, whose label i is kept[i]; unchanged parts are shared with the old one."""
    raise ModelError(f"labels cannot be taken from a {type(ranker).__name__}")


@without_labels.register
def _(ranker: FlatRanker, kept: Int[Tensor, "kept"]) -> FlatRanker:
    return FlatRanker(ranker.encoder, _select_rows(ranker.classifier, kept), chunk=ranker.chunk).eval()


@without_labels.register
def _(ranker: ShortlistRanker, kept: Int[Tensor, "kept"]) -> ShortlistRanker:
    clusters, places = clusters_without_labels(ranker.clusters, kept)
    classifier = _select_rows(ranker.classifier, places)
    return ranker.over(ranker.encoder, clusters, classifier).eval()


@without_labels.register
def _(ranker: CandidatesRanker, kept: Int[Tensor, "kept"]) -> CandidatesRanker:
    shortlister, classifier = (
        shortlister_without_labels(ranker.shortlister, kept),
        _select_rows(ranker.classifier, kept),
    )
    return CandidatesRanker(ranker.encoder, shortlister, classifier, beta=float(ranker.beta)).eval()


@without_labels.register
def _(ranker: Reranker, kept: Int[Tensor, "kept"]) -> Reranker:
    base, classifier = without_labels(ranker.base, kept), _select_rows(ranker.classifier, kept)
    return Reranker(base, ranker.encoder, classifier, size=ranker.size, alpha=float(ranker.alpha)).eval()


@without_labels.register
def _(ranker: BucketsRanker, kept: Int[Tensor, "kept"]) -> BucketsRanker:
    parts = [
        (encoder, HashedClassifier(classifier.bucket_of[kept], classifier.buckets))
        for encoder, classifier in ranker.parts()
    ]
    return BucketsRanker(parts, at_once=ranker.at_once).eval()


@without_labels.register
def _(ranker: Ensemble, kept: Int[Tensor, "kept"]) -> Ensemble:
    members = [without_labels(member, kept) for member in ranker.rankers()]
    return Ensemble(members, width=ranker.width, at_once=ranker.at_once).eval()


def _select_rows(classifier: Classifier, kept: Int[Tensor, "kept"]) -> LinearClassifier:
    own = linear(classifier)
    return with_rows(own, own.weight[kept], None if own.bias is None else own.bias[kept])


# Labels are added


@singledispatch
def with_labels(ranker: Ranker, additions: Additions) -> Ranker:
    """Return the ranker with the new labels and, where it stores texts, the examples. Nothing is trained."""
    raise ModelError(f"labels cannot be added to a {type(ranker).__name__}")


@with_labels.register
def _(ranker: FlatRanker, additions: Additions) -> FlatRanker:
    seen = Seen.by(ranker.encoder, additions, device_of(ranker))
    classifier = with_new_rows(linear(ranker.classifier), seen, seen.near)
    return FlatRanker(ranker.encoder, classifier, chunk=ranker.chunk).eval()


@with_labels.register
def _(ranker: ShortlistRanker, additions: Additions) -> ShortlistRanker:
    seen = Seen.by(ranker.encoder, additions, device_of(ranker))
    near = seen.near._replace(labels=ranker.places(seen.near.labels))  # rows are in the order of the clusters
    grown = with_new_rows(linear(ranker.classifier), seen, near)
    clusters, places = clusters_with_labels(ranker.clusters, seen.new)
    classifier = _select_rows(grown, places)
    return ranker.over(ranker.encoder, clusters, classifier).eval()


@with_labels.register
def _(ranker: CandidatesRanker, additions: Additions) -> CandidatesRanker:
    seen = Seen.by(ranker.encoder, additions, device_of(ranker))
    shortlister = shortlister_with_labels(ranker.shortlister, additions, seen)
    classifier = with_new_rows(linear(ranker.classifier), seen, seen.near, places=_PLACES)
    return CandidatesRanker(ranker.encoder, shortlister, classifier, beta=float(ranker.beta)).eval()


@with_labels.register
def _(ranker: Reranker, additions: Additions) -> Reranker:
    seen = Seen.by(ranker.encoder, additions, device_of(ranker))
    base = with_labels(ranker.base, additions)
    classifier = with_new_rows(linear(ranker.classifier), seen, seen.near)
    return Reranker(base, ranker.encoder, classifier, size=ranker.size, alpha=float(ranker.alpha)).eval()


@with_labels.register
def _(ranker: BucketsRanker, additions: Additions) -> BucketsRanker:
    """Put a new label into the best bucket for it, in every member."""
    parts = []
    for encoder, classifier in ranker.parts():
        new = Seen.by(encoder, additions, device_of(ranker)).new
        best = classifier.buckets.score_all(new).argmax(1).to(torch.int32)
        parts.append((encoder, HashedClassifier(torch.cat([classifier.bucket_of, best]), classifier.buckets)))
    return BucketsRanker(parts, at_once=ranker.at_once).eval()


@with_labels.register
def _(ranker: Ensemble, additions: Additions) -> Ensemble:
    members = [with_labels(member, additions) for member in ranker.rankers()]
    return Ensemble(members, width=ranker.width, at_once=ranker.at_once).eval()
