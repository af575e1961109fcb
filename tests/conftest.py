"""Every annotation of the package is checked at run time while tests run: types by beartype, shapes by jaxtyping."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

settings.register_profile("laconic", deadline=None)  # a kernel's first call compiles it
settings.load_profile("laconic")


def check_annotations() -> None:
    """numba compiles only the bare function, so kernels are freed of the checks that the hook puts around them."""
    install_import_hook("laconic", "beartype.beartype")
    module = import_module("laconic.compiled")
    compiled: Callable[..., Any] = module.compiled
    module.compiled = lambda function: compiled(inspect.unwrap(function))  # type: ignore[attr-defined]


if find_spec("beartype"):  # a machine with a GPU may do without it
    check_annotations()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all examples of a test, because hypothesis wants no fresh one for each."""
    return tmp_path_factory.mktemp("files")
