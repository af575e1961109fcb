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
from laconic.methods.result import Trained
from laconic.models.rankers import Ranker
from laconic.types import FIRST_WORD


class HeldOut(NamedTuple):
    """Texts that a model has not learnt from, read as new texts are, and a ranker that has not stored them."""

    ranker: Ranker
    data: Dataset


def held_out_of(trained: Trained, data: Dataset, *, one_split: bool) -> HeldOut | None:
    """Return the validation texts that training has left; None where nothing was held out of all of it.

    `one_split`: all parts of the ranker have learnt from the same texts.
    """
    share = trained.config.validation if one_split and not trained.config.refit else 0.0
    if data.validation is None and not share:
        return None
    learnt, held = (data, data.validation) if data.validation is not None else data.split(share, trained.config.seed)
    # A ranker that stores the held-out texts would find each of them, with all its labels.
    ranker = trained.ranker if trained.calibration_ranker is None else trained.calibration_ranker
    return HeldOut(ranker, replace(held, inputs=as_new_texts(held, learnt)))


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
    if held is None or not len(held.data):
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
