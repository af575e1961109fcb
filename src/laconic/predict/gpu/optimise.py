"""Replace a ranker on a GPU by a faster one with the same answers."""

from __future__ import annotations

from functools import singledispatch

from laconic.kernels.triton import HAS_KERNELS
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Encoder, WordEncoder
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.rankers import Ensemble, FlatRanker, Ranker, Reranker, ShortlistRanker
from laconic.predict.gpu.clusters import ClustersRanker
from laconic.predict.gpu.encoders import optimise_encoder, with_fixed_norms
from laconic.predict.gpu.exact import ExactRanker
from laconic.predict.gpu.graphs import GraphRanker

_FEW = 1 << 14  # labels of which every score may as well be written down


@singledispatch
def optimise_ranker(ranker: Ranker) -> Ranker:
    """Return a faster equivalent that shares the ranker's tensors; an unregistered ranker is returned unchanged."""
    return ranker


@optimise_ranker.register
def _(ranker: FlatRanker) -> GraphRanker:
    encoder, classifier = optimise_encoder(ranker.encoder), with_fixed_norms(ranker.classifier)
    if isinstance(classifier, LinearClassifier) and classifier.num_labels > _FEW and HAS_KERNELS:
        return GraphRanker(ranker, ExactRanker(encoder, classifier), longest=_longest(ranker.encoder))
    quick = FlatRanker(encoder, classifier, chunk=ranker.chunk)
    return GraphRanker(ranker, quick, longest=_longest(ranker.encoder))


@optimise_ranker.register
def _(ranker: ShortlistRanker) -> GraphRanker:
    encoder, clusters, classifier = (
        optimise_encoder(ranker.encoder),
        with_fixed_norms(ranker.clusters),
        with_fixed_norms(ranker.classifier),
    )
    same = ranker.over(encoder, clusters, classifier)
    quick = ClustersRanker(same) if isinstance(classifier, LinearClassifier) and HAS_KERNELS else same
    return GraphRanker(ranker, quick, longest=_longest(ranker.encoder))


@optimise_ranker.register
def _(ranker: Reranker) -> Reranker:
    base, alpha = optimise_ranker(ranker.base), float(ranker.alpha)
    return Reranker(base, ranker.encoder, ranker.classifier, size=ranker.size, alpha=alpha)


@optimise_ranker.register
def _(ranker: FusedRanker) -> FusedRanker:
    spaces = (None if one is None else optimise_ranker(one) for one in (ranker.siamese, ranker.transformer))
    return ranker.of(optimise_ranker(ranker.base), ranker.nearest, ranker.frequency, ranker.trees, *spaces)


@optimise_ranker.register
def _(ranker: Ensemble) -> Ensemble:
    members = [optimise_ranker(member) for member in ranker.rankers()]
    return Ensemble(members, width=ranker.width, at_once=ranker.at_once)


def _longest(encoder: Encoder) -> int:
    return encoder.length if isinstance(encoder, WordEncoder) else 0
