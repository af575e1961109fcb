"""Shortlist labels by their centroids' cosines, blended with the labels of the nearest training texts (DeepXML)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from laconic.config import Bounds, Choices, check_known, check_within
from laconic.errors import ModelError
from laconic.models.shortlisters.base import Shortlister, join_rankings
from laconic.models.shortlisters.centres import label_centres
from laconic.models.shortlisters.merge import Voters, merge
from laconic.models.shortlisters.nearest import tensor_of
from laconic.models.shortlisters.selection import largest
from laconic.types import Inputs, Ranking

log = logging.getLogger(__name__)

SEARCHES = ("auto", "exact", "graph")
_NUMBERS = ("centre_labels", "text_starts", "text_labels")
_PARTS = ("centres", "texts", *_NUMBERS)
_COSINES = 1 << 26  # held at a time
_TEXTS = 4096  # looked up at a time
_GRAPHS = ("centre_graph.", "text_graph.")  # tensors of the search graphs of earlier versions


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """Settings of the search for the nearest labels."""

    bounds: ClassVar[Bounds] = {
        "size": (1, 1_000_000),
        "centroids": (1, 1_000_000),
        "neighbours": (0, 1_000_000),
        "neighbour_weight": (0, 1),
        "neighbour_power": (0, 100),
        "centres": (0, 1_000_000),
        "frequent": (0, 1),
    }
    choices: ClassVar[Choices] = {"search": SEARCHES}

    size: int = 500
    """Labels in a shortlist. Symbol: |Ŝ| (DeepXML, section 3)."""
    centroids: int = 400
    """Labels taken by the cosine of their centroids with the text's vector."""
    neighbours: int = 100
    """Nearest training texts that vote for their labels. 0: no votes."""
    neighbour_weight: float = 0.075
    """Weight of the votes in a label's nearness; the centroids have the rest."""
    neighbour_power: float = 0.0
    """Exponent of a neighbour's cosine in its vote. 0: 3, or 1 in models of earlier versions."""
    centres: int = 0
    """Centroids, found by k-means, that a frequent label has besides its mean. 0: none."""
    frequent: float = 0.005
    """Fraction of the training texts from which on a label counts as frequent."""
    search: str = "auto"
    """How the nearest vectors are found. Search is always exact; "graph" is accepted for models of earlier versions."""

    # Settings of the graphs of earlier versions, whose models go on opening.
    RETIRED = tuple(f"{of}_{name}" for of in ("centre", "text") for name in ("links", "build_width", "search_width"))

    def __post_init__(self) -> None:
        check_within(self, self.bounds, "shortlist.")
        check_known(self, self.choices, "shortlist.")


