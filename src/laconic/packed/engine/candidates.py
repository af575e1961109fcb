"""Astec as a packed ranker: near labels, blended with their classifier scores, in one kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import check_kind, check_numbers, check_real, check_whole
from laconic.packed.engine.candidate_kernels import Blend, Near, Own, rank_candidates, score_candidates
from laconic.packed.engine.composite import in_order
from laconic.packed.engine.encoders import Encoder, check_fits
from laconic.packed.engine.near_labels import NearLabels
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.texts import Inputs, Ranked, size_of
from laconic.packed.engine.transforms import Transform
from laconic.types import NO_LABEL


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates(PackedRanker):
    """Equals Blended over NearLabels, computed in one compiled pass."""

    encoder: Encoder
    transform: Transform
    rows: Rows  # label by label
    near: NearLabels
    beta: float  # the rows' share of a score
    size: int  # of the shortlist
    rescored: int = 64

    def __post_init__(self) -> None:
        check_kind(self.rows, "rows", Rows)
        check_fits(self.encoder, self.transform, self.rows.dim)
        check_kind(self.near, "nearest labels", NearLabels)
        if self.near.num_labels != self.rows.size or self.near.dim != self.encoder.dim:
            raise ModelError("the packed model's nearest labels do not fit its rows; pack it again")
        check_real(self.beta, "share of rows", 0.0, 1.0)
        check_whole(self.size, "size of a shortlist", 1)
        check_whole(self.rescored, "number of labels scored again", 1)

    @property
    def num_labels(self) -> int:
        return self.rows.size

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        if k > self.size:
            listed = self.near.listed(inputs, self.encoder.encode(inputs), k).labels
            return in_order(listed, self.score(inputs, listed), k)
        labels, scores = found = Ranked.empty(size_of(inputs), k)
        own = self._own if 2 * k <= self.rescored else self._own._replace(rescored=2 * k)
        rank_candidates(*self._ways, own, *self._vectors(inputs), (labels, scores))
        return found

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        scores = np.zeros(labels.shape, dtype=np.float32)
        score_candidates(*self._ways, self._own, *self._vectors(inputs), (labels, scores))
        return scores

    def with_beam(self, beam: int) -> Candidates:
        return replace(self, near=self.near.with_beam(beam))

    def exact(self) -> Candidates:
        return replace(self, near=self.near.exact(), rescored=max(self.rescored, 256))

    @property
    def beam(self) -> int:
        return self.near.centres.beam

    def _vectors(self, inputs: Inputs) -> tuple[Float[np.ndarray, "texts dim"], Float[np.ndarray, "texts width"]]:
        """Return text vectors for centres and texts, and for the classifier rows."""
        encoded = self.encoder.encode(inputs)
        return encoded, self.transform.apply(encoded)

    @cached_property
    def _ways(self) -> tuple[Near, Blend]:
        return self.near.ways(self.size)

    @cached_property
    def _own(self) -> Own:
        return Own(self.rows.grid, self.rows.second, float(self.beta), self.rescored)
