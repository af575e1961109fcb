"""Kernels over rows in planes of four bits: scores of runs of rows by the upper one, and of single rows by both.

A plane has blocks of 64 numbers in 32 bytes: byte i has number i in its lower half and number 32 + i in its upper one,
so that a mask and a shift give both halves of a block in their order. What is read of a row's number n, from -128 to
127, is (n + 128) // 16; it counts as the middle of the sixteen numbers that it may be. A text's vector is rounded to
bytes, so no sum of up to 8,000 products overflows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int8, UInt8
from numba import types
from numba.core import cgutils
from numba.core.cgutils import ir
from numba.extending import intrinsic

from laconic.kernels.jit import compiled, compiled_in_any_order
from laconic.kernels.prefetch import prefetch
from laconic.packed.engine.dot_products import HAS_DOT_PRODUCTS, HAS_PAIRED_PRODUCTS, address_of, loaded
from laconic.packed.engine.row_kernels import FINENESS

BLOCK = 64  # numbers
_HALF = BLOCK // 2  # bytes of a block
_LINE = 64  # bytes that are fetched together
_LARGEST = 127.0
_LEAST = 1e-30  # what is smaller is nothing: what it would be stretched by has no end
# Twice 16 u - 128 + 7.5: a row's number by its upper bits u is 16 u - 120.5, and integers can be added up.
_STEP, _MIDDLE = 32, 241
_ROWS = 4  # that are multiplied together
_PLACE, _NUMBER, _BYTE, _WORD = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.IntType(16)
_BYTES, _WORDS, _NUMBERS = ir.VectorType(_BYTE, 32), ir.VectorType(_WORD, 16), ir.VectorType(_NUMBER, 8)
_FOUR_NUMBERS, _FOUR_FLOATS = ir.VectorType(_NUMBER, _ROWS), ir.VectorType(ir.FloatType(), _ROWS)
_REGISTER, _SUMS = ir.VectorType(_BYTE, 16), ir.VectorType(_NUMBER, 4)  # of ARM
_SIGNED, _FLOATS = ir.VectorType(_NUMBER, 16), ir.VectorType(ir.FloatType(), 16)


class NibbleGrid(NamedTuple):
    """Rows as kernels read them."""

    upper: UInt8[np.ndarray, "rows half"]
    lower: UInt8[np.ndarray, "rows half"]
    fine: Int8[np.ndarray, "rows dim"]  # no rows: there are no second bytes
    scales: Float[np.ndarray, "rows"]
    biases: Float[np.ndarray, "rows"]


@compiled
def padded(vector, width):  # type: ignore[no-untyped-def]
    """Return the vector with zeros behind it, as wide as `width` bytes of a plane."""
    whole = np.zeros(2 * width, np.float32)
    whole[: len(vector)] = vector
    return whole


@compiled
def in_bytes(vector, into):  # type: ignore[no-untyped-def]
    """Round a padded vector to bytes; return half of their scale, and their sum times what rows' numbers lack."""
    largest = np.float32(0)
    for i in range(len(vector)):
        largest = max(largest, abs(vector[i]))
    if not (largest > _LEAST and largest < np.inf):
        for i in range(len(vector)):
            into[i] = 0
        return np.float32(0), np.int32(0)
    stretch, total = np.float32(_LARGEST) / largest, np.int32(0)
    for i in range(len(vector)):
        into[i] = np.int8(np.rint(vector[i] * stretch))
        total = np.int32(total + np.int32(into[i]))
    return largest / np.float32(2 * _LARGEST), np.int32(total * np.int32(_MIDDLE))


@compiled
def plain_nibbles(upper, row, numbers):  # type: ignore[no-untyped-def]
    """Return the product of a row's upper bits and a vector of bytes."""
    own, total = upper[row], np.int32(0)
    for first in range(0, len(own), _HALF):
        for i in range(first, first + _HALF):
            left = np.int32(own[i] & 15) * np.int32(numbers[first + i])
            right = np.int32(own[i] >> 4) * np.int32(numbers[first + i + _HALF])
            total = np.int32(total + np.int32(left + right))
    return total


