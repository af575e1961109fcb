"""Evaluate a finished model on its held-out texts, for data without a test split."""

from __future__ import annotations

from typing import Any

from laconic.data.dataset import Dataset
from laconic.evaluation.evaluate import Truth, evaluate, kept_figures, places_needed, rank_all
from laconic.evaluation.metrics import Propensity, TrainingCounts
from laconic.methods.result import Trained
from laconic.methods.wrappers.calibrate import share_held_out


def held_out_figures(
    trained: Trained, data: Dataset, propensity: Propensity, *, one_split: bool
) -> dict[str, Any] | None:
    """Evaluate a model on its validation texts, for model.json; None where nothing was held out.

    `one_split`: all parts of the ranker have learnt from the same texts.
    """
    share = share_held_out(trained.config) if one_split else 0.0
    if data.validation is None and not share:
        return None
    held = data.validation if data.validation is not None else data.split(share, trained.config.seed)[1]
    if not len(held):
        return None
    training = TrainingCounts(per_label=data.label_counts, texts=len(data), propensity=propensity)
    truth = Truth(labels=held.labels, leave_out=held.leave_out, training=training)
    # A ranker that stores the held-out texts would find each of them, with all its labels.
    ranker = trained.ranker if trained.calibration_ranker is None else trained.calibration_ranker
    figures = kept_figures(
        evaluate(rank_all(ranker, held.inputs, places_needed(truth)), truth),
        "validation" if data.validation is None else "valid",
    )
    # Scores are calibrated on these very texts, so their calibration error says nothing.
    metrics = {name: value for name, value in figures["metrics"].items() if "ECE" not in name}
    return {**figures, "metrics": metrics}
