"""How much of a repeated test `make test` runs; `make test-slow` runs the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

QUICK_EXAMPLES = 20  # of a property, in `make test`


def examples(number: int) -> settings:
    """Draw so many examples of a property in `make test-slow`, and at most QUICK_EXAMPLES in `make test`."""
    return settings(max_examples=min(number, QUICK_EXAMPLES) if is_quick() else number)


def is_quick() -> bool:
    """Return whether hypothesis goes by the quick profile of tests/conftest.py."""
    return settings.default is not None and settings.default.max_examples == QUICK_EXAMPLES


def some_slow(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Mark all values but the first few as slow: they repeat for a variant what the first ones show."""
    return [
        one if number < quick else pytest.param(*_values(one), marks=pytest.mark.slow)
        for number, one in enumerate(values)
    ]


def _values(one: Any) -> tuple[Any, ...]:
    return one if isinstance(one, tuple) else (one,)
