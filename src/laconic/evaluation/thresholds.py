"""Find thresholds of scores: the lowest that reaches a precision, or the one of the best F1, on labelled texts.

One threshold serves all labels. Labels that are true of many texts can have one of their own. A label's precision is
then smoothed: scores are probabilities, so their mean stands in for some pairs that were not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.errors import ConfigError, DataError, ModelError
from laconic.types import NO_LABEL
from laconic.units import counted

_FACT = "threshold"  # its name among the facts of a model
_FEWEST_PAIRS = 20  # above a threshold; fewer say too little of its precision
_OWN_TEXTS = 50  # of which a label must be true to get a threshold of its own
_SMOOTHING = 20  # pairs that a label's mean score stands in for


class Aim(NamedTuple):
    """What a threshold is chosen for."""

    precision: float | None = None  # the precision to reach, of 0 to 1; None: the best F1
    per_label: bool = False  # whether frequent labels get thresholds of their own

    def check(self) -> None:
        """Refuse a precision that is none."""
        if self.precision is not None and not 0 < self.precision < 1:
            raise ConfigError(f"precision must be between 0 and 1, such as 0.9, but is {self.precision}")

    def __str__(self) -> str:
        return "F1" if self.precision is None else f"precision {self.precision:g}"


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A threshold with the figures that it has on the texts it was chosen on."""

    aim: str
    score: float
    labels: Mapping[str, float] = field(default_factory=dict)  # by name: thresholds of their own
    k: int  # labels per text among which it was chosen
    texts: int
    precision: float  # in percent, of all labels that reach it
    recall: float  # in percent, of all true labels

    @staticmethod
    def of_facts(facts: Mapping[str, Any]) -> Threshold | None:
        """Read the threshold of a model.json; None: none was chosen."""
        match facts.get(_FACT):
            case None:
                return None
            case {
                "aim": str(aim),
                "score": float(score),
                "labels": dict(labels),
                "k": int(k),
                "texts": int(texts),
                "precision": float(precision),
                "recall": float(recall),
            } if k > 0 and all(isinstance(own, float) for own in labels.values()):
                figures = {"precision": precision, "recall": recall}
                return Threshold(aim=aim, score=score, labels=labels, k=k, texts=texts, **figures)
        raise ModelError(
            f"the threshold in model.json must have an aim, a score and figures, but is {facts[_FACT]!r:.120}; "
            "`laconic threshold` chooses one anew"
        )

    def as_facts(self) -> dict[str, Any]:
        """Return what model.json says of it."""
        return {_FACT: asdict(self)}

    def reached(self, label: str, score: float) -> bool:
        """Return whether the score of a label reaches its threshold."""
        return score >= self.labels.get(label, self.score)


class Candidates(NamedTuple):
    """The first labels of texts, whose places without a label have NO_LABEL, with scores and what is true."""

    labels: Int[np.ndarray, "texts k"]
    scores: Float[np.ndarray, "texts k"]
    true: Bool[np.ndarray, "texts k"]
    positives: Int[np.ndarray, "labels"]  # texts of which each label is true, ranked or not


class Found(NamedTuple):
    """Thresholds by label number."""

    score: float
    own: dict[int, float]


def find_thresholds(candidates: Candidates, aim: Aim) -> Found:
    """Return the thresholds that fulfil the aim; refuse texts on which none does."""
    aim.check()
    own = _own_thresholds(candidates, aim) if aim.per_label else {}
    every = candidates.labels != NO_LABEL
    others = np.isin(np.arange(len(candidates.positives)), [*own], invert=True)
    # Labels with thresholds of their own do not decide on the others, unless these are too few.
    for among in (every & others[candidates.labels], every):
        steps = steps_of(candidates.scores[among], candidates.true[among])
        found = steps.found(aim, int(candidates.positives[others].sum()), least=_FEWEST_PAIRS)
        if found is not None:
            return Found(found, own)
    raise DataError(_unreached(steps, aim, len(candidates.labels)))