class NearestLabels(Shortlister):
    """Returns the labels nearest to a text's vector. Every vector and centre is taken with length 1."""

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
    ) -> None:
        super().__init__()
        self.nearness, self.num_labels, self.size = nearness, num_labels, nearness.size
        self.register_buffer("centres", centres)
        self.register_buffer("centre_labels", centre_labels)
        self.register_buffer("texts", texts)
        self.register_buffer("text_starts", text_starts)
        self.register_buffer("text_labels", text_labels)
        # A buffer, because it may be tuned after training.
        self.register_buffer("neighbour_weight", torch.tensor(nearness.neighbour_weight, device=centres.device))
        self.register_load_state_dict_pre_hook(_drop_graphs)  # type: ignore[no-untyped-call]

    @staticmethod
    def of(vectors: Float[Tensor, "texts dim"], labels: csr_array, nearness: Nearness, seed: int) -> NearestLabels:
        """Build the shortlister from the vectors of training texts and their labels."""
        if nearness.search == "graph":
            log.warning("shortlist.search=graph is no longer supported; exact search is used")
        units = functional.normalize(vectors, dim=1)
        centres, centre_labels = label_centres(
            units, labels, more=nearness.centres, frequent=nearness.frequent, seed=seed
        )
        kept = labels if nearness.neighbours else labels[:0]
        return NearestLabels(
            nearness,
            num_labels=labels.shape[1],
            centres=centres,
            centre_labels=centre_labels,
            texts=units[: kept.shape[0]].clone(),
            text_starts=torch.from_numpy(kept.indptr.astype(np.int64)).to(units.device),
            text_labels=torch.from_numpy(kept.indices.astype(np.int64)).to(units.device),
        )

    @staticmethod
    def of_tensors(tensors: Mapping[str, Tensor], name: str, nearness: Nearness, num_labels: int) -> NearestLabels:
        """Read the tensors stored under that name and check that no index points outside."""
        kinds = {"centres": torch.float32, "texts": torch.float32} | dict.fromkeys(_NUMBERS, torch.int64)
        parts = {part: tensor_of(tensors, f"{name}.{part}", kind) for part, kind in kinds.items()}
        if any(tensor.ndim != (2 if part in ("centres", "texts") else 1) for part, tensor in parts.items()) or not (
            _fit(parts, num_labels)
        ):
            raise ModelError(f"the model's tensors {name!r} do not fit together; its folder is damaged: fetch it again")
        if any(tensor.startswith(f"{name}.{graph}") for tensor in tensors for graph in _GRAPHS):
            log.warning("the model has a search graph, written by an earlier version; exact search is used")
        return NearestLabels(nearness, num_labels=num_labels, **parts)

    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        """Return the nearest labels of each text, nearest first, filled up with further labels to that size."""
        units = functional.normalize(vectors, dim=1)
        return join_rankings([self._blended(part, size) for part in torch.split(units, _TEXTS)])

    def with_neighbour_weight(self, neighbour_weight: float) -> NearestLabels:
        """Return the shortlister with another weight of the neighbours' votes."""
        parts = {name: getattr(self, name) for name in _PARTS}
        nearness = replace(self.nearness, neighbour_weight=neighbour_weight)
        return NearestLabels(nearness, num_labels=self.num_labels, **parts)

    def holding(self, *, num_labels: int, **parts: Tensor) -> NearestLabels:
        """Return the shortlister over other labels or texts; tensors that are not given stay."""
        held = {name: getattr(self, name) for name in _PARTS} | parts
        nearness = replace(self.nearness, neighbour_weight=float(self.neighbour_weight))
        return NearestLabels(nearness, num_labels=num_labels, **held)

    def _blended(self, units: Float[Tensor, "batch dim"], size: int) -> Ranking:
        texts, cosines = _by_all_cosines(units, self.texts, min(self.nearness.neighbours, len(self.texts)))
        weights = cosines.clamp(min=0) ** (self.nearness.neighbour_power or 1.0)
        return merge(
            self._near_labels(units, size),
            Voters(texts, weights, self.text_starts, self.text_labels),
            counted=self.nearness.centroids,
            votes_weight=float(self.neighbour_weight) if texts.shape[1] else 0.0,
            num_labels=self.num_labels,
            size=size,
        )

    def _near_labels(self, units: Float[Tensor, "batch dim"], size: int) -> Ranking:
        """Return labels by their nearest centres, enough to fill a shortlist of that size."""
        wanted = min(max(self.nearness.centroids, min(size, 2 * self.nearness.centroids)), self.num_labels)
        return _by_all_cosines(units, self.centres, wanted, self.centre_labels[self.num_labels :])


def _drop_graphs(_module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name in [name for name in state if name.startswith(tuple(prefix + graph for graph in _GRAPHS))]:
        del state[name]


def _by_all_cosines(
    units: Float[Tensor, "batch dim"],
    rows: Float[Tensor, "rows dim"],
    k: int,
    owners: Int[Tensor, "more"] | None = None,
) -> Ranking:
    """Return the nearest k rows. The last rows, as many as have owners, count for their owner where they are nearer."""
    parts = []
    for part in torch.split(units, max(1, _COSINES // max(1, len(rows)))):
        cosines = part @ rows.T
        if owners is not None and len(owners):
            extra = cosines[:, len(rows) - len(owners) :]
            cosines = cosines[:, : len(rows) - len(owners)].scatter_reduce(1, owners.expand_as(extra), extra, "amax")
        parts.append(largest(cosines, k))
    return join_rankings(parts)


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
