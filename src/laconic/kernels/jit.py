"""Compile loops with numba and our settings; `kernel.py_func` is the plain Python function.

All settings are those of each kernel: numba's own, which other code in the process goes by too, stay as they are.
"""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core.codegen import get_host_cpu_features
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering

from laconic.kernels.cache import KernelCache

P = ParamSpec("P")
R = TypeVar("R")
# Division by 0 gives what numpy gives: a check before each division would keep loops from becoming vector instructions.
_ALWAYS = {"nogil": True, "error_model": "numpy"}
_WIDE = '"prefer-vector-width"="512"'  # an attribute of LLVM's functions


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
    """Return numba's own compiler where the user has set the features to use (NUMBA_CPU_FEATURES)."""
    wide = numba.config.CPU_FEATURES is None and has_fast_wide_vectors(get_host_cpu_features())
    return WideVectors if wide else Compiler


class WideVectors(CompilerBase):  # type: ignore[misc]  # numba has no types
    """Compile as numba does, but allow vectors of 512 bits in this one function."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_WideLowering if one is NativeLowering else one, name) for one, name in passes.passes]
        passes.finalize()
        return [passes]


class _WideLower(Lower):  # type: ignore[misc]
    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        set.add(self.function.attributes, _WIDE)  # its own `add` knows no attributes that are written in quotes


@register_pass(mutates_CFG=True, analysis_only=False)
class _WideLowering(BaseNativeLowering):  # type: ignore[misc]
    _name = "laconic_wide_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _WideLower