@intrinsic
def score_four(  # type: ignore[no-untyped-def]
    typing_context, grid, row, numbers, lacking, scale, into, place
):
    """Write the scores of four rows that follow each other, as `plain_run` does, by instructions of x86."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        rows = [builder.add(arguments[1], _PLACE(i)) for i in range(_ROWS)]
        _write_scores(context, builder, signature, arguments, rows)

    return types.void(grid, types.intp, numbers, types.int32, types.float32, into, types.intp), generate


@intrinsic
def score_any_four(  # type: ignore[no-untyped-def]
    typing_context, grid, rows, numbers, lacking, scale, into, place
):
    """Write the scores of the four rows whose numbers begin at `place`, as `score_four` does of neighbours."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        first = address_of(context, builder, signature.args[1], arguments[1], builder.mul(arguments[6], _PLACE(8)))
        every = builder.bitcast(first, _PLACE.as_pointer())
        rows = [builder.load(builder.gep(every, [_PLACE(i)])) for i in range(_ROWS)]
        _write_scores(context, builder, signature, arguments, rows)

    return types.void(grid, rows, numbers, types.int32, types.float32, into, types.intp), generate


def _write_scores(context: Any, builder: Any, signature: Any, arguments: Any, rows: list[Any]) -> None:
    """Score four rows; the arguments are those of `score_four`."""
    kinds = dict(zip(NibbleGrid._fields, signature.args[0].types, strict=True))
    arrays = {name: builder.extract_value(arguments[0], i) for i, name in enumerate(NibbleGrid._fields)}

    def at(name: str, offset: Any) -> Any:
        return address_of(context, builder, kinds[name], arrays[name], offset)

    def of_rows(name: str) -> Any:
        found = ir.Constant(_FOUR_FLOATS, ir.Undefined)
        for i, row in enumerate(rows):
            address = builder.bitcast(at(name, builder.mul(row, _PLACE(4))), ir.FloatType().as_pointer())
            found = builder.insert_element(found, builder.load(address), _NUMBER(i))
        return found

    upper = context.make_array(kinds["upper"])(context, builder, arrays["upper"])
    width = builder.extract_value(upper.shape, 1)
    starts = [at("upper", builder.mul(width, row)) for row in rows]
    own = address_of(context, builder, signature.args[2], arguments[2], _PLACE(0))
    totals = _added_up(builder, _products(builder, starts, own, width))
    lacks = _splat(builder, arguments[3], _FOUR_NUMBERS)
    whole = builder.sub(builder.mul(totals, ir.Constant(_FOUR_NUMBERS, [_STEP] * _ROWS)), lacks)
    scales = builder.fmul(_splat(builder, arguments[4], _FOUR_FLOATS), of_rows("scales"))
    scores = builder.fadd(builder.fmul(builder.sitofp(whole, _FOUR_FLOATS), scales), of_rows("biases"))
    target = address_of(context, builder, signature.args[5], arguments[5], builder.mul(arguments[6], _PLACE(4)))
    stored = builder.store(scores, builder.bitcast(target, _FOUR_FLOATS.as_pointer()))
    stored.align = 1


def _products(builder: Any, starts: list[Any], own: Any, width: Any) -> list[Any]:
    """Multiply rows with a vector of bytes; return the sums of each eighth."""
    pairs = _function(builder, _WORDS, [_BYTES, _BYTES], "llvm.x86.avx2.pmadd.ub.sw")
    fours = _function(builder, _NUMBERS, [_WORDS, _WORDS], "llvm.x86.avx2.pmadd.wd")
    ones, mask = ir.Constant(_WORDS, [1] * 16), ir.Constant(_BYTES, [15] * 32)
    sums = [cgutils.alloca_once_value(builder, ir.Constant(_NUMBERS, [0] * 8)) for _ in starts]
    with cgutils.for_range(builder, builder.udiv(width, _PLACE(_HALF))) as loop:
        offset = builder.mul(loop.index, _PLACE(_HALF))
        left = loaded(builder, own, builder.mul(offset, _PLACE(2)), _BYTES)
        right = loaded(builder, own, builder.add(builder.mul(offset, _PLACE(2)), _PLACE(_HALF)), _BYTES)
        for start, total in zip(starts, sums, strict=True):
            both = loaded(builder, start, offset, _BYTES)
            shifted = builder.lshr(builder.bitcast(both, _WORDS), ir.Constant(_WORDS, [4] * 16))
            low, high = builder.and_(both, mask), builder.and_(builder.bitcast(shifted, _BYTES), mask)
            # Four products of at most 15 × 127 each are less than half of what 16 bits hold.
            words = builder.add(builder.call(pairs, [low, left]), builder.call(pairs, [high, right]))
            builder.store(builder.add(builder.load(total), builder.call(fours, [words, ones])), total)
    return [builder.load(total) for total in sums]


