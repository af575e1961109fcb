"""Learn the calibration of a finished model's scores on held-out texts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset, Rows
from laconic.data.vocabulary import limited_to
from laconic.evaluation.calibration import isotonic, platt
from laconic.evaluation.evaluate import Truth, places_needed, rank_all, scored_pairs, truth_of
from laconic.methods.config import MethodConfig
from laconic.methods.result import Trained
from laconic.models.rankers import Ranker
from laconic.storage.calibration_facts import uncalibrated
from laconic.types import FIRST_WORD
from laconic.units import counted

_FEWEST = 50  # texts; fewer say too little
_LABELS = 5  # of each text, whose scores are compared with the truth
_ENOUGH = 300  # texts for a curve that may bend as it likes (docs/log.md)


def learnt_calibration(trained: Trained, data: Dataset, *, one_split: bool) -> dict[str, Any]:
    """Return what model.json says of calibration: the curve, or why there is none, so that scores stay as they are.

    `one_split`: all parts of the ranker have learnt from the same texts.
    """
    share = share_held_out(trained.config) if one_split else 0.0
    if data.validation is None and not share:
        return uncalibrated("no texts were held out of all of its training")
    learnt, held = (data, data.validation) if data.validation is not None else data.split(share, trained.config.seed)
    # A ranker that remembers held-out texts would find each of them, with all its labels.
    ranker = trained.ranker if trained.calibration_ranker is None else trained.calibration_ranker
    return fitted_calibration(ranker, as_new_texts(held, learnt), truth_of(held))


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


def fitted_calibration(ranker: Ranker, rows: Rows, truth: Truth) -> dict[str, Any]:
    """Fit a curve on texts that the ranker has not seen; return what model.json says of it, or why there is none."""
    texts = rows.shape[0]
    if texts < _FEWEST:
        return uncalibrated(f"{counted(texts, 'text is', 'texts are')} too few (at least {_FEWEST} are needed)")
    ranking = rank_all(ranker, rows, places_needed(truth, (min(_LABELS, ranker.num_labels),)))
    pairs = scored_pairs(ranking, truth)
    how, curve = ("isotonic", isotonic) if texts >= _ENOUGH else ("platt", platt)
    found = curve(*pairs) if len(pairs.scores) else None
    if found is None:
        return uncalibrated(f"labels with higher scores are not true more often on {texts:,} texts")
    return {"calibration": {"how": how, "texts": texts, **asdict(found)}}


def share_held_out(config: MethodConfig) -> float:
    """Return the fraction of texts that a model has never learnt from; with `refit` there are none."""
    return 0.0 if config.refit else config.validation
