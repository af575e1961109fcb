"""Makes the parts of a combined model smaller: its network weighs their scores, and does not miss the last digits."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from laconic.packed.engine.parts import Part
from laconic.packed.engine.rows import Rows

P = TypeVar("P", bound=Part)
_WORDS, _SCALES = "words", "word_scales"


def smaller(part: P) -> P:
    """Return the part with word vectors and label rows of one byte a number, in whatever parts they are."""
    own: dict[str, Any] = {field.name: getattr(part, field.name) for field in fields(part)}
    changed: dict[str, Any] = {name: _smaller(value) for name, value in own.items()}
    if isinstance(part, Rows):
        changed["fine"] = None
    if _SCALES in own and own[_SCALES] is None:
        table = Rows.of(own[_WORDS].astype(np.float32), np.zeros(len(own[_WORDS])), with_exact=False)
        changed[_WORDS], changed[_SCALES] = table.coarse, table.scales
    return replace(part, **{name: value for name, value in changed.items() if value is not own[name]})


def _smaller(value: Any) -> Any:
    if isinstance(value, Part):
        return smaller(value)
    return tuple(map(_smaller, value)) if isinstance(value, tuple) else value
