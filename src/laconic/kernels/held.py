"""Hold arrays for kernels that are called again and again with them, such as those of a model.

Numba finds the compiled variant of a kernel by the types of its arguments, and takes every array of every tuple apart.
For a search tree of a dozen arrays, that takes longer than many a kernel. What is held is one argument.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.experimental import structref

from laconic.kernels.jit import compiled


@structref.register
class HeldType(types.StructRef):  # type: ignore[misc,name-defined]  # numba has no types
    """The type of what is held, as kernels see it."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Let constants be values like others."""
        return tuple((name, types.unliteral(kind)) for name, kind in fields)  # type: ignore[attr-defined]


class Held(structref.StructRefProxy):  # type: ignore[misc]
    """A value that is held; kernels read it as `held.value`."""


structref.define_proxy(Held, HeldType, ["value"])


@compiled
def hold(value: tuple[Any, ...]) -> Held:
    """Hold a tuple of arrays, numbers and further tuples. The arrays are kept, not copied."""
    return Held(value)
