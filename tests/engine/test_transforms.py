"""The packed transforms against plain numpy, and what they refuse."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.errors import ModelError
from laconic.packed.engine.parts import flattened, restored
from laconic.packed.engine.transforms import ACTIVATIONS, Layer, Unchanged

LINES = ("bias", "gain", "shift", "skip")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def layer(width: int = 7, dim: int = 9, **changes: Any) -> Layer:
    lines = {name: numbers(width, seed=seed) for seed, name in enumerate(LINES)}
    plain = {"activation": "gelu", "inputs": dim, "first": 0, "relu_before": False, "relu_after": False}
    return Layer(**{"weight": numbers(width, dim), **lines, **plain, **changes})


def plain(part: Layer, vectors: np.ndarray) -> np.ndarray:
    """The formula of the class, in double precision."""
    width, dim = part.weight.shape
    x = vectors[:, part.first : part.first + dim].astype(np.float64)
    hidden = (np.maximum(x, 0) if part.relu_before else x) @ part.weight.T + part.bias
    functions = {"none": lambda h: h, "relu": lambda h: max(h, 0), "gelu": lambda h: h / 2 * math.erfc(-h / 2**0.5)}
    hidden = np.vectorize(functions[part.activation], otypes=[float])(hidden)
    bins = [x[:, j * dim // width : math.ceil((j + 1) * dim / width)].mean(1) for j in range(width)]
    answer = part.skip * np.stack(bins, axis=1) + part.gain * hidden + part.shift
    return np.maximum(answer, 0) if part.relu_after else answer


@given(st.data())
def test_a_layer_is_its_formula(data: st.DataObject) -> None:
    width, dim, first, rest = (data.draw(st.integers(*bounds)) for bounds in ((1, 12), (1, 12), (0, 3), (0, 3)))
    part = layer(
        width,
        dim,
        activation=data.draw(st.sampled_from(ACTIVATIONS)),
        inputs=first + dim + rest,
        first=first,
        relu_before=data.draw(st.booleans()),
        relu_after=data.draw(st.booleans()),
        skip=numbers(width, seed=3) * data.draw(st.sampled_from([0, 1])),
    )
    vectors = numbers(data.draw(st.integers(0, 6)), part.inputs, seed=9)
    found = part.apply(vectors)
    assert (found.shape, found.dtype, part.width) == ((len(vectors), width), np.float32, width)
    if len(vectors):
        np.testing.assert_allclose(found, plain(part, vectors), rtol=1e-4, atol=1e-5)


def test_vectors_may_lie_apart_and_are_left_as_they_are() -> None:
    wide, part = numbers(4, 18), layer()
    before = wide.copy()
    np.testing.assert_allclose(part.apply(wide[:, ::2]), plain(part, wide[:, ::2]), rtol=1e-4, atol=1e-5)
    assert np.array_equal(wide, before)


def test_unchanged_is_what_it_says() -> None:
    vectors, part = numbers(3, 5), Unchanged(inputs=5)
    assert np.array_equal(part.apply(vectors), vectors)
    assert part.width == 5


@pytest.mark.parametrize("part", [layer(), Unchanged(inputs=9)])
def test_vectors_of_another_width_are_refused(part: Layer | Unchanged) -> None:
    for width in (8, 10):
        with pytest.raises(ModelError, match=f"reads vectors of 9 numbers, but they have {width}"):
            part.apply(numbers(2, width))


@pytest.mark.parametrize("part", [layer(first=2, inputs=14), Unchanged(inputs=9)])
def test_a_transform_comes_back_from_its_structure_and_arrays(part: Layer | Unchanged) -> None:
    back = restored(*flattened(part), {kind.__name__: kind for kind in (Layer, Unchanged)})
    assert isinstance(back, Layer | Unchanged)
    vectors = numbers(3, part.inputs)
    assert np.array_equal(back.apply(vectors), part.apply(vectors))


@pytest.mark.parametrize("field", ["weight", *LINES])
def test_arrays_that_do_not_fit_are_refused(field: str) -> None:
    array = getattr(layer(), field)
    for unfit in (array[:-1], array[..., None], array.astype(np.float64)):
        with pytest.raises(ModelError, match="must be float32"):
            replace(layer(), **{field: unfit})
    array = array.copy()
    array.flat[0] = np.nan
    with pytest.raises(ModelError, match="not all finite"):
        replace(layer(), **{field: array})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": 8}, "must be 9 or more, but is 8"),
        ({"first": 1}, "must be 10 or more, but is 9"),
        ({"first": -1}, "must be 0 or more, but is -1"),
        ({"activation": "tanh"}, "must be one of none, relu, gelu, but is 'tanh'"),
        ({"weight": numbers(7, 0)}, "must be 1 or more, but is 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        replace(layer(), **changes)
    with pytest.raises(ModelError, match="must be 1 or more"):
        Unchanged(inputs=0)