def _added_up(builder: Any, sums: list[Any]) -> Any:
    """Add up the numbers of each of four vectors."""
    neighbours = _function(builder, _NUMBERS, [_NUMBERS, _NUMBERS], "llvm.x86.avx2.phadd.d")
    first, last = (builder.call(neighbours, sums[i : i + 2]) for i in (0, 2))
    both = builder.call(neighbours, [first, last])
    lower, upper = (
        builder.shuffle_vector(both, both, ir.Constant(_FOUR_NUMBERS, list(range(i, i + 4)))) for i in (0, 4)
    )
    return builder.add(lower, upper)


@intrinsic  # type: ignore[untyped-decorator]
def dot_nibbles(typing_context: Any, upper: Any, row: Any, numbers: Any) -> Any:
    """Return what `plain_nibbles` does, by instructions of ARM that multiply and add up bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        width = builder.extract_value(array.shape, 1)
        start = address_of(context, builder, signature.args[0], arguments[0], builder.mul(arguments[1], width))
        own = address_of(context, builder, signature.args[2], arguments[2], _PLACE(0))
        dot = _function(builder, _SUMS, [_SUMS, _REGISTER, _REGISTER], "llvm.aarch64.neon.sdot.v4i32.v16i8")
        mask, shift = (ir.Constant(_REGISTER, [number] * 16) for number in (15, 4))
        sums = [cgutils.alloca_once_value(builder, ir.Constant(_SUMS, [0] * 4)) for _ in range(2)]
        with cgutils.for_range(builder, builder.udiv(width, _PLACE(_HALF))) as loop:
            offset = builder.mul(loop.index, _PLACE(_HALF))
            for half in (0, 16):
                both = loaded(builder, start, builder.add(offset, _PLACE(half)), _REGISTER)
                for total, bits, behind in (
                    (sums[0], builder.and_(both, mask), half),
                    (sums[1], builder.lshr(both, shift), half + _HALF),
                ):
                    place = builder.add(builder.mul(offset, _PLACE(2)), _PLACE(behind))
                    other = loaded(builder, own, place, _REGISTER)
                    builder.store(builder.call(dot, [builder.load(total), bits, other]), total)
        add_up = _function(builder, _NUMBER, [_SUMS], "llvm.vector.reduce.add.v4i32")
        return builder.call(add_up, [builder.add(*(builder.load(total) for total in sums))])

    return types.int32(upper, types.intp, numbers), generate


_product = dot_nibbles if HAS_DOT_PRODUCTS else plain_nibbles


@compiled
def plain_run(grid, first, last, numbers, lacking, scale, into, place):  # type: ignore[no-untyped-def]
    """Write the scores of rows first to last, from `place` on."""
    for row in range(first, last):
        whole = np.int32(np.int32(_STEP) * _product(grid.upper, row, numbers) - lacking)
        into[place + row - first] = np.float32(whole) * (scale * grid.scales[row]) + grid.biases[row]


@compiled
def score_nibbles(grid, first, last, numbers, lacking, scale, into, place):  # type: ignore[no-untyped-def]
    """Write the scores of rows first to last by their upper bits, from `place` on; return the place after them."""
    if HAS_PAIRED_PRODUCTS and last - first >= _ROWS:
        for row in range(first, last, _ROWS):
            four = min(row, last - _ROWS)  # where fewer are left, some are scored again
            score_four(grid, four, numbers, lacking, scale, into, place + four - first)
    else:
        plain_run(grid, first, last, numbers, lacking, scale, into, place)
    return place + last - first


@compiled
def score_rows(grid, rows, count, numbers, lacking, scale, into):  # type: ignore[no-untyped-def]
    """Write the scores of the first `count` of some rows by their upper bits; of one row more than once, where few."""
    if HAS_PAIRED_PRODUCTS and count >= _ROWS:
        for i in range(0, count, _ROWS):
            score_any_four(grid, rows, numbers, lacking, scale, into, min(i, count - _ROWS))
    else:
        for i in range(count):
            plain_run(grid, rows[i], rows[i] + 1, numbers, lacking, scale, into, i)


@intrinsic  # type: ignore[untyped-decorator]
def dot_planes(typing_context: Any, upper: Any, lower: Any, row: Any, vector: Any) -> Any:
    """Return the product of a row's bytes, which both planes have, and a padded vector.

    LLVM makes no vector instructions of a loop that does the same.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        width = builder.extract_value(context.make_array(upper)(context, builder, arguments[0]).shape, 1)
        first = builder.mul(arguments[2], width)
        planes = [address_of(context, builder, signature.args[i], arguments[i], first) for i in range(2)]
        own = address_of(context, builder, signature.args[3], arguments[3], _PLACE(0))
        mask, high, shift, sign = (ir.Constant(_REGISTER, [number] * 16) for number in (15, 240, 4, 128))
        total = cgutils.alloca_once_value(builder, ir.Constant(_FLOATS, [0.0] * 16))
        with cgutils.for_range(builder, builder.udiv(width, _PLACE(_HALF))) as loop:
            block = builder.mul(loop.index, _PLACE(_HALF))
            for half in (0, 16):
                offset = builder.add(block, _PLACE(half))
                uppers, lowers = (loaded(builder, plane, offset, _REGISTER) for plane in planes)
                left = builder.or_(builder.shl(uppers, shift), builder.and_(lowers, mask))
                right = builder.or_(builder.and_(uppers, high), builder.lshr(lowers, shift))
                for numbers, behind in ((left, half), (right, half + _HALF)):
                    floats = builder.sitofp(builder.sext(builder.xor(numbers, sign), _SIGNED), _FLOATS)
                    place = builder.add(builder.mul(block, _PLACE(8)), _PLACE(4 * behind))  # two floats a byte
                    product = builder.fmul(floats, loaded(builder, own, place, _FLOATS))
                    builder.store(builder.fadd(builder.load(total), product), total)
        add_up = _function(builder, ir.FloatType(), [ir.FloatType(), _FLOATS], "llvm.vector.reduce.fadd.v16f32")
        return builder.call(add_up, [ir.Constant(ir.FloatType(), 0.0), builder.load(total)], fastmath=("reassoc",))

    return types.float32(upper, lower, types.intp, vector), generate


