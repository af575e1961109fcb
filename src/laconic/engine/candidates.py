"""Astec's answers from packed arrays: labels whose vectors are near a text's, blended with what their rows say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from laconic.engine.candidate_kernels import Blend, Near, Own, rank_candidates, score_candidates
from laconic.engine.cells import Cells
from laconic.engine.encoders import Encoder
from laconic.engine.parts import check_array, check_numbers, check_starts, for_kernels
from laconic.engine.ranking import PackedRanker
from laconic.engine.rows import Rows
from laconic.engine.texts import Inputs, Ranked, size_of
from laconic.engine.transforms import Transform
from laconic.errors import ModelError
from laconic.types import NO_LABEL


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates(PackedRanker):
    encoder: Encoder
    transform: Transform
    rows: Rows  # label by label
    beta: float  # the rows' share of a score
    centres: Cells
    owners: np.ndarray  # int32: the label of each centre
    texts: Cells | None  # None: no text is asked
    text_starts: np.ndarray  # int64
    text_labels: np.ndarray  # int32
    counted: int  # labels taken by their centres
    neighbours: int
    power: float  # of a neighbour's cosine
    votes: float  # the neighbours' share of nearness
    size: int  # of the shortlist
    rescored: int = 64

    def __post_init__(self) -> None:
        labels = self.rows.size
        check_array(self.owners, "owners of centres", np.int32, (self.centres.rows.size,))
        check_numbers(self.owners, "owners of centres", 0, labels)
        texts = 0 if self.texts is None else self.texts.rows.size
        check_array(self.text_starts, "bounds of texts' labels", np.int64, (texts + 1,))
        check_starts(self.text_starts, "bounds of texts' labels", len(self.text_labels))
        check_array(self.text_labels, "texts' labels", np.int32, (None,))
        check_numbers(self.text_labels, "texts' labels", 0, labels)
        if self.rows.exact is None or min(self.counted, self.size, self.rescored) < 1 or self.neighbours < 0:
            raise ModelError("the packed model's rows or its dials are not complete; pack it again")

    @property
    def num_labels(self) -> int:
        return self.rows.size

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        labels = np.full((size_of(inputs), k), NO_LABEL, dtype=np.int64)
        scores = np.zeros((size_of(inputs), k), dtype=np.float32)
        ways = self._usual if k <= min(self.size, self.counted) else self._ways(k)
        rank_candidates(*ways, self._own, *self._vectors(inputs), (labels, scores))
        return Ranked(labels, scores)

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        scores = np.zeros(labels.shape, dtype=np.float32)
        score_candidates(*self._usual, self._own, *self._vectors(inputs), (labels, scores))
        return scores

    def opening(self, beam: int) -> Candidates:
        """The same with so many cells of labels opened, and as large a share of the cells of texts."""
        share = beam / self.centres.middles.size
        texts = None if self.texts is None else self.texts.opening(round(share * self.texts.middles.size))
        return replace(self, centres=self.centres.opening(beam), texts=texts)

    @property
    def beam(self) -> int:
        return self.centres.beam

    def exact(self) -> Candidates:
        texts = None if self.texts is None else self.texts.exact()
        return replace(self, centres=self.centres.exact(), texts=texts, rescored=max(self.rescored, 256))

    def _vectors(self, inputs: Inputs) -> tuple[Float[np.ndarray, "texts dim"], Float[np.ndarray, "texts dim"]]:
        """As they are compared with centres and texts, and as rows read them."""
        encoded = self.encoder.encode(inputs)
        return encoded, self.transform.apply(encoded)

    @cached_property
    def _usual(self) -> tuple[Near, Blend]:
        return self._ways(1)

    def _ways(self, k: int) -> tuple[Near, Blend]:
        """How labels are found, with room for k of them."""
        counted = min(max(self.counted, k), self.centres.rows.size)
        asked = self.neighbours if self.texts is not None else 0
        centres = self.centres.enough_for(counted)
        texts = self.centres if self.texts is None else self.texts.enough_for(min(asked, self.texts.rows.size))
        starts, labels, owners = map(for_kernels, (self.text_starts, self.text_labels, self.owners))
        near = Near(centres.tree, centres.dial, owners, texts.tree, texts.dial, starts, labels)
        return near, Blend(
            counted=counted,
            neighbours=asked,
            power=self.power,
            votes=self.votes,
            beta=self.beta,
            size=max(self.size, k),
            rescored=max(self.rescored, 2 * k),
        )

    @cached_property
    def _own(self) -> Own:
        return Own(self.rows.grid, self.rows.bits)
