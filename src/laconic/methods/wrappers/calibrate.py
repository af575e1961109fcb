"""What the scores of a finished model are worth, learnt on texts that it has not seen."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset, Rows
from laconic.data.vocabulary import limited_to
from laconic.evaluation.calibration import isotonic, platt
from laconic.evaluation.evaluate import Truth, places_needed, rank_all, scored_pairs, truth_of
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

    `one_split` is whether all that is in the ranker has learnt from the same texts.
    """
    share = share_held_out(trained.config) if one_split else 0.0
    if data.validation is None and not share:
        return uncalibrated("no texts were held out of all of its training")
    learnt, held = (data, data.validation) if data.validation is not None else data.split(share, trained.config.seed)
    # A ranker that remembers held-out texts would find each of them, with all its labels.
    ranker = trained.ranker if trained.unaware is None else trained.unaware
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


def share_held_out(config: Any) -> float:
    """Of all texts; those that a model is trained on once more in the end are not held out from it."""
    share: float = 0.0 if getattr(config, "refit", False) else getattr(config, "validation", 0.0)
    return share
