"""Pad rankings to the width that was asked for."""

from __future__ import annotations

from torch.nn import functional

from laconic.types import NO_LABEL, Ranking


def pad_ranking(ranking: Ranking, k: int) -> Ranking:
    """Pad rows with NO_LABEL up to k; nothing is copied if they are that wide."""
    missing = k - ranking.labels.shape[1]
    if not missing:
        return ranking
    labels = functional.pad(ranking.labels, (0, missing), value=NO_LABEL)
    return Ranking(labels, functional.pad(ranking.scores, (0, missing)))
