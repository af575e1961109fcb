"""The transforms that a classifier applies to vectors before its rows.

Axis words: texts; inputs (of a vector that comes in); dim (of these, what is read); width (of a vector that goes out).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt16

from laconic.errors import ModelError
from laconic.kernels.checks import check_floats, check_whole, for_kernels
from laconic.kernels.held import Held, hold
from laconic.kernels.jit import compiled_in_any_order
from laconic.packed.engine.halves import check_weights, for_products
from laconic.packed.engine.layer_kernels import gelu_rows, product, relu_rows
from laconic.packed.engine.parts import Part

ACTIVATIONS = ("none", "relu", "gelu")

_NONE, _RELU, _GELU = range(3)
_ZERO = np.float32(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Transform(Part, ABC):
    """Transforms vectors of `inputs` numbers to vectors of `width`."""

    inputs: int

    @property
    @abstractmethod
    def width(self) -> int: ...

    @abstractmethod
    def apply(self, vectors: Float[np.ndarray, "texts inputs"]) -> Float[np.ndarray, "texts width"]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Unchanged(Transform):
    """The identity."""

    def __post_init__(self) -> None:
        check_whole(self.inputs, "width of vectors", 1)

    @property
    def width(self) -> int:
        return self.inputs

    def apply(self, vectors: Float[np.ndarray, "texts inputs"]) -> Float[np.ndarray, "texts inputs"]:
        _check_inputs(vectors, self.inputs)
        return vectors


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer(Transform):
    """skip ⊙ x + gain ⊙ f(W x + bias) + shift, of the `dim` numbers x from the place `first` on.

    Where x is not as wide as W x, the first x is averaged to its width. W may read the ReLU of x instead, and the
    ReLU may be taken of all that comes out.
    """

    weight: np.ndarray  # float32 or float16, width × dim
    bias: np.ndarray  # float32, as the next three
    gain: np.ndarray
    shift: np.ndarray
    skip: np.ndarray
    activation: str  # f, one of ACTIVATIONS
    first: int
    relu_before: bool
    relu_after: bool

    def __post_init__(self) -> None:
        check_weights(self.weight, "transform", (None, None))
        width, dim = self.weight.shape
        for name in ("bias", "gain", "shift", "skip"):
            check_floats(getattr(self, name), f"transform's {name}", (width,))
        check_whole(dim, "transform's width", 1)
        check_whole(self.first, "transform's first place", 0)
        check_whole(self.inputs, "width of vectors", self.first + dim)
        if self.activation not in ACTIVATIONS:
            raise ModelError(
                f"the packed model's activation must be one of {', '.join(ACTIVATIONS)}, but is {self.activation!r};"
                " pack it again"
            )

    @staticmethod
    def of(
        weight: Float[np.ndarray, "width dim"], bias: Float[np.ndarray, "width"], *, activation: str, skip: float = 0.0
    ) -> Layer:
        """Return the layer skip x + f(W x + bias)."""
        width, dim = weight.shape
        return Layer(
            weight=weight,
            bias=bias,
            gain=np.ones(width, dtype=np.float32),
            shift=np.zeros(width, dtype=np.float32),
            skip=np.full(width, skip, dtype=np.float32),
            activation=activation,
            inputs=dim,
            first=0,
            relu_before=False,
            relu_after=False,
        )

    @property
    def width(self) -> int:
        return len(self.weight)

    def apply(self, vectors: Float[np.ndarray, "texts inputs"]) -> Float[np.ndarray, "texts width"]:
        _check_inputs(vectors, self.inputs)
        out = np.empty((len(vectors), self.width), dtype=np.float32)
        _apply(self._held, np.ascontiguousarray(vectors, dtype=np.float32), out)
        return out

    @cached_property
    def _held(self) -> Held:
        weights = _Weights(
            for_products(self.weight),
            for_kernels(self.bias),
            for_kernels(np.stack([self.gain, self.shift, self.skip])),
            ACTIVATIONS.index(self.activation),
            self.first,
            bool(self.relu_before),
            bool(self.relu_after),
            bool(self.skip.any()),
        )
        return hold((weights,))


def _check_inputs(vectors: Float[np.ndarray, "texts _"], width: int) -> None:
    if vectors.shape[1] != width:
        raise ModelError(
            f"the packed model's transform reads vectors of {width:,} numbers, but they have {vectors.shape[1]:,};"
            " pack it again"
        )


class _Weights(NamedTuple):
    weight: Float[np.ndarray, "width dim"] | UInt16[np.ndarray, "width dim"]
    bias: Float[np.ndarray, "width"]
    lines: Float[np.ndarray, "3 width"]  # gain, shift, skip
    activation: int
    first: int
    relu_before: bool
    relu_after: bool
    skips: bool  # whether x itself counts anywhere


@compiled_in_any_order
def _apply(held, vectors, out):  # type: ignore[no-untyped-def]
    (weights,) = held.value
    first, dim = weights.first, weights.weight.shape[1]
    if weights.relu_before:
        product(np.maximum(vectors[:, first : first + dim], _ZERO).reshape(-1), dim, weights.weight, out)
    else:
        product(vectors.reshape(-1)[first:], vectors.shape[1], weights.weight, out)
    if weights.activation == _GELU:
        gelu_rows(out, weights.bias)
    elif weights.activation == _RELU:
        relu_rows(out, weights.bias)
    else:
        _shift_rows(out, weights.bias)
    for text in range(len(out)):
        _stretch(weights.lines, out[text])
        if weights.skips:
            _add_pooled(vectors[text, first : first + dim], weights.lines[2], out[text])
        if weights.relu_after:
            _cut(out[text])


@compiled_in_any_order
def _shift_rows(rows, bias):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        row = rows[i]
        for j in range(len(bias)):
            row[j] += bias[j]


@compiled_in_any_order
def _stretch(lines, row):  # type: ignore[no-untyped-def]
    gain, shift = lines[0], lines[1]
    for j in range(len(row)):
        row[j] = row[j] * gain[j] + shift[j]


@compiled_in_any_order
def _add_pooled(x, skip, row):  # type: ignore[no-untyped-def]
    """Average-pool x to a narrower row, as torch's adaptive pooling does."""
    dim, width = len(x), len(row)
    if dim == width:
        for j in range(width):
            row[j] += skip[j] * x[j]
        return
    for j in range(width):
        start, end = j * dim // width, -(-(j + 1) * dim // width)
        total = _ZERO
        for k in range(start, end):
            total += x[k]
        row[j] += skip[j] * total / np.float32(end - start)


@compiled_in_any_order
def _cut(row):  # type: ignore[no-untyped-def]
    for j in range(len(row)):
        row[j] = max(row[j], _ZERO)
