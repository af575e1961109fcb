"""Ask the processor for memory before it is read: what lies far apart in large arrays takes long to arrive."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.cgutils import ir
from numba.extending import intrinsic

_BYTE, _NUMBER = ir.IntType(8), ir.IntType(32)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Prefetch the memory at a byte offset of an array; an offset outside it does no harm."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.gep(builder.bitcast(start, _BYTE.as_pointer()), [arguments[1]])
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _NUMBER, _NUMBER, _NUMBER])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, _NUMBER(0), _NUMBER(2), _NUMBER(1)])  # to read, into the second cache
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
