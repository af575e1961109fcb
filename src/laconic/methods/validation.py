"""Find the texts that a finished model has not learnt from, and evaluate it on them where there is no test split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset, Rows
from laconic.data.vocabulary import limited_to
from laconic.evaluation.evaluate import Truth, evaluate, kept_figures, places_needed, rank_all
from laconic.evaluation.metrics import Propensity, TrainingCounts
from laconic.methods.config import MethodConfig
from laconic.methods.result import Trained
from laconic.models.rankers import Ranker
from laconic.types import FIRST_WORD

_ENOUGH = 300  # texts for a curve of any shape (docs/log.md)
_LARGEST = 0.25  # fraction of the texts that may be held out to have as many
_MOST = 5_000  # texts; more would not make a better curve
_SEED = 0  # the same for all members of an ensemble


class HeldOut(NamedTuple):
    """Texts that a model has not learnt from, read as new texts are, and a ranker that has not stored them.

    `of_model`: whether the ranker's figures on them are the model's; it may have been built to calibrate with alone.
    """

    ranker: Ranker
    data: Dataset
    of_model: bool


def held_out_of(trained: Trained, data: Dataset, *, one_split: bool) -> HeldOut | None:
    """Return the validation texts that training has left; None where nothing was held out of all of it.

    `one_split`: all parts of the ranker have learnt from the same texts.
    """
    of_model = data.validation is not None or bool(trained.config.validation and not trained.config.refit)
    if data.validation is not None:
        learnt, held = data, data.validation
    elif (parts := _parts_of(trained, data, one_split=one_split)) is not None:
        learnt, held = parts
    else:
        return None
    # A ranker that stores the held-out texts would find each of them, with all its labels.
    ranker = trained.ranker if trained.calibration_ranker is None else trained.calibration_ranker
    return HeldOut(ranker, replace(held, inputs=as_new_texts(held, learnt)), of_model)


def calibration_parts(data: Dataset, fraction: float) -> tuple[Dataset, Dataset]:
    """Return the texts from which a ranker to calibrate with is built, and the others, which calibrate.

    Small data holds out more than the fraction, as a curve takes some hundred texts.
    """
    least = min(_ENOUGH / len(data), _LARGEST)
    return data.split(min(max(fraction, least), _MOST / len(data)), _SEED)


def calibrates_apart(data: Dataset, config: MethodConfig) -> bool:
    """Return whether a method that learns from all texts builds a second ranker, without some of them, to calibrate."""
    held_out = config.validation or data.validation is not None
    return bool(config.calibration and not held_out and config.reranker is None and len(data) > 1)


def _parts_of(trained: Trained, data: Dataset, *, one_split: bool) -> tuple[Dataset, Dataset] | None:
    config, apart = trained.config, trained.calibration_ranker is not None
    if config.validation and one_split and (apart or not config.refit):
        return data.split(config.validation, config.seed)
    return calibration_parts(data, config.calibration) if apart and config.calibration else None


def as_new_texts(held: Dataset, learnt: Dataset, known: int = FIRST_WORD) -> Rows:
    """Return held-out texts as texts to come are read, in which words that nothing was learnt of are unknown.

    The vocabulary has the words of held-out texts too, and sets weights by them. Ids below `known` are known anyway.
    """
    if not (held.ordered and isinstance(held.inputs, csr_array) and isinstance(learnt.inputs, csr_array)):
        return held.inputs
    met = np.arange(held.inputs.shape[1]) < known
    for rows in (learnt.inputs, learnt.label_inputs):
        if rows is not None:
            met[rows.indices] = True
    return limited_to(held.inputs, met)


def held_out_figures(held: HeldOut | None, data: Dataset, propensity: Propensity) -> dict[str, Any] | None:
    """Evaluate a model on the held-out texts of its data, for model.json; None where there are none."""
    if held is None or not held.of_model or not len(held.data):
        return None
    training = TrainingCounts(per_label=data.label_counts, texts=len(data), propensity=propensity)
    truth = Truth(labels=held.data.labels, leave_out=held.data.leave_out, training=training)
    figures = kept_figures(
        evaluate(rank_all(held.ranker, held.data.inputs, places_needed(truth)), truth),
        "validation" if data.validation is None else "valid",
    )
    # Scores are calibrated on these very texts, so their calibration error says nothing.
    metrics = {name: value for name, value in figures["metrics"].items() if "ECE" not in name}
    return {**figures, "metrics": metrics}
