"""Learn the calibration of a finished model's scores on held-out texts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from laconic.data.dataset import Dataset
from laconic.evaluation.calibration import isotonic, platt
from laconic.evaluation.evaluate import Truth, places_to_validate, rank_all, scored_pairs
from laconic.methods.config import MethodConfig
from laconic.methods.result import Trained

_FEWEST = 50  # texts; fewer say too little
_ENOUGH = 300  # texts for a curve that may bend as it likes (docs/log.md)


def learnt_calibration(trained: Trained, data: Dataset, *, one_split: bool) -> dict[str, Any] | None:
    """Return a calibration for model.json; None: too few texts were held out, and scores stay as they are.

    `one_split`: all parts of the ranker have learnt from the same texts.
    """
    share = share_held_out(trained.config) if one_split else 0.0
    if data.validation is None and not share:
        return None
    held = data.validation if data.validation is not None else data.split(share, trained.config.seed)[1]
    if len(held) < _FEWEST:
        return None
    # A ranker that remembers held-out texts would find each of them, with all its labels.
    ranker = trained.ranker if trained.calibration_ranker is None else trained.calibration_ranker
    ranking = rank_all(ranker, held.inputs, places_to_validate(held))
    pairs = scored_pairs(ranking, Truth(labels=held.labels, leave_out=held.leave_out, training=None))
    how, curve = ("isotonic", isotonic) if len(held) >= _ENOUGH else ("platt", platt)
    found = curve(*pairs) if len(pairs.scores) else None
    return None if found is None else {"how": how, "texts": len(held), **asdict(found)}


def share_held_out(config: MethodConfig) -> float:
    """Return the fraction of texts that a model has never learnt from; with `refit` there are none."""
    return 0.0 if config.refit else config.validation
