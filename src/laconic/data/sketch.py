"""Hashes of a model's training texts: enough to count them among others, too little to read them back.

A sketch has the smallest 64-bit hashes of a set of texts, at most LIMIT of them (1 MB). Up to LIMIT different texts its
answers are exact. Beyond that, texts whose hashes are small enough for the sketch are a random sample of all texts, and
what holds for the sample is the estimate (a bottom-k sketch). Two sketches merge into the sketch of both sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt64

LIMIT = 1 << 17
SUBSTANTIAL = 0.2  # by chance, test splits of public data share up to 0.09 of their texts with training


class Overlap(NamedTuple):
    """The number of texts, among some, that a model was trained on."""

    texts: int
    share: float  # of all of them
    exact: bool  # False: estimated from a sample

    @property
    def substantial(self) -> bool:
        """Return whether figures on these texts would be taken for more than they are."""
        return self.share >= SUBSTANTIAL

    def as_json(self) -> dict[str, Any]:
        """Return what a JSON report has under "seen_in_training"."""
        return self._asdict()

    def __str__(self) -> str:
        if self.share == 1:
            return "all of them seen in training"
        return f"{'' if self.exact else 'about '}{100 * self.share:.0f} % of them seen in training"


def seen_words(seen: Overlap | None, by: str = "") -> str:
    """Return words for a title on the training texts among those evaluated; empty where few or unknown."""
    return f", {seen}{by and f' by {by}'}" if seen is not None and seen.substantial else ""


@dataclass(frozen=True, kw_only=True, eq=False)
class TextSketch:
    """The smallest hashes of a set of texts."""

    hashes: UInt64[np.ndarray, "n"]  # each of them once, ascending
    complete: bool  # whether these are the hashes of all texts

    @classmethod
    def of(cls, hashes: UInt64[np.ndarray, "texts"]) -> TextSketch:
        """Sketch the texts with these hashes, in any order and however often they occur."""
        every = np.unique(hashes)
        return cls(hashes=every[:LIMIT], complete=len(every) <= LIMIT)

    def merged(self, other: TextSketch) -> TextSketch:
        """Return the sketch of both sets of texts."""
        both = np.union1d(self.hashes, other.hashes)
        for sketch in (self, other):
            both = both if sketch.complete else both[both <= sketch.hashes[-1]]
        complete = self.complete and other.complete and len(both) <= LIMIT
        return TextSketch(hashes=both[:LIMIT], complete=complete)

    def overlap(self, hashes: UInt64[np.ndarray, "texts"]) -> Overlap:
        """Count the texts with these hashes that are in the set."""
        sample = hashes if self.complete else hashes[hashes <= self.hashes[-1:]]
        share = float(np.isin(sample, self.hashes).mean()) if len(sample) else 0.0
        return Overlap(round(share * len(hashes)), share, len(sample) == len(hashes))

    def facts(self) -> dict[str, Any]:
        """Return what a model's facts say of the file with the hashes."""
        return {"hashes": len(self.hashes), "complete": self.complete}

    @staticmethod
    def fits(hashes: np.ndarray, facts: Any) -> bool:
        """Return whether an array from outside can be the hashes that these facts speak of."""
        match facts:
            case {"hashes": int(count), "complete": bool(complete)}:
                kind = hashes.dtype == np.uint64 and hashes.shape == (count,) and (complete or count > 0)
                return kind and bool((hashes[1:] > hashes[:-1]).all())
        return False
