"""Packed rankers from strangers: whatever one array or one fact is changed to, it is refused before a loop sees it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from laconic.errors import ModelError
from laconic.packed.engine import PARTS
from laconic.packed.engine.blend import Blended
from laconic.packed.engine.composite import Averaged
from laconic.packed.engine.encoders import Windows
from laconic.packed.engine.parts import flattened, restored
from laconic.packed.engine.ranker import PackedRanker, nesting
from tests.engine.making import given, layer, numbers, rows, texts
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
MAY_BE_NONE = {"groups", "texts", "cluster_transform", "exact", "fine"}
ANY_VALUE = {"coarse", "fine", "upper", "lower"}  # no value of these does harm


def changed_arrays(path: str, array: np.ndarray) -> Iterator[Any]:
    """The array with its shape, its type or one of its values as it never can be."""
    yield array[None]
    yield array[..., None]
    yield array[:0] if array.size else np.zeros(1, array.dtype)
    yield array.astype(np.float64)
    yield array.astype(np.int64 if array.dtype != np.int64 else np.int16)
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
    narrow = {path: array[:, :-1].copy() for path, array in arrays.items() if path in ("rows.coarse", "rows.fine")}
    if "dim" in facts["rows"]:
        facts["rows"]["dim"] -= 1
    with pytest.raises(ModelError, match="do not fit together"):
        restored(facts, {**arrays, **narrow}, KINDS)


SIZES = {"neighbours", "size", "width", "beam", "rescored", "places", "counted", "open_groups", "walked"}
VECTORS, WORDS = numbers(3, 24), texts([[0, 1, 2], [3], []])
INPUTS: dict[str, Any] = dict.fromkeys(("searched", "candidates", "buckets", "averaged", "reranked"), VECTORS)
INPUTS |= {"blended": VECTORS, "nearest by words": WORDS, "nearest by vectors": numbers(3, 16)}


def largest(value: Any, name: str = "") -> Any:
    """The structure with every size as large as can be."""
    if isinstance(value, dict):
        return {key: largest(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [largest(one) for one in value]
    return (1 << 31) - 1 if name in SIZES and value else value


@pytest.mark.parametrize("name", INPUTS)
def test_sizes_beyond_what_there_is_are_cut(name: str) -> None:
    """A few bytes of a structure must not ask for gigabytes."""
    facts, arrays = flattened(RANKERS[name])
    ranker = restored(largest(facts), arrays, PARTS)
    assert isinstance(ranker, PackedRanker)
    every = np.tile(np.arange(ranker.num_labels), (3, 1))
    tracemalloc.start()
    assert ranker.rank(INPUTS[name], 5).labels.shape == (3, 5)
    assert ranker.score(INPUTS[name], every).shape == every.shape
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 1 << 28  # of which most is what compiling takes, where a kernel is not in the cache


def test_convolutions_of_too_many_chunks_are_refused() -> None:
    table = np.zeros((3, 4), np.float16)
    filters = {name: numbers(2, width * 4) for name, width in (("narrow", 1), ("middle", 2), ("wide", 4))}
    with pytest.raises(ModelError, match="chunks give more than"):
        Windows(words=table, **filters, bias=numbers(6), length=1 << 30, chunks=1 << 20)


def nested(ranker: PackedRanker, depth: int) -> PackedRanker:
    for _ in range(depth):
        ranker = Averaged(members=(ranker,), width=4)
    return ranker


def test_parts_too_deep_in_each_other_are_refused() -> None:
    facts, arrays = flattened(nested(RANKERS["searched"], 25))
    with pytest.raises(ModelError, match="12 deep"):
        restored(facts, arrays, PARTS)


def test_too_many_parts_are_refused() -> None:
    facts, arrays = flattened(RANKERS["averaged"])
    with pytest.raises(ModelError, match="more than 1,000 parts"):
        restored({**facts, "members": [{"kind": "Given", "features": 3}] * 1001}, arrays, PARTS)


def test_an_array_is_of_one_part() -> None:
    facts, arrays = flattened(RANKERS["averaged"])
    with pytest.raises(ModelError, match="lacks its array"):
        restored({**facts, "members": facts["members"][:1] * 2}, arrays, PARTS)


def test_the_nesting_of_rankers_is_counted() -> None:
    assert [nesting(nested(RANKERS["searched"], depth)) for depth in range(3)] == [1, 2, 3]
    assert nesting(RANKERS["fused"]) == 2
