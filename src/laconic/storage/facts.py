"""Typed access to the facts in model.json, and what they say of calibration; unknown keys are kept as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from laconic.errors import ModelError

Facts = Mapping[str, Any]
_CURVE, _REASON = "calibration", "not_calibrated"  # a model's facts have one of them, or neither
_THRESHOLD = "threshold"  # of the scores that the curve makes; it is dropped with it


class Sizes(TypedDict):
    """Numbers of labels, training texts, their pairs, and input features or token ids."""

    labels: int
    texts: int
    pairs: int
    inputs: int


def changes_of(facts: Facts) -> list[Facts]:
    """Return the changes to a model since it was trained, the latest last; its facts may be anything."""
    changes = facts.get("changes")
    return [change for change in changes if isinstance(change, Mapping)] if isinstance(changes, list) else []


class ModelFacts(dict[str, Any]):
    """The content of model.json: a dictionary with typed properties for the keys that this version knows."""

    @property
    def version(self) -> str:
        """Return the version of laconic that made the model."""
        return str(self["laconic"])

    @property
    def method(self) -> str:
        return str(self["method"])

    @property
    def config(self) -> Facts:
        return self.get("config") or {}

    @property
    def inputs(self) -> str:
        """Return what the model reads: text, sparse or dense."""
        return str(self["inputs"])

    @property
    def sizes(self) -> Sizes:
        sizes: Sizes = self["sizes"]
        return sizes

    @property
    def data_name(self) -> str:
        return str(self["data"]["name"])

    @property
    def members(self) -> Sequence[Facts]:
        """Return the facts of an ensemble's members; empty for other models."""
        return self.get("members") or []

    @property
    def changes(self) -> Sequence[Facts]:
        return changes_of(self)

    @property
    def metrics(self) -> Facts:
        return self.get("metrics") or {}

    @property
    def command(self) -> str | None:
        """Return the command line that made the model, if it was one."""
        return self.get("command")

    def check(self, folder: Path) -> None:
        """Refuse facts that lack what every reader of a model relies on."""
        match self:
            case {
                "laconic": str(),
                "method": str(),
                "config": dict(),
                "inputs": "text" | "sparse" | "dense",
                "sizes": {"labels": int(), "texts": int(), "pairs": int(), "inputs": int()},
                "data": {"name": str()},
                "propensity": {"a": float(), "b": float()},
                "created": str(),
            }:
                return
        raise ModelError(f"{folder}/model.json: it lacks what a model must say of itself; copy the model again")


def uncalibrated(why: str) -> dict[str, Any]:
    """Return the fact of a model without a curve."""
    return {_REASON: why}


def with_calibration(facts: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's facts with this curve, or with this reason for having none, and with no other.

    A threshold was chosen for other scores, so it is dropped.
    """
    others = {name: fact for name, fact in facts.items() if name not in (_CURVE, _REASON, _THRESHOLD)}
    changes = changes_of(facts)
    if _CURVE in found and changes:
        return {**others, _CURVE: {**found[_CURVE], "changes": len(changes)}}
    return {**others, **found}


def without_stale_curve(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's facts, without a curve that was fitted before the model was last changed."""
    curve, changes = facts.get(_CURVE), changes_of(facts)
    fitted_after = curve.get("changes", 0) if isinstance(curve, Mapping) else len(changes)
    if fitted_after == len(changes):
        return _without_stale_threshold(facts)
    return with_calibration(facts, uncalibrated(f"{changes[-1].get('verb')} changed the model"))


def with_threshold(facts: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's facts with this threshold, given as a fact, and with no other."""
    return {**facts, _THRESHOLD: {**found[_THRESHOLD], "changes": len(changes_of(facts))}}


def why_uncalibrated(facts: Mapping[str, Any]) -> str | None:
    """Return why a model's scores are not probabilities; None: they are. A model may not say why."""
    return None if _CURVE in facts else str(facts.get(_REASON) or "it was not calibrated")


def _without_stale_threshold(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts without a threshold that was chosen before the model was last changed."""
    threshold = facts.get(_THRESHOLD)
    stale = isinstance(threshold, Mapping) and threshold.get("changes", 0) != len(changes_of(facts))
    return {name: fact for name, fact in facts.items() if name != _THRESHOLD or not stale}
