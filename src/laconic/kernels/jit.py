"""Compile loops with numba and our settings; `kernel.py_func` is the plain Python function.

All settings are those of each kernel: numba's own, which other code in the process goes by too, stay as they are.
"""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
from numba import types
from numba.core.codegen import get_host_cpu_features
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering

from laconic.kernels.cache import KernelCache

P = ParamSpec("P")
R = TypeVar("R")
# Division by 0 gives what numpy gives: a check before each division would keep loops from becoming vector instructions.
_ALWAYS = {"nogil": True, "error_model": "numpy"}
_WIDE = '"prefer-vector-width"="512"'  # an attribute of LLVM's functions
_OWNERS = (0, 1)  # where numba's arrays have the owners of their memory


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on the first call and keep the result on disk; kernels run without the GIL, so threads share the work."""
    # fastmath is explicit, or a kernel would inherit that of the first kernel that calls it.
    return _kernel(function, fastmath=False)


def compiled_in_any_order(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `compiled`, and let sums be added up in any order: loops over them become vector instructions."""
    return _kernel(function, fastmath={"reassoc", "contract"})  # infinities and NaN stay what they are


def has_fast_wide_vectors(features: str) -> bool:
    """Tell whether a processor, by its features, has vectors of 512 bits and stays as fast with them.

    LLVM keeps to 256 bits by default: an answer of the packed engine then takes about an eighth
    longer.
    """
    return "+avx512vbmi2" in features.split(",")


def _kernel(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    # Tests wrap every function of the package in checks; numba compiles only the function itself.
    kernel = numba.njit(**_ALWAYS, **options, pipeline_class=_compiler())(inspect.unwrap(function))
    kernel._cache = KernelCache(kernel.py_func)
    return kernel  # type: ignore[no-any-return]


def _compiler() -> type[CompilerBase]:
    """Return the compiler without wide vectors where the user has set the features to use (NUMBA_CPU_FEATURES)."""
    wide = numba.config.CPU_FEATURES is None and has_fast_wide_vectors(get_host_cpu_features())
    return WideVectors if wide else Borrowing


class Borrowing(CompilerBase):  # type: ignore[misc]  # numba has no types
    """Compile as numba does, but count no references to arguments.

    Numba counts references to every array of every tuple that is passed on, by atomic instructions: in kernels that
    call each other with tuples of arrays, that took a sixth of the time of a text.
    """

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(self._lowering() if one is NativeLowering else one, name) for one, name in passes.passes]
        passes.finalize()
        return [passes]

    def _lowering(self) -> type[BaseNativeLowering]:
        return _BorrowingLowering


class WideVectors(Borrowing):
    """Compile like `Borrowing`, and allow vectors of 512 bits in this one function."""

    def _lowering(self) -> type[BaseNativeLowering]:
        return _WideLowering


class _BorrowingLower(Lower):  # type: ignore[misc]
    """Takes arguments without their owners: whoever calls keeps the arrays until the kernel returns.

    A kernel that returns an array might return one of its arguments, so it counts references as numba does.
    """

    def extract_function_arguments(self) -> list[Any]:
        given = super().extract_function_arguments()
        if _is_plain(self.fndesc.restype):
            self.fnargs = [self._borrowed(kind, one) for kind, one in zip(self.fndesc.argtypes, given, strict=True)]
        return self.fnargs

    def _borrowed(self, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            for owner in _OWNERS:
                none = value.type.elements[owner](None)
                value = self.builder.insert_value(value, none, owner)
        elif isinstance(kind, types.BaseTuple):
            for place, inner in enumerate(kind.types):
                own = self._borrowed(inner, self.builder.extract_value(value, place))
                value = self.builder.insert_value(value, own, place)
        return value


class _WideLower(_BorrowingLower):
    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        set.add(self.function.attributes, _WIDE)  # its own `add` knows no attributes that are written in quotes


@register_pass(mutates_CFG=True, analysis_only=False)
class _BorrowingLowering(BaseNativeLowering):  # type: ignore[misc]
    _name = "laconic_borrowing_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _BorrowingLower


@register_pass(mutates_CFG=True, analysis_only=False)
class _WideLowering(BaseNativeLowering):  # type: ignore[misc]
    _name = "laconic_wide_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _WideLower


def _is_plain(kind: Any) -> bool:
    """Return whether values of a type are numbers, or tuples of them."""
    if isinstance(kind, types.BaseTuple):
        return all(map(_is_plain, kind.types))
    return isinstance(kind, types.Number | types.Boolean | types.NoneType)
