"""What a model's facts say of its calibration: the curve that was fitted on it, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laconic.storage.facts import changes_of

_CURVE, _REASON = "calibration", "not_calibrated"  # a model's facts have one of them, or neither


def uncalibrated(why: str) -> dict[str, Any]:
    """Return the fact of a model without a curve."""
    return {_REASON: why}


def with_calibration(facts: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's facts with this curve, or with this reason for having none, and with no other."""
    others = {name: fact for name, fact in facts.items() if name not in (_CURVE, _REASON)}
    changes = changes_of(facts)
    if _CURVE in found and changes:
        return {**others, _CURVE: {**found[_CURVE], "changes": len(changes)}}
    return {**others, **found}


def without_stale_curve(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's facts, without a curve that was fitted before the model was last changed."""
    curve, changes = facts.get(_CURVE), changes_of(facts)
    fitted_after = curve.get("changes", 0) if isinstance(curve, Mapping) else len(changes)
    if fitted_after == len(changes):
        return dict(facts)
    return with_calibration(facts, uncalibrated(f"{changes[-1].get('verb')} changed the model"))