def reaching(candidates: Candidates, found: Found) -> Bool[np.ndarray, "texts k"]:
    """Return which labels of the texts reach their thresholds."""
    of_label = np.full(len(candidates.positives), found.score)
    for label, score in found.own.items():
        of_label[label] = score
    there = candidates.labels != NO_LABEL
    needed = of_label[np.where(there, candidates.labels, 0)]
    reached: Bool[np.ndarray, "texts k"] = there & (candidates.scores >= needed)
    return reached


class Steps(NamedTuple):
    """What a threshold at each different score leaves, from the highest score on."""

    scores: Float[np.ndarray, "steps"]
    kept: Int[np.ndarray, "steps"]  # pairs that are left
    hits: Float[np.ndarray, "steps"]  # of them true

    def found(self, aim: Aim, positives: int, *, least: int) -> float | None:
        """Return the threshold of an aim; None: there is none that leaves at least so many pairs."""
        return self.best_f1(positives) if aim.precision is None else self.lowest(aim.precision, least=least)

    def best_f1(self, positives: int) -> float | None:
        if not len(self.scores):
            return None
        return self._above(int(np.argmax(2 * self.hits / (self.kept + max(positives, 1)))))

    def lowest(self, precision: float, *, least: int) -> float | None:
        """Return the lowest threshold of that precision which leaves at least so many pairs."""
        enough = np.flatnonzero((self.hits >= precision * self.kept) & (self.kept >= least))
        return self._above(int(enough[-1])) if len(enough) else None

    def _above(self, step: int) -> float:
        """Return the middle between a step's score and the next lower one, so that rounding does not decide."""
        last = step + 1 == len(self.scores)
        return float(self.scores[step] if last else (self.scores[step] + self.scores[step + 1]) / 2)


def steps_of(scores: Float[np.ndarray, "pairs"], true: Float[np.ndarray, "pairs"] | Bool[np.ndarray, "pairs"]) -> Steps:
    """Return the steps of pairs with these scores, of which some are true."""
    order = np.argsort(-scores, kind="stable")
    falling, hits = scores[order].astype(np.float64), np.cumsum(true[order].astype(np.float64))
    last = np.flatnonzero(np.diff(falling, append=-np.inf) < 0)  # of each run of equal scores
    return Steps(falling[last], last + 1, hits[last])


def _own_thresholds(candidates: Candidates, aim: Aim) -> dict[int, float]:
    there = candidates.labels != NO_LABEL
    labels, scores, true = candidates.labels[there], candidates.scores[there], candidates.true[there]
    order = np.argsort(labels, kind="stable")
    frequent = np.flatnonzero(candidates.positives >= _OWN_TEXTS)
    firsts, lasts = (np.searchsorted(labels[order], frequent, side) for side in ("left", "right"))
    own = {}
    for label, first, last in zip(frequent.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        which = order[first:last]
        if len(which):
            steps = _smoothed(steps_of(scores[which], true[which]))
            own[label] = _own(steps, aim, int(candidates.positives[label]))
    return own


def _own(steps: Steps, aim: Aim, positives: int) -> float:
    """Return a label's threshold; where none fulfils the aim, one above all scores that it had."""
    found = steps.found(aim, positives, least=1)
    return float(np.nextafter(steps.scores[0], np.inf)) if found is None else found


def _smoothed(steps: Steps) -> Steps:
    """Return the steps with as many hits as the label's own and the mean of its scores together suggest."""
    pairs = np.diff(steps.kept, prepend=0)
    mean = np.cumsum(steps.scores * pairs) / steps.kept
    return steps._replace(hits=steps.kept * (steps.hits + _SMOOTHING * mean) / (steps.kept + _SMOOTHING))


def _unreached(steps: Steps, aim: Aim, texts: int) -> str:
    enough = steps.kept >= _FEWEST_PAIRS
    if not enough.any():
        return f"{counted(texts, 'text')}: too few labels are predicted to choose a threshold by; give more texts"
    best = (steps.hits / steps.kept)[enough].max()
    return (
        f"no threshold reaches {aim} on {counted(texts, 'text')}: the best is {best:.3f}; ask for "
        "less, or train a better model"
    )
