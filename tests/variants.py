"""How much of a repeated test `make test test-models` runs; `make test-slow` runs the rest."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

THOROUGH = os.environ.get("LACONIC_TESTS") == "thorough"  # as `make test-slow` sets it
QUICK_EXAMPLES = 20  # of a property, in `make test`


def examples(number: int) -> settings:
    """Draw so many examples of a property in `make test-slow`, and at most QUICK_EXAMPLES in `make test`."""
    return settings(max_examples=number if THOROUGH else min(number, QUICK_EXAMPLES))


def some_slow(values: Iterable[Any], quick: int = 1, *, unpack: bool = False) -> list[Any]:
    """Mark all values but the first few as slow: they repeat for a variant what the first ones show.

    Each value is that of several arguments if `unpack`.
    """
    return [one if number < quick or hasattr(one, "marks") else _slow(one, unpack) for number, one in enumerate(values)]


def _slow(one: Any, unpack: bool) -> Any:
    return pytest.param(*(one if unpack else (one,)), marks=pytest.mark.slow)
