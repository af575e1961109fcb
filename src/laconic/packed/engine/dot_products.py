"""Products of rows of bytes and vectors of 12 bits, by instructions that multiply and add up many at once.

On ARM a vector is two vectors of bytes, 32 h + l, so its product with a row is 32 h · row + l · row: the same integer,
in half the time of products of 16 bits. On x86 sixteen numbers of 16 bits are multiplied and added up in pairs, and
four rows share the reading of the vector: runs of rows take two thirds of the time of one row after another.
"""

from __future__ import annotations

from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.core.cgutils import ir
from numba.core.codegen import get_host_cpu_features, ll
from numba.extending import intrinsic

BYTES = 16  # of a vector register
WORDS = 16  # numbers of 16 bits in a vector register of x86
ROWS = 4  # that are multiplied together there
_STEP = 32  # of the high bytes
_PLACE, _NUMBER = ir.IntType(64), ir.IntType(32)
_BYTE = ir.IntType(8)
_BYTE_VECTOR, _NUMBER_VECTOR = ir.VectorType(_BYTE, BYTES), ir.VectorType(_NUMBER, BYTES // 4)
_WORD_VECTOR, _PAIR_VECTOR = ir.VectorType(ir.IntType(16), WORDS), ir.VectorType(_NUMBER, WORDS // 2)


def has_dot_products(processor: str) -> bool:
    """Return whether a processor multiplies and adds up bytes at once, by LLVM's name: its features do not say so."""
    return processor.startswith(("neoverse-", "apple-m"))


def _processor() -> str:
    """Return the name of the processor that numba compiles for; none where the user has set its features."""
    if numba.config.CPU_FEATURES is not None:
        return ""
    return str(numba.config.CPU_NAME or ll.get_host_cpu_name())


def features_of_processor() -> str:
    """Return the features of the processor that numba compiles for; none where the user has set them."""
    return "" if numba.config.CPU_FEATURES is not None else str(get_host_cpu_features())


HAS_DOT_PRODUCTS = has_dot_products(_processor())
HAS_PAIRED_PRODUCTS = "+avx2" in features_of_processor().split(",")


@intrinsic  # type: ignore[untyped-decorator]
def dot_bytes(typing_context: Any, rows: Any, place: Any, halves: Any, low: Any, count: Any) -> Any:
    """Return 32 × the product of the rows' bytes from `place` on with `halves`, plus that with `halves` from `low` on.

    Places are those of bytes; `count` is how many, a multiple of BYTES.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, high, second = (
            address_of(context, builder, signature.args[array], arguments[array], offset)
            for array, offset in ((0, arguments[1]), (2, _PLACE(0)), (2, arguments[3]))
        )
        kind = ir.FunctionType(_NUMBER_VECTOR, [_NUMBER_VECTOR, _BYTE_VECTOR, _BYTE_VECTOR])
        dot = cgutils.get_or_insert_function(builder.module, kind, "llvm.aarch64.neon.sdot.v4i32.v16i8")
        zeros = ir.Constant(_NUMBER_VECTOR, [0] * (BYTES // 4))
        sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(2)]
        with cgutils.for_range(builder, builder.udiv(arguments[4], _PLACE(BYTES))) as loop:
            offset = builder.mul(loop.index, _PLACE(BYTES))
            numbers = loaded(builder, row, offset)
            for total, half in zip(sums, (high, second), strict=True):
                added = builder.call(dot, [builder.load(total), numbers, loaded(builder, half, offset)])
                builder.store(added, total)
        kind = ir.FunctionType(_NUMBER, [_NUMBER_VECTOR])
        add_up = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.add.v4i32")
        of_high, of_low = (builder.call(add_up, [builder.load(total)]) for total in sums)
        return builder.add(builder.mul(of_high, _NUMBER(_STEP)), of_low)

    return types.int32(rows, types.intp, halves, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def dot_words(typing_context: Any, rows: Any, places: Any, numbers: Any, count: Any) -> Any:
    """Return the products of the bytes from each of four places on with `numbers` of 16 bits.

    `count` is how many numbers count, a multiple of WORDS. Four rows share the reading of the numbers.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = address_of(context, builder, signature.args[2], arguments[2], _PLACE(0))
        kind = ir.FunctionType(_PAIR_VECTOR, [_WORD_VECTOR, _WORD_VECTOR])
        multiply = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pmadd.wd")
        zeros = ir.Constant(_PAIR_VECTOR, [0] * (WORDS // 2))
        sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(ROWS)]
        starts = [builder.extract_value(arguments[1], row) for row in range(ROWS)]
        addresses = [address_of(context, builder, signature.args[0], arguments[0], start) for start in starts]
        with cgutils.for_range(builder, builder.udiv(arguments[3], _PLACE(WORDS))) as loop:
            offset = builder.mul(loop.index, _PLACE(WORDS))
            other = loaded(builder, own, builder.mul(offset, _PLACE(2)), _WORD_VECTOR)
            for address, total in zip(addresses, sums, strict=True):
                wide = builder.sext(loaded(builder, address, offset), _WORD_VECTOR)
                builder.store(builder.add(builder.load(total), builder.call(multiply, [wide, other])), total)
        kind = ir.FunctionType(_NUMBER, [_PAIR_VECTOR])
        add_up = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.add.v8i32")
        found = [builder.call(add_up, [builder.load(total)]) for total in sums]
        return context.make_tuple(builder, signature.return_type, found)

    products, starts = types.UniTuple(types.int32, ROWS), types.UniTuple(types.intp, ROWS)
    return products(rows, starts, numbers, types.intp), generate


def address_of(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """Return the address of a byte of an array."""
    start = context.make_array(kind)(context, builder, array).data
    return builder.gep(builder.bitcast(start, _BYTE.as_pointer()), [offset])


def loaded(builder: Any, start: Any, offset: Any, kind: Any = _BYTE_VECTOR) -> Any:
    """Load a vector from anywhere."""
    vector = builder.load(builder.bitcast(builder.gep(start, [offset]), kind.as_pointer()))
    vector.align = 1
    return vector
