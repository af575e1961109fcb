"""A packed ranker over any shortlist that blends shortlist scores with classifier scores (DeepXML)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import check_kind, check_numbers, check_real, check_whole
from laconic.packed.engine.composite import in_order, largest_of, values_of
from laconic.packed.engine.encoders import Encoder, check_fits
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.row_kernels import probabilities
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.shortlists import Shortlist
from laconic.packed.engine.texts import Inputs, Ranked
from laconic.packed.engine.transforms import Transform
from laconic.types import NO_LABEL


@dataclass(frozen=True, kw_only=True, eq=False)
class Blended(PackedRanker):
    """Blends two sigmoids, each divided by the text's largest. Labels outside the shortlist come last."""

    encoder: Encoder
    transform: Transform
    rows: Rows  # label by label
    shortlist: Shortlist
    beta: float  # the rows' share of a score
    size: int  # of the shortlist

    def __post_init__(self) -> None:
        check_kind(self.rows, "rows", Rows)
        check_fits(self.encoder, self.transform, self.rows.dim)
        check_kind(self.shortlist, "shortlist", Shortlist)
        if self.shortlist.num_labels != self.rows.size or self.shortlist.dim != self.encoder.dim:
            raise ModelError("the packed model's shortlist does not fit its rows; pack it again")
        check_real(self.beta, "share of rows", 0.0, 1.0)
        check_whole(self.size, "size of a shortlist", 1)

    @property
    def num_labels(self) -> int:
        return self.rows.size

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        vectors = self.encoder.encode(inputs)
        listed = self.shortlist.listed(inputs, vectors, self._size)
        if k > self._size:
            further = self.shortlist.listed(inputs, vectors, k).labels
            return in_order(further, self._scores(vectors, listed, further), k)
        return in_order(listed.labels, self._scores(vectors, listed, listed.labels), k)

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        vectors = self.encoder.encode(inputs)
        listed = self.shortlist.listed(inputs, vectors, self._size)
        return self._scores(vectors, listed, labels)

    def with_beam(self, beam: int) -> Blended:
        return replace(self, shortlist=self.shortlist.with_beam(beam))

    def exact(self) -> Blended:
        return replace(self, shortlist=self.shortlist.exact())

    @property
    def _size(self) -> int:
        return min(self.size, self.shortlist.longest)

    def _scores(
        self, vectors: Float[np.ndarray, "texts dim"], listed: Ranked, labels: Int[np.ndarray, "texts n"]
    ) -> Float[np.ndarray, "texts n"]:
        beta, rest, own = np.float32(self.beta), np.float32(1 - self.beta), self.transform.apply(vectors)
        some, near = self._probabilities(own, listed.labels), sigmoids(listed.scores)
        largest, nearest = largest_of(some), largest_of(near)
        inside = beta * some / largest + rest * near / nearest
        if labels is listed.labels:
            return np.where(labels == NO_LABEL, 0, inside).astype(np.float32)
        last = np.where(listed.labels == NO_LABEL, np.inf, inside).min(1, initial=np.inf)[:, None]
        by_rows = beta * self._probabilities(own, labels) / largest
        nearness = values_of(labels, listed.labels, near)
        there = values_of(labels, listed.labels, np.ones_like(near)) > 0
        scores = np.where(there, by_rows + rest * nearness / nearest, np.minimum(by_rows, last))
        return np.where(labels == NO_LABEL, 0, scores).astype(np.float32)

    def _probabilities(
        self, vectors: Float[np.ndarray, "texts width"], labels: Int[np.ndarray, "texts n"]
    ) -> Float[np.ndarray, "texts n"]:
        found = np.zeros(labels.shape, dtype=np.float32)
        probabilities(self.rows.grid, self.rows.second, vectors, np.ascontiguousarray(labels), found)
        return found


def sigmoids(scores: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    with np.errstate(over="ignore"):
        shares: np.ndarray = 1 / (1 + np.exp(-scores))
    return shares
