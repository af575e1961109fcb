"""Nearest labels: those whose centroids are nearest to a text's vector, blended with those of the nearest texts
(DeepXML, module II; its code's weights).

On a GPU every cosine is taken. On a CPU too, unless there are so many vectors that walking a graph is faster.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from laconic.errors import ConfigError, ModelError
from laconic.models.shortlisters.base import Shortlister
from laconic.models.shortlisters.centres import label_centres
from laconic.models.shortlisters.graph import INSTALL, MOST_LINKS, Graph, can_walk
from laconic.models.shortlisters.merge import Voters, merged
from laconic.models.shortlisters.nearest import tensor_of
from laconic.models.shortlisters.selection import largest
from laconic.types import NO_LABEL, Inputs, Ranking

log = logging.getLogger(__name__)

SEARCHES = ("auto", "exact", "graph")
_BOUNDS = (
    *((name, 1, 1_000_000) for name in ("size", "centroids", "centre_build_width", "centre_search_width")),
    *((name, 1, 1_000_000) for name in ("text_build_width", "text_search_width")),
    *((name, 0, 1_000_000) for name in ("neighbours", "centres")),
    *((name, 0, 1) for name in ("neighbour_weight", "frequent")),
    *((name, 2, MOST_LINKS) for name in ("centre_links", "text_links")),
    ("neighbour_power", 0, 100),
)
_NUMBERS = ("centre_labels", "text_starts", "text_labels")
_COSINES = 1 << 26  # that are held at a time
_TEXTS = 4096  # that are looked up at a time
# From so many vectors on a graph is built unasked: with it a text alone is answered several times faster, and batches
# about as fast (benchmarks/graph_search.py).
_MANY = 50_000


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """How nearest labels are found."""

    size: int = 500  # labels of a shortlist
    centroids: int = 400  # labels taken by their centroids
    neighbours: int = 100  # training texts asked for their labels; 0: none
    neighbour_weight: float = 0.075  # of what they say; the centroids' is the rest
    neighbour_power: float = 0.0  # of their cosines: with more, the nearest say more; 0: 3, or 1 in models of before
    centres: int = 0  # of a frequent label besides its centroid, by k-means; 0: none
    frequent: float = 0.005  # share of texts from which a label is frequent
    search: str = "auto"  # exact; graph: HNSW, on a CPU; auto: that, if vectors are many and faiss is installed
    centre_links: int = 100  # of a centre to its neighbours in the graph (HNSW's M)
    centre_build_width: int = 300  # candidates that are held while links are chosen (efConstruction)
    centre_search_width: int = 400  # and while the graph is walked (efSearch)
    text_links: int = 50
    text_build_width: int = 50
    text_search_width: int = 100

    def __post_init__(self) -> None:
        for name, least, most in _BOUNDS:
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"shortlist.{name} must be {least} to {most}, but is {getattr(self, name)}")
        if self.search not in SEARCHES:
            raise ConfigError(f"shortlist.search must be {' or '.join(SEARCHES)}, but is {self.search!r}")


class NearestLabels(Shortlister):
    """Vectors in, labels and how near they are out. Every vector and centre is taken with length 1."""

    centres: Tensor
    centre_labels: Tensor
    texts: Tensor
    text_starts: Tensor
    text_labels: Tensor
    neighbour_weight: Tensor

    def __init__(
        self,
        nearness: Nearness,
        *,
        num_labels: int,
        centres: Float[Tensor, "centres dim"],
        centre_labels: Int[Tensor, "centres"],
        texts: Float[Tensor, "texts dim"],
        text_starts: Int[Tensor, "bounds"],
        text_labels: Int[Tensor, "pairs"],
        centre_graph: Graph | None = None,
        text_graph: Graph | None = None,
    ) -> None:
        super().__init__()
        self.nearness, self.num_labels, self.size = nearness, num_labels, nearness.size
        self.register_buffer("centres", centres)
        self.register_buffer("centre_labels", centre_labels)
        self.register_buffer("texts", texts)
        self.register_buffer("text_starts", text_starts)
        self.register_buffer("text_labels", text_labels)
        # Beside the vectors, because it may be chosen when all has been learnt.
        self.register_buffer("neighbour_weight", torch.tensor(nearness.neighbour_weight, device=centres.device))
        self.centre_graph, self.text_graph = centre_graph, text_graph

    @staticmethod
    def of(vectors: Float[Tensor, "texts dim"], labels: csr_array, nearness: Nearness, seed: int) -> NearestLabels:
        """From the vectors of training texts and their labels."""
        units = functional.normalize(vectors, dim=1)
        centres, centre_labels = label_centres(
            units, labels, more=nearness.centres, frequent=nearness.frequent, seed=seed
        )
        kept = labels if nearness.neighbours else labels[:0]
        texts = units[: kept.shape[0]].clone()
        return NearestLabels(
            nearness,
            num_labels=labels.shape[1],
            centres=centres,
            centre_labels=centre_labels,
            texts=texts,
            text_starts=torch.from_numpy(kept.indptr.astype(np.int64)).to(units.device),
            text_labels=torch.from_numpy(kept.indices.astype(np.int64)).to(units.device),
            centre_graph=_graph_of(centres, nearness.search, nearness.centre_links, nearness.centre_build_width),
            text_graph=_graph_of(texts, nearness.search, nearness.text_links, nearness.text_build_width),
        )

    @staticmethod
    def of_tensors(tensors: Mapping[str, Tensor], name: str, nearness: Nearness, num_labels: int) -> NearestLabels:
        """What is kept under that name, once no number of it points outside: models come from files.

        Graphs are used if they are in the model; none is built here.
        """
        kinds = {"centres": torch.float32, "texts": torch.float32} | dict.fromkeys(_NUMBERS, torch.int64)
        parts = {part: tensor_of(tensors, f"{name}.{part}", kind) for part, kind in kinds.items()}
        if any(tensor.ndim != (2 if part in ("centres", "texts") else 1) for part, tensor in parts.items()) or not (
            _fit(parts, num_labels)
        ):
            raise ModelError(f"the model's tensors {name!r} do not fit together; its folder is damaged: fetch it again")
        centre_graph = Graph.kept_in(tensors, f"{name}.centre_graph", len(parts["centres"]))
        text_graph = Graph.kept_in(tensors, f"{name}.text_graph", len(parts["texts"]))
        if nearness.search == "graph" and centre_graph is None:
            raise ConfigError("shortlist.search=graph needs a model that was trained with it; this one has no graph")
        return NearestLabels(nearness, num_labels=num_labels, **parts, centre_graph=centre_graph, text_graph=text_graph)

    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        """The nearest labels of each text, nearest first; those that are on no list follow where so many are wanted."""
        parts = [self._blended(part, size) for part in torch.split(functional.normalize(vectors, dim=1), _TEXTS)]
        return Ranking(torch.cat([part.labels for part in parts]), torch.cat([part.scores for part in parts]))

    def exact(self) -> NearestLabels:
        """The same labels, found by taking every cosine."""
        return self._other(search="exact", neighbour_weight=float(self.neighbour_weight))

    def weighing(self, neighbour_weight: float) -> NearestLabels:
        """The same, with another weight of what neighbours say."""
        return self._other(
            neighbour_weight=neighbour_weight, centre_graph=self.centre_graph, text_graph=self.text_graph
        )

    def holding(self, *, num_labels: int, **parts: Tensor) -> NearestLabels:
        """The same way to search among other labels or texts; what is not given stays. Graphs follow."""
        held = {name: getattr(self, name) for name in ("centres", "texts", *_NUMBERS)} | parts
        near = replace(self.nearness, neighbour_weight=float(self.neighbour_weight))
        return NearestLabels(
            near,
            num_labels=num_labels,
            **held,
            centre_graph=_followed(
                self.centre_graph, self.centres, held["centres"], near.centre_links, near.centre_build_width
            ),
            text_graph=_followed(self.text_graph, self.texts, held["texts"], near.text_links, near.text_build_width),
        )

    def _other(
        self, *, centre_graph: Graph | None = None, text_graph: Graph | None = None, **changes: Any
    ) -> NearestLabels:
        parts = {name: getattr(self, name) for name in ("centres", "texts", *_NUMBERS)}
        nearness = replace(self.nearness, **changes)
        return NearestLabels(
            nearness, num_labels=self.num_labels, **parts, centre_graph=centre_graph, text_graph=text_graph
        )

    def _blended(self, units: Float[Tensor, "batch dim"], size: int) -> Ranking:
        texts, cosines = self._near_texts(units)
        weights = cosines.clamp(min=0) ** (self.nearness.neighbour_power or 1.0)
        return merged(
            self._near_labels(units, size),
            Voters(texts, weights, self.text_starts, self.text_labels),
            counted=self.nearness.centroids,
            share=float(self.neighbour_weight) if texts.shape[1] else 0.0,
            num_labels=self.num_labels,
            size=size,
        )

    def _near_labels(self, units: Float[Tensor, "batch dim"], size: int) -> Ranking:
        """By their centres; some more than count, for a shortlist of that size to be full.

        A label may be there several times, its nearest centre first.
        """
        wanted = min(max(self.nearness.centroids, min(size, 2 * self.nearness.centroids)), self.num_labels)
        graph, owners = self._walked(self.centre_graph, units), self.centre_labels[self.num_labels :]
        if graph is None:
            return _by_all_cosines(units, self.centres, wanted, owners)
        # Where labels have several centres, some of the nearest are of the same label.
        centres = min(2 * wanted, len(self.centres)) if len(owners) else wanted
        near = _by_graph(units, self.centres, centres, graph, self.nearness.centre_search_width)
        return Ranking(self.centre_labels[near.labels], near.scores)

    def _near_texts(self, units: Float[Tensor, "batch dim"]) -> Ranking:
        wanted, graph = min(self.nearness.neighbours, len(self.texts)), self._walked(self.text_graph, units)
        if graph is None or not wanted:
            return _by_all_cosines(units, self.texts, wanted)
        return _by_graph(units, self.texts, wanted, graph, self.nearness.text_search_width)

    def _walked(self, graph: Graph | None, units: Tensor) -> Graph | None:
        """The graph, if it is the way to search."""
        search = self.nearness.search if graph is not None and units.is_cpu else "exact"
        return graph if search == "graph" or (search == "auto" and _can_walk()) else None


def agreement(shortlister: NearestLabels, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> float:
    """The share of exact search's labels that the shortlister gives; 1 where its search is exact."""
    found, exact = (each(inputs, vectors, size).labels for each in (shortlister, shortlister.exact()))
    ordered = torch.cat([found, exact], 1).sort(dim=1).values  # a label of both is there twice
    both = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_LABEL)
    return float(both.sum() / (exact != NO_LABEL).sum().clamp(min=1))


