"""Learn the calibration of a finished model's scores on held-out texts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from laconic.data.dataset import Rows
from laconic.evaluation.calibration import isotonic, platt
from laconic.evaluation.evaluate import Truth, places_needed, rank_all, scored_pairs, truth_of
from laconic.methods.validation import HeldOut
from laconic.models.rankers import Ranker
from laconic.storage.facts import uncalibrated
from laconic.units import counted

_FEWEST = 50  # texts; fewer say too little
_LABELS = 5  # of each text, whose scores are compared with the truth
_ENOUGH = 300  # texts for a curve that may bend as it likes (docs/log.md)


def learnt_calibration(held: HeldOut | None) -> dict[str, Any]:
    """Return what model.json says of calibration: the curve, or why there is none, so that scores stay as they are."""
    if held is None:
        return uncalibrated("no texts were held out of all of its training")
    return fitted_calibration(held.ranker, held.data.inputs, truth_of(held.data))


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
