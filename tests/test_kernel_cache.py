"""Compiled kernels are kept where only the user can write; where they cannot be kept, commands work all the same."""

from __future__ import annotations

import importlib.util
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laconic.kernels import cache

_SOURCE = "from laconic.kernels.jit import compiled\n\n@compiled\ndef doubled(number):\n    return 2 * number\n"
Kernel = Callable[[], Any]  # a kernel as a new process has it


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    source = tmp_path / "package" / "kernels.py"
    source.parent.mkdir()
    source.write_text(_SOURCE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "chosen"))
    forget_sources()
    cache._warn_once.cache_clear()

    def loaded() -> Any:
        spec = importlib.util.spec_from_file_location("kernels", source)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.doubled

    return loaded


def forget_sources() -> None:
    cache._hash_with_imports.cache_clear()
    cache._source_of.cache_clear()


def was_kept(kernel: Any) -> bool:
    assert kernel(21) == 42
    return sum(kernel.stats.cache_hits.values()) == 1


def folders(tmp_path: Path) -> list[Path]:
    return cache.cache_folders(tmp_path / "package" / "kernels.py")


def test_a_kernel_is_kept_in_a_private_folder(kernel: Kernel, tmp_path: Path) -> None:
    assert not was_kept(kernel())
    assert was_kept(kernel())
    assert stat.S_IMODE(folders(tmp_path)[0].stat().st_mode) == 0o700
    assert folders(tmp_path)[0].parent == tmp_path / "chosen"


def test_a_kernel_is_compiled_anew_when_a_file_changes_that_it_is_compiled_with(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "laconic"
    package.mkdir(parents=True)
    (package / "near.py").write_text("from laconic.far import one\nfrom laconic.near import itself\n")
    (package / "far.py").write_text("one = 1\n")
    (package / "other.py").write_text("one = 1\n")
    monkeypatch.setattr(cache, "_ROOT", package.parent)
    source = tmp_path / "package" / "kernels.py"
    source.write_text(f'"""\nfrom laconic.near import one\n"""\n{_SOURCE}')
    assert not was_kept(kernel())
    assert was_kept(kernel())
    for name, is_kept in (("other", True), ("far", False), ("near", False)):
        with (package / f"{name}.py").open("a") as file:
            file.write("# changed\n")
        forget_sources()
        assert was_kept(kernel()) == is_kept
        assert was_kept(kernel())


@pytest.mark.parametrize("blocked", range(1, 4))
def test_a_folder_that_cannot_be_written_is_done_without(kernel: Kernel, tmp_path: Path, blocked: int) -> None:
    for folder in folders(tmp_path)[:blocked]:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("not a folder")
    assert not was_kept(kernel())
    assert was_kept(kernel())
    assert list(folders(tmp_path)[blocked].glob("*.kernel"))


def test_without_any_folder_kernels_are_compiled_in_every_process(
    kernel: Kernel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for folder in folders(tmp_path):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("not a folder")
    with caplog.at_level(logging.WARNING):
        assert [was_kept(kernel()) for _ in "123"] == [False] * 3
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "compiled kernels cannot be kept (File exists)"
    ]


def test_kernels_of_an_image_are_read_though_its_folder_cannot_be_written(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    assert not was_kept(kernel())

    def refused(*_: Any) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr(cache, "_write", refused)
    later = kernel()
    assert was_kept(later)
    assert later(0.5) == 1.0  # compiled, and not kept


def test_a_full_disk_leaves_nothing_half_written(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __init__(self, *_: Any) -> None: ...
        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: Any) -> None: ...
        def write(self, _: bytes) -> None:
            raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr("laconic.kernels.cache.os.fdopen", Full)
        assert not was_kept(kernel())
    assert not [path for folder in folders(tmp_path) for path in folder.glob("*") if folder.is_dir()]
    assert not was_kept(kernel())
    assert was_kept(kernel())


@pytest.mark.parametrize("ending", [".index", ".kernel"])
@pytest.mark.parametrize("damage", ["flipped", "empty", "cut off", "removed"])
def test_a_damaged_file_is_replaced(kernel: Kernel, tmp_path: Path, ending: str, damage: str) -> None:
    kernel()(21)
    (file,) = folders(tmp_path)[0].glob(f"*{ending}")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    damaged = {"flipped": bytes(content), "empty": b"", "cut off": file.read_bytes()[:-9]}
    file.write_bytes(damaged[damage]) if damage in damaged else file.unlink()
    assert not was_kept(kernel())
    assert was_kept(kernel())
    assert len(list(folders(tmp_path)[0].iterdir())) == 2


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_neither_read_nor_written(kernel: Kernel, tmp_path: Path, mode: int) -> None:
    kernel()(21)
    chosen = folders(tmp_path)[0]
    before = {path: path.stat().st_mtime_ns for path in chosen.iterdir()}
    chosen.chmod(mode)
    assert not was_kept(kernel())
    assert {path: path.stat().st_mtime_ns for path in chosen.iterdir()} == before
    assert was_kept(kernel())  # beside the source


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_read(kernel: Kernel, tmp_path: Path) -> None:
    kernel()(21)
    os.chown(folders(tmp_path)[0], 12345, -1)
    assert not was_kept(kernel())


def test_another_version_of_the_package_compiles_anew(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel()(21)
    monkeypatch.setattr("laconic.__version__", "0.0.1")
    assert not was_kept(kernel())
    assert was_kept(kernel())


def test_variants_are_kept_beside_each_other(kernel: Kernel, tmp_path: Path) -> None:
    one, other = kernel(), kernel()
    assert (one(21), other(np.arange(3)).tolist()) == (42, [0, 2, 4])
    assert was_kept(kernel())
    assert len(list(folders(tmp_path)[0].glob("*.kernel"))) == 2


def test_a_mark_is_found_by_its_name_and_by_the_same_version_alone(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not cache.is_marked("one")
    cache.mark("one")
    assert cache.is_marked("one")
    assert not cache.is_marked("other")
    monkeypatch.setattr("laconic.__version__", "0.0.1")
    assert not cache.is_marked("one")
    (chosen,) = (tmp_path / "chosen").iterdir()
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o700


def test_a_mark_where_others_can_write_is_not_trusted(kernel: Kernel, tmp_path: Path) -> None:
    cache.mark("one")
    (chosen,) = (tmp_path / "chosen").iterdir()
    chosen.chmod(0o777)
    assert not cache.is_marked("one")


def test_a_mark_that_cannot_be_written_is_done_without(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr(cache, "_write", refused)
    cache.mark("one")
    assert not cache.is_marked("one")
