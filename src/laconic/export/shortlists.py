"""Converts torch shortlisters to those of the packed engine."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from scipy.sparse import csr_array

from laconic.errors import ModelError
from laconic.export.cells import cells_of, rows_of
from laconic.export.encoders import pack_transform
from laconic.kernels.csr import Lists
from laconic.models.shortlisters.base import Shortlister
from laconic.models.shortlisters.clusters import OfClusters
from laconic.models.shortlisters.label_texts import WithLabelTexts
from laconic.models.shortlisters.labels import NearestLabels
from laconic.packed.engine.near_labels import NearLabels
from laconic.packed.engine.pairs import Pairs
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.shortlists import ClusterLabels, Shortlist, WordLabels


@singledispatch
def pack_shortlist(shortlister: Shortlister, dim: int) -> Shortlist:
    """Convert a shortlister of vectors of `dim` numbers."""
    raise ModelError(f"a shortlister of the kind {type(shortlister).__name__} cannot be packed")


@pack_shortlist.register
def _(near: NearestLabels, dim: int) -> NearLabels:
    how = near.nearness
    return NearLabels(
        num_labels=near.num_labels,
        centres=cells_of(near.centres.cpu().numpy()),
        owners=near.centre_labels.cpu().numpy().astype(np.int32),
        texts=cells_of(near.texts.cpu().numpy()) if len(near.texts) else None,
        text_starts=near.text_starts.cpu().numpy(),
        text_labels=near.text_labels.cpu().numpy().astype(np.int32),
        counted=how.centroids,
        neighbours=how.neighbours,
        power=how.neighbour_power or 1.0,
        votes=float(near.neighbour_weight),
    )


@pack_shortlist.register
def _(shortlister: OfClusters, dim: int) -> ClusterLabels:
    clusters = shortlister.clusters
    return ClusterLabels(
        num_labels=shortlister.num_labels,
        transform=pack_transform(clusters.classifier.transform, dim),
        clusters=Rows.of(*rows_of(clusters.classifier)),
        order=clusters.order.cpu().numpy().astype(np.int32),
        starts=clusters.starts.cpu().numpy().astype(np.int32),
    )


@pack_shortlist.register
def _(shortlister: WithLabelTexts, dim: int) -> WordLabels:
    starts, words, weights = (
        part.cpu().numpy() for part in (shortlister.starts, shortlister.words, shortlister.weights)
    )
    of_labels = csr_array((weights, words, starts), shape=(shortlister.num_labels, shortlister.num_ids))
    return WordLabels(
        num_labels=shortlister.num_labels,
        others=pack_shortlist(shortlister.others, dim),
        count=shortlister.count,
        label_texts=Pairs.of(Lists.inverted(of_labels)),
    )
