"""Every annotation of the package is checked at run time while tests run: types by beartype, shapes by jaxtyping."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

settings.register_profile("laconic", deadline=None)  # a kernel's first call compiles it
settings.load_profile("laconic")

if find_spec("beartype"):  # a machine with a GPU may do without it
    install_import_hook("laconic", "beartype.beartype")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all examples of a test, because hypothesis wants no fresh one for each."""
    return tmp_path_factory.mktemp("files")
