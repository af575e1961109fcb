"""Every annotation of the package is checked at run time while tests run: types by beartype, shapes by jaxtyping."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from jaxtyping import install_import_hook

import laconic.compiled


def _compiled_bare(function: Callable[..., Any], compiled: Callable[..., Any] = laconic.compiled.compiled) -> Any:
    """numba compiles only the function itself, so a kernel is freed of the checks that the hook has put around it."""
    return compiled(inspect.unwrap(function))


if find_spec("beartype"):  # the machine with the GPU does without it
    laconic.compiled.compiled = _compiled_bare
    install_import_hook("laconic", "beartype.beartype")
