"""Scratch values that are lent: none to two at once, and none that an error may have left changed."""

from __future__ import annotations

import pytest

from laconic.kernels.spares import Spares


def test_a_value_is_lent_again_but_never_to_two_at_once() -> None:
    spares = Spares(list[int])
    with spares.lent() as one, spares.lent() as other:
        assert one is not other
    with spares.lent() as again:
        assert again is one or again is other


def test_a_value_is_not_lent_again_after_an_error() -> None:
    spares, seen = Spares(list[int]), list[list[int]]()
    with pytest.raises(ValueError, match="half-way"), spares.lent() as one:
        seen.append(one)
        one.append(1)
        raise ValueError("half-way")
    with spares.lent() as another:
        assert another is not seen[0]
        assert another == []
