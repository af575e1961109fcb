"""Bootstrap confidence intervals of metrics over texts."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from laconic.errors import ConfigError
from laconic.evaluation.metrics.ratios import Ratio

_WEIGHTS_AT_A_TIME = 4_000_000  # 32 MB of resampled texts, whatever their number


def bootstrap(
    ratios: Mapping[str, Ratio], *, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Return percentile intervals in percent for `per_text`'s metrics, from texts resampled with replacement.

    Every metric sees the same draws, so their intervals go together.
    """
    if not (resamples >= 1 and 0 < level < 1):
        raise ConfigError(f"an interval needs resamples >= 1 and 0 < level < 1, but they are {resamples} and {level}")
    gained = np.stack([ratio.gained for ratio in ratios.values()], axis=1)
    possible = np.stack([ratio.possible for ratio in ratios.values()], axis=1)
    figures = _resampled(gained, possible, resamples, np.random.default_rng(seed))
    low, high = np.quantile(figures, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return {name: (float(low[i]), float(high[i])) for i, name in enumerate(ratios)}


def _resampled(
    gained: Float[np.ndarray, "batch metrics"],
    possible: Float[np.ndarray, "batch metrics"],
    resamples: int,
    random: np.random.Generator,
) -> Float[np.ndarray, "resamples metrics"]:
    """Return each resample's figures in percent. Draws are made one by one, so chunks do not change them."""
    texts = len(gained)
    at_once = max(1, _WEIGHTS_AT_A_TIME // texts)
    figures = np.zeros((resamples, gained.shape[1]))
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        times_drawn = np.empty((size, texts))
        for row in times_drawn:
            row[:] = np.bincount(random.integers(texts, size=texts), minlength=texts)
        total = times_drawn @ possible
        np.divide(100 * (times_drawn @ gained), total, out=figures[start : start + size], where=total > 0)
    return figures
