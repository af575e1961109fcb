"""Parts come apart and back together, and what does not fit is refused before a compiled loop sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from laconic.errors import ModelError
from laconic.kernels import checks
from laconic.packed.engine.parts import Part, flattened, restored


@dataclass(frozen=True, kw_only=True, eq=False)
class Leaf(Part):
    array: np.ndarray
    number: int | float | str | bool | None = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Branch(Part):
    leaf: Leaf | None
    leaves: tuple[Leaf, ...] = ()


KINDS: dict[str, type[Part]] = {"Leaf": Leaf, "Branch": Branch}


def leaf(number: Any = 3) -> Leaf:
    return Leaf(array=np.arange(4), number=number)


def test_a_part_comes_back_from_its_structure_and_arrays() -> None:
    part = Branch(leaf=leaf(), leaves=(leaf(0.5), leaf("five"), leaf(True), leaf(None)))
    facts, arrays = flattened(part)
    assert set(arrays) == {"leaf.array", *(f"leaves.{number}.array" for number in range(4))}
    back = restored(facts, arrays, KINDS)
    assert isinstance(back, Branch)
    assert back.leaf is not None
    assert back.leaf.array is arrays["leaf.array"]
    assert [one.number for one in back.leaves] == [0.5, "five", True, None]


def test_what_an_older_version_did_not_know_has_its_default() -> None:
    facts, arrays = flattened(Branch(leaf=leaf()))
    del facts["leaves"], facts["leaf"]["number"]
    back = restored(facts, arrays, KINDS)
    assert isinstance(back, Branch)
    assert back.leaf is not None
    assert (back.leaves, back.leaf.number) == ((), 3)


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no structure": (lambda facts: 3, "a kind that this version does not know"),
    "no kind": (lambda facts: {}, "a kind that this version does not know"),
    "strange kind": (lambda facts: {**facts, "kind": "Root"}, "a kind that this version does not know"),
    "kind that is no name": (lambda facts: {**facts, "kind": ["Leaf"]}, "a kind that this version does not know"),
    "field too many": (lambda facts: {**facts, "root": 3}, "of another version"),
    "field too few": (lambda facts: {"kind": "Branch", "leaves": []}, "of another version"),
    "array that is not there": (
        lambda facts: {**facts, "leaf": {"kind": "Leaf", "array": {"array": "root"}, "number": 3}},
        "lacks its array 'root'",
    ),
    "structure without a kind": (lambda facts: {**facts, "leaf": {"array": 3}}, "a kind that this version"),
}


@pytest.mark.parametrize(("change", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_structure_of_something_else_is_refused(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    facts, arrays = flattened(Branch(leaf=leaf()))
    with pytest.raises(ModelError, match=message):
        restored(change(facts), arrays, KINDS)


FAR = np.iinfo(np.int64).max
REFUSED: dict[str, Callable[[], None]] = {
    "no array": lambda: checks.check_array([1, 2], "numbers", np.int32, (2,)),
    "another kind": lambda: checks.check_array(np.zeros(2), "numbers", np.int32, (2,)),
    "another shape": lambda: checks.check_array(np.zeros((2, 3), np.int32), "numbers", np.int32, (2, 2)),
    "too many axes": lambda: checks.check_array(np.zeros((2, 3), np.int32), "numbers", np.int32, (2,)),
    "number below": lambda: checks.check_numbers(np.array([0, -1]), "numbers", 0, 5),
    "number above": lambda: checks.check_numbers(np.array([0, 5]), "numbers", 0, 5),
    "no bounds": lambda: checks.check_starts(np.array([], np.int64), "bounds", 0),
    "bounds that begin late": lambda: checks.check_starts(np.array([1, 5]), "bounds", 5),
    "bounds that end early": lambda: checks.check_starts(np.array([0, 4]), "bounds", 5),
    "bounds that go back": lambda: checks.check_starts(np.array([0, 3, 2, 5]), "bounds", 5),
    # Their differences overflow to numbers that are not negative.
    "bounds round the world": lambda: checks.check_starts(np.array([0, FAR, -2, 5]), "bounds", 5),
    "order with a gap": lambda: checks.check_order(np.array([0, 2, 2]), "order"),
    "order that points outside": lambda: checks.check_order(np.array([0, 3, 1]), "order"),
    "order that points back": lambda: checks.check_order(np.array([0, -1, 1]), "order"),
    "not finite": lambda: checks.check_finite(np.array([0, np.nan]), "numbers"),
    "no whole number": lambda: checks.check_whole(2.0, "number", 1),
    "a yes for a number": lambda: checks.check_whole(True, "number", 1),
    "small whole number": lambda: checks.check_whole(0, "number", 1),
    "large whole number": lambda: checks.check_whole(1 << 31, "number", 1),
    "no real number": lambda: checks.check_real("2", "number", 0.0),
    "real number that is none": lambda: checks.check_real(np.nan, "number", 0.0),
    "small real number": lambda: checks.check_real(-0.1, "number", 0.0),
    "large real number": lambda: checks.check_real(1.1, "number", 0.0, 1.0),
    "endless real number": lambda: checks.check_real(np.inf, "number", 0.0),
    "another kind of part": lambda: checks.check_kind(leaf(), "branch", Branch),
}


@pytest.mark.parametrize("check", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(check: Callable[[], None]) -> None:
    with pytest.raises(ModelError, match="pack it again"):
        check()


def test_what_fits_is_not() -> None:
    checks.check_array(np.zeros((2, 3), np.int32), "numbers", np.int32, (None, 3))
    checks.check_numbers(np.array([-1, 4]), "numbers", -1, 5)
    checks.check_numbers(np.array([], np.int64), "numbers", 0, 0)
    checks.check_starts(np.array([0, 0, 3, 3, 5]), "bounds", 5)
    checks.check_starts(np.array([0]), "bounds", 0)
    checks.check_order(np.array([2, 0, 1]), "order")
    checks.check_whole(1, "number", 1)
    checks.check_real(1, "number", 0.0, 1.0)
    checks.check_real(0.5, "number", 0.0, 1.0)
    checks.check_kind(leaf(), "leaf", Part)


def test_arrays_for_kernels_are_of_one_kind_and_cannot_be_written() -> None:
    array = np.arange(12).reshape(3, 4)
    for one in (array, array.T, array[:, ::2]):
        plain = checks.for_kernels(one)
        assert np.array_equal(plain, one)
        assert plain.flags.c_contiguous
        assert not plain.flags.writeable
    assert array.flags.writeable
