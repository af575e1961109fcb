"""numba's compiler with our settings. A kernel is a plain function that also runs, slowly, as `kernel.py_func`."""

import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba
from numba.core.codegen import get_host_cpu_features

P = ParamSpec("P")
R = TypeVar("R")
# Division by 0 gives what numpy gives: a check before each division would keep loops from becoming vector instructions.
_ALWAYS = {"cache": True, "nogil": True, "error_model": "numpy"}


def wide_vectors(features: str) -> str:
    """A processor's features, by which loops use vectors of 512 bits where it has them and stays as fast with them.

    LLVM keeps to 256 bits unless it is told: an answer of the packed engine then takes about an eighth longer.
    """
    return f"{features},-prefer-256-bit" if "+avx512vbmi2" in features.split(",") else features


if numba.config.CPU_FEATURES is None:  # else NUMBA_CPU_FEATURES has said it
    numba.config.CPU_FEATURES = wide_vectors(get_host_cpu_features())


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiled on its first call and cached on disk; it runs outside Python's lock, so threads may share the work."""
    # Tests wrap every function of the package in checks; numba compiles only the function itself.
    # fastmath is said, or a kernel would take over that of the first kernel that calls it.
    return numba.njit(**_ALWAYS, fastmath=False)(inspect.unwrap(function))  # type: ignore[no-any-return]


def compiled_in_any_order(function: Callable[P, R]) -> Callable[P, R]:
    """The same, and sums may be added up in any order: loops over them become vector instructions."""
    options = {"reassoc", "contract"}  # infinities and NaN stay what they are
    return numba.njit(**_ALWAYS, fastmath=options)(inspect.unwrap(function))  # type: ignore[no-any-return]
