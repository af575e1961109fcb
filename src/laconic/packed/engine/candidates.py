"""Astec as a packed ranker: near labels, blended with their classifier scores, in one kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import check_kind, check_numbers, check_real, check_whole
from laconic.kernels.held import Held, hold
from laconic.packed.engine.candidate_kernels import Own, rank_candidates, score_candidates
from laconic.packed.engine.composite import in_order
from laconic.packed.engine.encoders import Encoder, check_fits
from laconic.packed.engine.near_labels import NearLabels
from laconic.packed.engine.nibble_rows import NibbleRows, in_planes
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.texts import Inputs, Ranked, size_of
from laconic.packed.engine.transforms import Transform
from laconic.types import NO_LABEL


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates(PackedRanker):
    """Equals Blended over NearLabels, computed in one compiled pass."""

    encoder: Encoder
    transform: Transform
    rows: NibbleRows  # label by label
    near: NearLabels
    beta: float  # the rows' share of a score
    size: int  # of the shortlist
    rescored: int = 64

    def __post_init__(self) -> None:
        check_kind(self.rows, "rows", NibbleRows)
        check_fits(self.encoder, self.transform, self.rows.dim)
        check_kind(self.near, "nearest labels", NearLabels)
        if self.near.num_labels != self.rows.size or self.near.dim != self.encoder.dim:
            raise ModelError("the packed model's nearest labels do not fit its rows; pack it again")
        check_real(self.beta, "share of rows", 0.0, 1.0)
        check_whole(self.size, "size of a shortlist", 1)
        check_whole(self.rescored, "number of labels scored again", 1)

    @classmethod
    def upgraded(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Split the rows of version 0.2, which had whole bytes."""
        return in_planes(values)

    @property
    def num_labels(self) -> int:
        return self.rows.size

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        if k > self.size:
            listed = self.near.listed(inputs, self.encoder.encode(inputs), k).labels
            return in_order(listed, self.score(inputs, listed), k)
        found = Ranked.empty(size_of(inputs), k)
        rank_candidates(self._held(max(self.rescored, 2 * k)), *self._vectors(inputs), *found)
        return found

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        scores = np.zeros(labels.shape, dtype=np.float32)
        score_candidates(self._held(self.rescored), *self._vectors(inputs), np.ascontiguousarray(labels), scores)
        return scores

    def with_beam(self, beam: int) -> Candidates:
        return replace(self, near=self.near.with_beam(beam))

    def with_cells(self, of_labels: int, of_texts: int) -> Candidates:
        """Return the ranker with this many cells of labels and of texts probed."""
        return replace(self, near=self.near.with_cells(of_labels, of_texts))

    def exact(self) -> Candidates:
        return replace(self, near=self.near.exact(), rescored=max(self.rescored, self.size))

    @property
    def beam(self) -> int:
        return self.near.centres.beam

    def _vectors(self, inputs: Inputs) -> tuple[Float[np.ndarray, "texts dim"], Float[np.ndarray, "texts width"]]:
        """Return text vectors for centres and texts, and for the classifier rows."""
        encoded = self.encoder.encode(inputs)
        return encoded, self.transform.apply(encoded)

    def _held(self, rescored: int) -> Held:
        """Return what kernels read, with so many labels scored again."""
        if rescored not in self._ways:
            self._ways[rescored] = hold((*self.near.ways(self.size), Own(self.rows.grid, float(self.beta), rescored)))
        return self._ways[rescored]

    @cached_property
    def _ways(self) -> dict[int, Held]:
        return {}
