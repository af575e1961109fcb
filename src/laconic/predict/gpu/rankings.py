"""Rankings as wide as they were asked for."""

from __future__ import annotations

from torch.nn import functional

from laconic.types import NO_LABEL, Ranking


def widened(ranking: Ranking, k: int) -> Ranking:
    """Rows end in NO_LABEL where there are fewer labels; otherwise nothing is copied."""
    missing = k - ranking.labels.shape[1]
    if not missing:
        return ranking
    labels = functional.pad(ranking.labels, (0, missing), value=NO_LABEL)
    return Ranking(labels, functional.pad(ranking.scores, (0, missing)))
