"""Packed rankers from strangers: whatever one array or one fact is changed to, it is refused before a loop sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from laconic.errors import ModelError
from laconic.packed.engine import PARTS
from laconic.packed.engine.blend import Blended
from laconic.packed.engine.composite import Averaged
from laconic.packed.engine.parts import flattened, restored
from laconic.packed.engine.ranker import PackedRanker
from tests.engine.making import given, layer, rows
from tests.engine.test_buckets import buckets
from tests.engine.test_candidates import candidates
from tests.engine.test_cells import near
from tests.engine.test_fused import fused
from tests.engine.test_joined import members, reranked
from tests.engine.test_neighbours import by_vectors, by_words
from tests.engine.test_search import searched
from tests.engine.test_shortlists import LABELS, worded

RANKERS: dict[str, PackedRanker] = {
    "searched": searched(groups=[3, 2, 4], cluster_transform=layer()),
    "candidates": candidates(near=near(several=30)),
    "blended": Blended(**given(), rows=rows(LABELS), shortlist=worded(), beta=0.5, size=9),
    "buckets": buckets(),
    "averaged": Averaged(members=members(0, 1), width=4),
    "reranked": reranked(searched([9, 14, 3, 8, 16], always=0), size=8, alpha=0.4)[0],
    "nearest by words": by_words()[0],
    "nearest by vectors": by_vectors()[0],
    "fused": fused()[0],
}


class Unchecked:
    """A part made as it is outside of tests, where nobody looks at annotations: its own checks are all there are."""

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)
        getattr(self, "__post_init__", lambda: None)()


KINDS: dict[str, Any] = {name: type(name, (Unchecked, kind), {}) for name, kind in PARTS.items()}
OTHERS = {"Given", "Layer", "Unchanged"}  # which have tests of their own
MAY_BE_NONE = {"groups", "texts", "cluster_transform", "exact"}
ANY_VALUE = {"coarse", "exact"}  # no value of these does harm


def changed_arrays(path: str, array: np.ndarray) -> Iterator[Any]:
    """The array with its shape, its type or one of its values as it never can be."""
    yield array[None]
    yield array[..., None]
    yield array[:0] if array.size else np.zeros(1, array.dtype)
    yield array.astype(np.float64)
    yield array.astype(np.int64 if array.dtype != np.int64 else np.int32)
    values = [np.nan, -np.inf] if array.dtype.kind == "f" else [-1, 1 << 30, np.iinfo(array.dtype).min]
    for value in () if path.rpartition(".")[2] in ANY_VALUE else values:
        for place in (0, array.size // 2, array.size - 1) if array.size else ():
            copy = array.copy()
            copy.flat[place] = value
            yield copy


@pytest.mark.parametrize("name", RANKERS)
def test_an_array_that_does_not_fit_is_refused(name: str) -> None:
    facts, arrays = flattened(RANKERS[name])
    assert isinstance(restored(facts, arrays, KINDS), PackedRanker)
    for path, array in arrays.items():
        for wrong in changed_arrays(path, array):
            with pytest.raises(ModelError):
                restored(facts, {**arrays, path: wrong}, KINDS)
                pytest.fail(f"{path} may be {wrong!r}")


def wrong_facts(name: str, value: Any) -> list[Any]:
    match value:
        case bool():
            return ["yes", 1, None]
        case int():
            return [-1, 2.5, "3", 1 << 40, None, [3], True]
        case float():
            return ["0.5", None, [0.5], float("nan"), float("inf"), True]
        case list():
            return [[], 3, [3], None, [*value, 3]]
    parts: list[Any] = [3, "part", [], {"kind": "Unchanged", "inputs": 7}, {"kind": "Given", "features": 7}]
    return parts if name in MAY_BE_NONE else [*parts, None]


def changed_facts(facts: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The structure with one thing in it, however deep, as it never can be."""
    for name, value in facts.items():
        if name == "kind" or value is None:
            continue
        yield from ((f"{name} = {wrong!r}", {**facts, name: wrong}) for wrong in wrong_facts(name, value))
        for place, part in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(part, dict) and part.get("kind", "Given") not in OTHERS:
                for said, inner in changed_facts(part):
                    whole = [*value[:place], inner, *value[place + 1 :]] if isinstance(value, list) else inner
                    yield f"{name}.{said}", {**facts, name: whole}


@pytest.mark.parametrize("name", RANKERS)
def test_a_fact_that_does_not_fit_is_refused(name: str) -> None:
    facts, arrays = flattened(RANKERS[name])
    for said, wrong in changed_facts(facts):
        with pytest.raises(ModelError):
            restored(wrong, arrays, KINDS)
            pytest.fail(f"it may be that {said}")


def test_groups_that_are_more_than_clusters_are_refused() -> None:
    with pytest.raises(ModelError, match="groups do not fit"):
        searched(groups=[0, 0, 0, 0, 0, 0, 0, 0, 0, 9])


@pytest.mark.parametrize("name", ["searched", "candidates", "blended", "buckets", "reranked"])
def test_rows_of_another_width_are_refused(name: str) -> None:
    facts, arrays = flattened(RANKERS[name])
    narrow = {path: array[:, :-1].copy() for path, array in arrays.items() if path in ("rows.coarse", "rows.exact")}
    with pytest.raises(ModelError, match="do not fit together"):
        restored(facts, {**arrays, **narrow}, KINDS)