def _graph_of(rows: Float[Tensor, "rows dim"], search: str, links: int, build_width: int) -> Graph | None:
    pays = rows.is_cpu and len(rows) >= _MANY
    wanted = len(rows) > 0 and (search == "graph" or (search == "auto" and pays and _can_walk()))
    return Graph.of(rows, links, build_width) if wanted else None


def _followed(
    graph: Graph | None,
    before: Float[Tensor, "before dim"],
    after: Float[Tensor, "after dim"],
    links: int,
    build_width: int,
) -> Graph | None:
    """The graph of other vectors: the same, longer where some were only added at the end, or built anew."""
    if graph is None or after is before:
        return graph
    if torch.equal(after[: len(before)], before):
        return graph.extended(after, build_width)
    return Graph.of(after, links, build_width)


@cache
def _can_walk() -> bool:
    if not can_walk():
        log.warning("every cosine is taken, where walking a graph would be faster: %s", INSTALL)
    return can_walk()


def _by_all_cosines(
    units: Float[Tensor, "batch dim"],
    rows: Float[Tensor, "rows dim"],
    k: int,
    owners: Int[Tensor, "more"] | None = None,
) -> Ranking:
    """The nearest k rows. Rows at the end that have an owner count for it, where they are nearer."""
    parts = []
    for part in torch.split(units, max(1, _COSINES // max(1, len(rows)))):
        cosines = part @ rows.T
        if owners is not None and len(owners):
            extra = cosines[:, len(rows) - len(owners) :]
            cosines = cosines[:, : len(rows) - len(owners)].scatter_reduce(1, owners.expand_as(extra), extra, "amax")
        parts.append(largest(cosines, k))
    return Ranking(torch.cat([part.labels for part in parts]), torch.cat([part.scores for part in parts]))


def _by_graph(
    units: Float[Tensor, "batch dim"], rows: Float[Tensor, "rows dim"], k: int, graph: Graph, width: int
) -> Ranking:
    found = graph.nearest(units, rows, k, width)
    short = (found.labels < 0).any(1)
    if short.any():  # a walk may end early where many vectors are the same; no text gets fewer than it would
        instead = _by_all_cosines(units[short], rows, k)
        found.labels[short], found.scores[short] = instead.labels, instead.scores
    return found


def _fit(parts: Mapping[str, Tensor], num_labels: int) -> bool:
    centres, owners, texts = parts["centres"], parts["centre_labels"], parts["texts"]
    starts, numbers = parts["text_starts"], torch.cat([parts["text_labels"], owners])
    return (
        (len(starts), len(owners), texts.shape[1]) == (len(texts) + 1, len(centres), centres.shape[1])
        and (int(starts[0]), int(starts[-1])) == (0, len(parts["text_labels"]))
        and bool((starts.diff() >= 0).all())
        and bool(((numbers >= 0) & (numbers < num_labels)).all())
        and torch.equal(owners[:num_labels], torch.arange(num_labels, device=owners.device))
    )
