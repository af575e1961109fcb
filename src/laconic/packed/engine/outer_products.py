"""Products of overlapping windows and a matrix, as sums of its rows: no vector has to be added up across.

A block of windows and COLUMNS columns has its sums in vector registers. Each row of the matrix is read once for the
block, and multiplied with one number of every window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Real
from numba import types
from numba.core import cgutils
from numba.core.cgutils import ir
from numba.extending import intrinsic

from laconic.kernels.jit import compiled_in_any_order
from laconic.packed.engine.dot_products import features_of_processor
from laconic.packed.engine.halves import for_products, in_single

COLUMNS = 32  # of a block; a matrix has a multiple of them
_LANES = 16  # numbers of a vector; where registers are narrower, it takes several of them
_MANY, _FEW = 8, 3  # windows of a block where there are 32 registers of 512 bits, and where there are fewer or narrower
WINDOWS = _MANY if "+avx512f" in features_of_processor().split(",") else _FEW

_VECTOR = ir.VectorType(ir.FloatType(), _LANES)
_ALIGNED = 2  # bytes: rows begin anywhere
_PLACE, _LANE = ir.IntType(64), ir.IntType(32)
_INEXACT = ("reassoc", "contract")  # a product and a sum may become one instruction


def in_blocks(matrix: Float[np.ndarray, "rows columns"]) -> Real[np.ndarray, "rows more"]:
    """Return the matrix as kernels read it, with zeros as further columns, so that it has whole blocks of them."""
    rows, columns = matrix.shape
    padded = np.zeros((rows, -(-columns // COLUMNS) * COLUMNS), dtype=matrix.dtype)
    padded[:, :columns] = matrix
    return for_products(padded)


@compiled_in_any_order
def sum_of_rows(windows, step, stride, count, matrix, bias, out, across):  # type: ignore[no-untyped-def]
    """Compute out[i × across + j] = bias[j] + the sum over k of windows[i × step + k × stride] × matrix[k, j].

    There are `count` windows i; the matrix has a multiple of COLUMNS columns j, as `in_blocks` gives.
    """
    size, width = matrix.shape
    for column in range(0, width, COLUMNS):
        for i in range(0, count, WINDOWS):
            _multiply_block(windows, i, count - 1, step, stride, matrix, bias, column, size, width, out, across)


@intrinsic  # type: ignore[untyped-decorator]
def _multiply_block(
    typing_context: Any,
    windows: Any,
    first: Any,
    last: Any,
    step: Any,
    stride: Any,
    matrix: Any,
    bias: Any,
    column: Any,
    size: Any,
    width: Any,
    out: Any,
    across: Any,
) -> Any:
    """Write the products of WINDOWS windows from the first on with COLUMNS columns; the last window may repeat."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = dict(zip(_NAMES, arguments, strict=True))
        starts = {
            name: context.make_array(signature.args[place])(context, builder, arguments[place]).data
            for place, name in enumerate(_NAMES)
            if name in ("windows", "matrix", "bias", "out")
        }
        rows = [_smaller(builder, builder.add(own["first"], _PLACE(one)), own["last"]) for one in range(WINDOWS)]
        places = [builder.mul(row, own["step"]) for row in rows]
        parts = range(0, COLUMNS, _LANES)
        biases = [_load(builder, starts["bias"], builder.add(own["column"], _PLACE(part))) for part in parts]
        sums = [[cgutils.alloca_once_value(builder, one) for one in biases] for _ in rows]
        with cgutils.for_range(builder, own["size"]) as loop:
            begin = builder.add(builder.mul(loop.index, own["width"]), own["column"])
            vectors = [_load(builder, starts["matrix"], builder.add(begin, _PLACE(part))) for part in parts]
            vectors = [in_single(builder, one) if matrix.dtype == types.uint16 else one for one in vectors]
            behind = builder.mul(loop.index, own["stride"])
            for place, totals in zip(places, sums, strict=True):
                number = builder.load(builder.gep(starts["windows"], [builder.add(place, behind)]))
                number = _in_every_lane(builder, number)
                for vector, total in zip(vectors, totals, strict=True):
                    added = builder.fmul(number, vector, flags=_INEXACT)
                    builder.store(builder.fadd(builder.load(total), added, flags=_INEXACT), total)
        for row, totals in zip(rows, sums, strict=True):
            begin = builder.add(builder.mul(row, own["across"]), own["column"])
            for part, total in zip(parts, totals, strict=True):
                _store(builder, builder.load(total), starts["out"], builder.add(begin, _PLACE(part)))
        return context.get_dummy_value()

    place = types.intp
    kinds = (windows, place, place, place, place, matrix, bias, place, place, place, out, place)
    return types.void(*kinds), generate


_NAMES = ("windows", "first", "last", "step", "stride", "matrix", "bias", "column", "size", "width", "out", "across")


def _smaller(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.icmp_signed("<", one, other), one, other)


def _in_every_lane(builder: Any, number: Any) -> Any:
    alone = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, _LANE(0))
    return builder.shuffle_vector(
        alone, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.VectorType(_LANE, _LANES), [0] * _LANES)
    )


def _load(builder: Any, start: Any, place: Any) -> Any:
    kind = ir.VectorType(start.type.pointee, _LANES)
    loaded = builder.load(builder.bitcast(builder.gep(start, [place]), kind.as_pointer()))
    loaded.align = _ALIGNED
    return loaded


def _store(builder: Any, vector: Any, start: Any, place: Any) -> None:
    builder.store(vector, builder.bitcast(builder.gep(start, [place]), _VECTOR.as_pointer()), align=_ALIGNED)
