"""A packed shortlister of nearest labels: labels with near centres, blended with labels of near texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import (
    check_array,
    check_kind,
    check_numbers,
    check_real,
    check_starts,
    check_whole,
    for_kernels,
)
from laconic.packed.engine.candidate_kernels import Blend, Near, list_labels
from laconic.packed.engine.cells import Cells
from laconic.packed.engine.shortlists import Shortlist
from laconic.packed.engine.texts import Inputs, Ranked


@dataclass(frozen=True, kw_only=True, eq=False)
class NearLabels(Shortlist):
    """The packed form of NearestLabels."""

    centres: Cells
    owners: np.ndarray  # int32: the label of each centre
    texts: Cells | None  # None: no text is asked
    text_starts: np.ndarray  # int64
    text_labels: np.ndarray  # int32 or, in a combined model, uint16
    counted: int  # labels whose centres count
    neighbours: int  # texts that are asked
    power: float  # of a neighbour's cosine
    votes: float  # the neighbours' share of nearness

    def __post_init__(self) -> None:
        check_whole(self.num_labels, "number of labels", 1)
        check_kind(self.centres, "centres", Cells)
        check_array(self.owners, "owners of centres", np.int32, (self.centres.rows.size,))
        check_numbers(self.owners, "owners of centres", 0, self.num_labels)
        check_array(self.text_labels, "texts' labels", (np.int32, np.uint16), (None,))
        check_numbers(self.text_labels, "texts' labels", 0, self.num_labels)
        if self.texts is not None:
            check_kind(self.texts, "texts", Cells)
            if self.texts.rows.dim != self.dim:
                raise ModelError("the packed model's centres and texts are not equally wide; pack it again")
        check_array(self.text_starts, "bounds of texts' labels", np.int64, (self._num_texts + 1,))
        check_starts(self.text_starts, "bounds of texts' labels", len(self.text_labels))
        check_whole(self.counted, "number of centres that count", 1)
        check_whole(self.neighbours, "number of neighbours", 0)
        check_real(self.power, "power of cosines", 0.0)
        check_real(self.votes, "share of votes", 0.0, 1.0)

    @property
    def dim(self) -> int:
        return self.centres.rows.dim

    @property
    def cells(self) -> int:
        return self.centres.middles.size

    def listed(self, inputs: Inputs, vectors: Float[np.ndarray, "texts dim"], size: int) -> Ranked:
        labels, nearness = found = Ranked.empty(len(vectors), size)
        list_labels(*self.enough_for(size).ways(size), vectors, (labels, nearness))
        return found

    def with_beam(self, beam: int) -> NearLabels:
        """Return the shortlister with this many label cells probed, and with them as many more or fewer text cells."""
        more = beam / self.centres.beam
        return self.with_cells(beam, 0 if self.texts is None else round(more * self.texts.beam))

    def with_cells(self, of_labels: int, of_texts: int) -> NearLabels:
        """Return the shortlister with this many cells of labels and of texts probed."""
        texts = None if self.texts is None else self.texts.with_beam(of_texts)
        return replace(self, centres=self.centres.with_beam(of_labels), texts=texts)

    def exact(self) -> NearLabels:
        texts = None if self.texts is None else self.texts.exact()
        return replace(self, centres=self.centres.exact(), texts=texts)

    def ways(self, size: int) -> tuple[Near, Blend]:
        """Return the settings by which a list of that size is found."""
        asked = min(self.neighbours, self._num_texts)
        texts = self.centres if self.texts is None else self.texts
        starts, labels, owners = map(for_kernels, (self.text_starts, self.text_labels, self.owners))
        of_centres, of_texts = (self.centres.tree, self.centres.limits), (texts.tree, texts.limits)
        return Near(*of_centres, owners, *self._places, *of_texts, starts, labels), Blend(
            counted=self.counted,
            listed=self._listed(size),
            neighbours=asked,
            power=float(self.power),
            votes=float(self.votes),
            size=min(size, self.num_labels),
        )

    def enough_for(self, size: int) -> NearLabels:
        """Return the shortlister with enough cells probed for a list of that size, whichever they are."""
        texts = None if self.texts is None else self.texts.enough_for(min(self.neighbours, self._num_texts))
        return replace(self, centres=self.centres.enough_for(self._listed(size)), texts=texts)

    def _listed(self, size: int) -> int:
        """Return how many centres are looked up for a list of that size."""
        several = self.centres.rows.size > self.num_labels  # so that some of the nearest are of the same label
        wanted = self.counted if self._num_texts else max(self.counted, min(size, self.num_labels))
        return min(wanted * (1 + several), self.centres.rows.size)

    @cached_property
    def _places(self) -> tuple[Int[np.ndarray, "bounds"], Int[np.ndarray, "centres"]]:
        """Return where the places of each label's centres begin, and those places."""
        of_places = self.owners[self.centres.order]
        places = np.argsort(of_places, kind="stable").astype(np.int32)
        starts = np.searchsorted(of_places[places], np.arange(self.num_labels + 1))
        return for_kernels(starts.astype(np.int64)), for_kernels(places)

    @property
    def _num_texts(self) -> int:
        return 0 if self.texts is None else self.texts.rows.size
