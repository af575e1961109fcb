"""Expected calibration error: whether labels scored 0.7 are true seven times in ten."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

BINS = 15  # as wide as each other, from 0 to 1


def expected_calibration_error(
    scores: Float[np.ndarray, "pairs"], true: Bool[np.ndarray, "pairs"], *, bins: int = BINS
) -> float:
    """Return the mean distance, in percent over all pairs, of a bin's mean score from its fraction of true pairs.

    Scores below 0 or above 1 count in the first or the last bin, as they are.
    """
    if not len(scores):
        return 0.0
    bin_of = np.clip((scores * bins).astype(np.int64), 0, bins - 1)
    gaps = np.bincount(bin_of, weights=scores - true, minlength=bins)
    return 100 * float(np.abs(gaps).sum()) / len(scores)
