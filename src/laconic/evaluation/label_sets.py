"""Evaluate the labels that reach a threshold: their figures, and precision against recall over all thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from laconic.evaluation.calibration import Calibration
from laconic.evaluation.metrics import Judged, judge, without_pairs
from laconic.evaluation.metrics.sets import Scores, SetCounts
from laconic.evaluation.thresholds import Aim, Candidates, Found, Threshold, reaching, steps_of
from laconic.types import NO_LABEL, Ranking
from laconic.units import counted

USUAL = Found(0.5, {})  # the threshold of probabilities where none was chosen: more likely true than not
_POINTS = 200  # of a curve


@dataclass(frozen=True, kw_only=True)
class AtThreshold:
    """The figures of labels that reach a threshold, in percent."""

    threshold: float
    own: int  # labels that have a threshold of their own
    labels_per_text: float
    answered: float  # texts that have at least one such label
    micro: Scores
    macro: Scores

    def as_json(self) -> dict[str, Any]:
        """Return what a JSON report has under "at_threshold"."""
        whole = {"threshold": self.threshold, "own": self.own, "labels_per_text": self.labels_per_text}
        return whole | {"answered": self.answered, "micro": self.micro._asdict(), "macro": self.macro._asdict()}

    def metrics(self) -> dict[str, float]:
        """Return precision, recall and F1 by name; names of metrics of the first k labels end in @k, these do not."""
        kinds = {"micro": self.micro, "macro": self.macro}
        return {
            f"{kind} {name}": value
            for kind, scores in kinds.items()
            for name, value in (("P", scores.precision), ("R", scores.recall), ("F1", scores.f1))
        }

    def __str__(self) -> str:
        micro, macro = self.micro, self.macro
        own = f" ({counted(self.own, 'label has its', 'labels have their')} own)" if self.own else ""
        return (
            f"At threshold {self.threshold:.3g}{own}: micro F1 {micro.f1:.1f} (P {micro.precision:.1f}, "
            f"R {micro.recall:.1f}), macro F1 {macro.f1:.1f} (P {macro.precision:.1f}, R {macro.recall:.1f}); "
            f"{self.labels_per_text:.2f} a text, and {self.answered:.1f} % have any."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Micro precision and recall, in percent, by threshold, from the highest threshold on."""

    thresholds: Float[np.ndarray, "points"]
    precision: Float[np.ndarray, "points"]
    recall: Float[np.ndarray, "points"]

    def as_json(self) -> dict[str, list[float]]:
        """Return the columns of the curve."""
        parts = {"thresholds": self.thresholds, "precision": self.precision, "recall": self.recall}
        return {name: np.round(part, 6).tolist() for name, part in parts.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """A ranking that was judged, with its scores as the model returns them."""

    judged: Judged
    scores: Float[np.ndarray, "batch k"]

    @staticmethod
    def of(ranking: Ranking, truth: Any, calibration: Calibration | None = None) -> Scored:
        """Judge a ranking after leaving pairs out, and calibrate its scores; `truth` is an evaluation's Truth."""
        judged = judge(ranking, truth.labels, leave_out=truth.leave_out)
        kept = ranking if truth.leave_out is None else without_pairs(ranking, truth.leave_out)
        scores = np.maximum(kept.scores.cpu().numpy(), 0.0)  # places without a label have -inf
        return Scored(judged=judged, scores=scores if calibration is None else calibration.apply(scores))

    def first(self, k: int) -> Candidates:
        """Return the first k labels of each text, from which thresholds are found."""
        judged = self.judged
        positives = np.bincount(judged.truth.indices, minlength=judged.num_labels)
        return Candidates(judged.labels[:, :k], self.scores[:, :k], judged.hits[:, :k], positives)

    def threshold(self, found: Found, aim: Aim, k: int, names: Sequence[str]) -> Threshold:
        """Return thresholds that were found among the first k labels, with their names and figures."""
        first = replace(self, judged=replace(self.judged, **self._places(k)), scores=self.scores[:, :k])
        micro = first.at(found).micro
        return Threshold(
            aim=str(aim),
            score=found.score,
            labels={names[number]: score for number, score in found.own.items()},
            k=k,
            texts=len(self.scores),
            precision=micro.precision,
            recall=micro.recall,
        )

    def _places(self, k: int) -> dict[str, Any]:
        return {"labels": self.judged.labels[:, :k], "hits": self.judged.hits[:, :k]}

    def reached(self, limits: Found) -> Bool[np.ndarray, "batch k"]:
        """Return which places have a label that reaches its threshold."""
        return reaching(self.first(self.scores.shape[1]), limits)

    def at(self, limits: Found) -> AtThreshold:
        """Return the figures of the labels that reach their thresholds."""
        reached = self.reached(limits)
        counts = SetCounts.of(self.judged, reached)
        return AtThreshold(
            threshold=limits.score,
            own=len(limits.own),
            labels_per_text=float(reached.sum(axis=1).mean()),
            answered=100 * float(reached.any(axis=1).mean()),
            micro=counts.micro(),
            macro=counts.macro(),
        )

    def curve(self) -> Curve:
        """Return precision and recall at thresholds that leave ever more labels."""
        there = self.judged.labels != NO_LABEL
        steps = steps_of(self.scores[there], self.judged.hits[there])
        count = len(steps.scores)
        some = np.unique(np.linspace(0, count - 1, min(_POINTS, count)).round().astype(np.int64))
        return Curve(
            thresholds=steps.scores[some],
            precision=100 * steps.hits[some] / steps.kept[some],
            recall=100 * steps.hits[some] / max(int(self.judged.positives.sum()), 1),
        )


def limits_of(threshold: Threshold | None, names: Sequence[str]) -> Found | None:
    """Return a stored threshold by label number."""
    if threshold is None:
        return None
    return Found(threshold.score, _numbered(threshold.labels, names) if threshold.labels else {})


def _numbered(own: Mapping[str, float], names: Sequence[str]) -> dict[int, float]:
    return {number: own[name] for number, name in enumerate(names) if name in own}
