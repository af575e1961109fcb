"""Combine what several rankers and channels know of a text and a label into one score."""

from laconic.models.fusion.evidence import (
    NUMBERS,
    Asked,
    Channels,
    Evidence,
    Listed,
    count_proposed,
    gather_evidence,
    listed,
    numbers_of,
    score_all,
)

__all__ = [
    "NUMBERS",
    "Asked",
    "Channels",
    "Evidence",
    "Listed",
    "count_proposed",
    "gather_evidence",
    "listed",
    "numbers_of",
    "score_all",
]