@compiled_in_any_order
def both_dot(grid, row, vector):  # type: ignore[no-untyped-def]
    """Return the product of a row and a padded vector, by all bits that there are of the row's numbers."""
    total = dot_planes(grid.upper, grid.lower, row, vector)
    if len(grid.fine):
        second, rest = grid.fine[row], np.float32(0)
        for i in range(len(second)):
            rest += np.float32(second[i]) * vector[i]
        total += rest * np.float32(1 / FINENESS)
    return total * grid.scales[row]


@compiled
def fetch_upper(grid, first, last):  # type: ignore[no-untyped-def]
    """Prefetch the upper bits of rows first to last."""
    width = grid.upper.shape[1]
    for place in range(first * width, last * width, _LINE):
        prefetch(grid.upper, place)


@compiled
def fetch_upper_row(grid, row):  # type: ignore[no-untyped-def]
    """Prefetch the upper bits of a row that is scored by itself, and its scale and bias."""
    fetch_upper(grid, row, row + 1)
    prefetch(grid.scales, row * grid.scales.itemsize)
    prefetch(grid.biases, row * grid.biases.itemsize)


@compiled
def fetch_row(grid, row):  # type: ignore[no-untyped-def]
    """Prefetch all bits of a row."""
    width = grid.upper.shape[1]
    for place in range(row * width, row * width + width, _LINE):
        prefetch(grid.upper, place)
        prefetch(grid.lower, place)
    if len(grid.fine):
        dim = grid.fine.shape[1]
        for place in range(row * dim, row * dim + dim, _LINE):
            prefetch(grid.fine, place)
    prefetch(grid.scales, row * grid.scales.itemsize)
    prefetch(grid.biases, row * grid.biases.itemsize)


def _function(builder: Any, returned: Any, given: list[Any], name: str) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(returned, given), name)


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    """Return a vector of one value."""
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, value, _NUMBER(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(_NUMBER, kind.count), [0] * kind.count))
