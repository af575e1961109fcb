"""Nearest labels: those whose centroids are nearest to a text's vector, blended with those of the nearest texts.

Search is exact: every cosine is taken, a block of texts at a time (DeepXML, module II; its code's weights).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from laconic.errors import ConfigError, ModelError
from laconic.shortlisters.base import Shortlister
from laconic.shortlisters.nearest import tensor_of
from laconic.shortlisters.selection import largest
from laconic.types import NO_LABEL, Inputs, Ranking

_NUMBERS = ("centre_labels", "text_starts", "text_labels")
_AT_ONCE = 1 << 26  # cosines that are held at a time


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """How nearest labels are found."""

    size: int = 500  # labels of a shortlist
    centroids: int = 400  # labels taken by their centroids
    neighbours: int = 100  # training texts asked for their labels; 0: none
    neighbour_weight: float = 0.075  # of what they say; the centroids' is the rest
    centres: int = 0  # of a frequent label besides its centroid, by k-means; 0: none
    frequent: float = 0.005  # share of texts from which a label is frequent

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("centroids", 1), ("neighbours", 0), ("centres", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"shortlist.{name} must be {least} or more, but is {getattr(self, name)}")
        for name in ("neighbour_weight", "frequent"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"shortlist.{name} must be 0 to 1, but is {getattr(self, name)}")


class NearestLabels(Shortlister):
    """Vectors in, labels and how near they are out. Every vector and centre is taken with length 1."""

    centres: Tensor
    centre_labels: Tensor
    texts: Tensor
    text_starts: Tensor
    text_labels: Tensor

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

    @staticmethod
    def of(vectors: Float[Tensor, "texts dim"], labels: csr_array, nearness: Nearness, seed: int) -> NearestLabels:
        """From the vectors of training texts and their labels."""
        units = functional.normalize(vectors, dim=1)
        centres, centre_labels = label_centres(units, labels, nearness, seed)
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
        """What is kept under that name, once no number of it points outside: models come from files."""
        kinds = {"centres": torch.float32, "texts": torch.float32} | dict.fromkeys(_NUMBERS, torch.int64)
        parts = {part: tensor_of(tensors, f"{name}.{part}", kind) for part, kind in kinds.items()}
        if any(tensor.ndim != (2 if part in ("centres", "texts") else 1) for part, tensor in parts.items()) or not (
            _fit(parts, num_labels)
        ):
            raise ModelError(f"the model's tensors {name!r} do not fit together; its folder is damaged: fetch it again")
        return NearestLabels(nearness, num_labels=num_labels, **parts)

    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        """The nearest labels of each text, nearest first."""
        rows = max(1, _AT_ONCE // max(self.num_labels, len(self.centres), len(self.texts)))
        parts = [self._blended(part, size) for part in torch.split(functional.normalize(vectors, dim=1), rows)]
        return Ranking(torch.cat([part.labels for part in parts]), torch.cat([part.scores for part in parts]))

    def _blended(self, units: Float[Tensor, "batch dim"], size: int) -> Ranking:
        weight = self.nearness.neighbour_weight if len(self.texts) else 0.0
        near = largest(self._by_centre(units), min(self.nearness.centroids, self.num_labels))
        total = units.new_zeros(len(units), self.num_labels)
        total.scatter_(1, near.labels, (1 - weight) * near.scores)
        if weight:
            total += weight * self._votes(units)
        best = largest(total, min(size, self.num_labels))
        missing = (0, size - best.labels.shape[1])
        return Ranking(functional.pad(best.labels, missing, value=NO_LABEL), functional.pad(best.scores, missing))

    def _by_centre(self, units: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch labels"]:
        """Of several centres of a label the nearest counts."""
        cosines = units @ self.centres.T
        if len(self.centres) == self.num_labels:
            return cosines
        by_label = units.new_full((len(units), self.num_labels), -1.0)
        return by_label.scatter_reduce_(1, self.centre_labels.expand_as(cosines), cosines, "amax")

    def _votes(self, units: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch labels"]:
        """The nearest texts' labels with their cosines, summed and divided by the largest sum."""
        near = largest(units @ self.texts.T, min(self.nearness.neighbours, len(self.texts)))
        starts, counts = self.text_starts[:-1][near.labels], self.text_starts.diff()[near.labels]
        place = torch.arange(int(counts.max()) if counts.numel() else 0, device=units.device)
        there = place < counts[:, :, None]
        votes = units.new_zeros(len(units), self.num_labels)
        if len(place):
            labels = self.text_labels[(starts[:, :, None] + place) * there]
            votes.scatter_add_(1, labels.flatten(1), (near.scores[:, :, None] * there).flatten(1))
        return votes / votes.amax(1, keepdim=True).clamp(min=1e-12)


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


def label_centres(
    units: Float[Tensor, "texts dim"], labels: csr_array, nearness: Nearness, seed: int
) -> tuple[Float[Tensor, "centres dim"], Int[Tensor, "centres"]]:
    """A centroid for every label, in the order of labels, and then the further centres of frequent ones."""
    texts, numbers = labels.nonzero()
    texts, numbers = (torch.from_numpy(part.astype(np.int64)).to(units.device) for part in (texts, numbers))
    sums = units.new_zeros(labels.shape[1], units.shape[1])
    for first in range(0, len(texts), 1 << 20):
        part = slice(first, first + (1 << 20))
        sums.index_add_(0, numbers[part], units[texts[part]])
    centres, owners = [functional.normalize(sums, dim=1)], [torch.arange(labels.shape[1], device=units.device)]
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    frequent = counts >= max(nearness.frequent * labels.shape[0], 2)
    for label in np.flatnonzero(frequent) if nearness.centres else ():
        own = units[texts[numbers == int(label)]]
        found = k_means(own, min(nearness.centres, len(own)), seed)
        centres.append(found)
        owners.append(torch.full((len(found),), int(label), device=units.device))
    return torch.cat(centres), torch.cat(owners)


def k_means(units: Float[Tensor, "n dim"], centres: int, seed: int, rounds: int = 50) -> Float[Tensor, "centres dim"]:
    """Centres of length 1 by cosine; one that loses all its vectors stays where it was."""
    chance = torch.Generator().manual_seed(seed)
    means = units[torch.randperm(len(units), generator=chance)[:centres].to(units.device)]
    for _ in range(rounds):
        sums = torch.zeros_like(means).index_add_(0, (units @ means.T).argmax(1), units)
        moved = torch.where(sums.any(1, keepdim=True), functional.normalize(sums, dim=1), means)
        if torch.equal(moved, means):
            break
        means = moved
    return means
