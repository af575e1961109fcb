"""Annotations are checked at run time while tests run: types by beartype, shapes by jaxtyping."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

from tests.variants import QUICK_EXAMPLES, THOROUGH

# Checks double the time of a small training: `make test-types` alone checks the whole package.
CHECKED = [f"laconic.{package}" for package in ("evaluation", "export", "packed", "predict", "update")]

# A kernel's first call compiles it, hence no deadline.
settings.register_profile("laconic", deadline=None, max_examples=100 if THOROUGH else QUICK_EXAMPLES)
settings.load_profile("laconic")

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported: kernels then run on the CPU, slowly

os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / "build" / "test-cache")
os.environ["COLUMNS"] = "160"  # or what the command line says is broken where a folder's name happens to be long
torch.set_num_threads(1)  # small products gain nothing from more, and with them sums are the same in every run

if find_spec("beartype"):  # a machine with a GPU may do without it
    install_import_hook("laconic" if os.environ.get("LACONIC_CHECKS") == "all" else CHECKED, "beartype.beartype")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all examples of a test, because hypothesis wants no fresh one for each."""
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="session", autouse=True)
def _compiled_before() -> Iterator[None]:
    """Choose the same for a budget on every machine, whether kernels are still to be compiled or not."""
    from laconic.methods import first_kernels

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_kernels, "is_marked", lambda name: True)
        patch.setattr(first_kernels, "mark", lambda name: None)
        yield


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter, or a GPU. The interpreter asks numpy for int(array of one), which newer versions refuse."""
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    original = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return MLflow with a store of its own."""
    found = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    before = found.get_tracking_uri()
    found.set_tracking_uri((tmp_path / "store").as_uri())
    yield found
    found.set_tracking_uri(before)
