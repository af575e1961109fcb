"""Models are pushed and pulled whole or not at all, whatever a location has or does."""

from __future__ import annotations

import doctest
import json
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fsspec")

from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

import laconic
from laconic import Laconic
from laconic.cli.main import app
from laconic.errors import ModelError, UserError
from laconic.storage.manifest import MANIFEST, check_hashes, version_of
from laconic.storage.remote import RemoteError, pull, push, shown
from tests.serve.small import TEXTS, write

URL = "memory://models/one"


@pytest.fixture(autouse=True)
def _empty_memory():
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write(folder / "model")
    write(folder / "other", neighbours=3)
    return folder


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stored() -> dict[str, bytes]:
    """Return what the memory has at the address, by name."""
    found = {path.removeprefix("/models/one/"): file.getvalue() for path, file in MemoryFileSystem.store.items()}
    return {name: content for name, content in found.items() if not name.startswith("/")}


def put(name: str, content: bytes) -> None:
    with MemoryFileSystem().open(f"/models/one/{name}", "wb") as file:
        file.write(content)


def manifest_with(change: dict[str, Any], of: Path) -> bytes:
    """Return a manifest with other files and a right checksum, as somebody hostile would write it."""
    manifest = json.loads((of / MANIFEST).read_text())
    del manifest["crc32 of what follows"]
    manifest["files"] |= change
    rest = json.dumps(manifest, indent=2).removeprefix("{").encode()
    return f'{{\n  "crc32 of what follows": "{zlib.crc32(rest):08x}",'.encode() + rest


@pytest.mark.parametrize("scheme", ["memory://models/one", "file://{}/store/one", "{}/store/one"])
def test_a_model_comes_back_as_it_was(models: Path, tmp_path: Path, scheme: str) -> None:
    url = scheme.format(tmp_path)
    pushed = push(models / "model", url)
    pulled = pull(url, tmp_path / "copy")
    assert pushed == pulled
    assert pushed.version == version_of(models / "model")
    assert files_in(tmp_path / "copy") == files_in(models / "model")
    assert Laconic.load(tmp_path / "copy").predict(TEXTS[0]) == Laconic.load(models / "model").predict(TEXTS[0])
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_packed_model_alone_is_pushed_and_pulled(models: Path, tmp_path: Path) -> None:
    push(models / "model" / "packed", URL)
    pull(URL, tmp_path / "packed")
    assert files_in(tmp_path / "packed") == files_in(models / "model" / "packed")


def test_what_is_there_already_is_not_moved_again(models: Path, tmp_path: Path) -> None:
    moved: list[int] = []
    assert push(models / "model", URL).changed
    assert not push(models / "model", URL, watch=lambda done, of: moved.append(done)).changed
    assert pull(URL, tmp_path / "copy").changed
    assert not pull(URL, tmp_path / "copy", watch=lambda done, of: moved.append(done)).changed
    assert moved == []
    MemoryFileSystem().rm_file("/models/one/labels.txt")  # by somebody else
    assert push(models / "model", URL).changed


def test_a_damaged_copy_is_pulled_again(models: Path, tmp_path: Path) -> None:
    push(models / "model", URL)
    pull(URL, tmp_path / "copy")
    labels = tmp_path / "copy" / "labels.txt"
    labels.write_bytes(labels.read_bytes().swapcase())
    assert pull(URL, tmp_path / "copy").changed
    check_hashes(tmp_path / "copy")


def test_progress_ends_with_all_bytes(models: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    push(models / "model", URL, watch=lambda done, of: told.append((done, of)))
    assert told[-1][0] == told[-1][1] > 0
    told.clear()
    pull(URL, tmp_path / "copy", watch=lambda done, of: told.append((done, of)))
    assert told[-1][0] == told[-1][1] > 0
    assert told == sorted(told)


def test_another_model_is_replaced_only_by_force_and_leaves_nothing(models: Path, tmp_path: Path) -> None:
    push(models / "model", URL)
    put("notes.txt", b"not ours")
    before = stored()
    with pytest.raises(RemoteError, match=rf"another model is there \(version {version_of(models / 'model')}\)"):
        push(models / "other", URL)
    assert stored() == before
    lone = tmp_path / "lone"
    shutil.copytree(models / "other", lone, ignore=shutil.ignore_patterns("packed"))
    push(lone, URL, force=True)
    assert stored() == files_in(lone) | {"notes.txt": b"not ours"}
    pull(URL, tmp_path / "copy")
    assert files_in(tmp_path / "copy") == files_in(lone)


def test_a_push_that_stops_at_any_file_leaves_no_model_and_is_done_again(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, stop_at, real = 0, 0, MemoryFileSystem._open

    def failing(self: Any, path: str, mode: str = "rb", **more: Any) -> Any:
        nonlocal writes
        writes += mode == "wb"
        if mode == "wb" and writes == stop_at:
            raise ConnectionError("the cable was pulled")
        return real(self, path, mode, **more)

    monkeypatch.setattr(MemoryFileSystem, "_open", failing)
    push(models / "other", URL)
    for stop_at in range(1, push(models / "other", URL).files + 1):  # noqa: B007 - `failing` reads it
        push(models / "other", URL, force=True)
        writes = 0
        with pytest.raises(RemoteError, match="the cable was pulled"):
            push(models / "model", URL, force=True)
        assert MANIFEST not in stored()
        with pytest.raises(ModelError, match="no model is there, or it is being pushed"):
            pull(URL, tmp_path / "copy")
        writes = -1000
        push(models / "model", URL)
        assert stored() == files_in(models / "model")
        writes = -1000


@pytest.mark.parametrize("name", ["model.json", "packed/arrays.safetensors", "packed/manifest.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "longer", "gone"])
def test_a_damaged_model_is_refused_and_the_old_one_stays(models: Path, tmp_path: Path, name: str, damage: str) -> None:
    push(models / "model", URL)
    shutil.copytree(models / "other", tmp_path / "copy")
    content = stored()[name]
    if damage == "gone":
        MemoryFileSystem().rm_file(f"/models/one/{name}")
    else:
        half = len(content) // 2
        flipped = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
        put(name, {"cut": content[:-1], "flipped": flipped, "longer": content + b"."}[damage])
    if (name, damage) == ("packed/manifest.json", "gone"):  # a model that was not packed
        pull(URL, tmp_path / "copy")
        check_hashes(tmp_path / "copy")
        return
    with pytest.raises(UserError, match=r"memory://models/one"):
        pull(URL, tmp_path / "copy")
    assert files_in(tmp_path / "copy") == files_in(models / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "a/b", "..", ".", "", "packed", "manifest.json", "a\\b", "a\0"]
)
def test_names_that_lead_out_of_the_folder_are_refused(models: Path, tmp_path: Path, name: str) -> None:
    push(models / "model", URL)
    put(MANIFEST, manifest_with({name: {"bytes": 1, "sha256": "", "crc32": []}}, models / "model"))
    with pytest.raises(ModelError, match="is no file of a model"):
        pull(URL, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [-1, None, "1", 1.5, True, [], 10**30])
def test_sizes_that_are_none_and_those_beyond_the_disk_are_refused(models: Path, tmp_path: Path, size: Any) -> None:
    push(models / "model", URL)
    put(MANIFEST, manifest_with({"more": {"bytes": size, "sha256": "", "crc32": []}}, models / "model"))
    with pytest.raises(UserError, match="of the disk are free" if size == 10**30 else "is no file of a model"):
        pull(URL, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_without_end_is_not_read(models: Path, tmp_path: Path) -> None:
    put(MANIFEST, b" " * (16 * 2**20 + 1))
    with pytest.raises(ModelError, match=r"16\.8 MB are the most for such a file"):
        pull(URL, tmp_path / "copy")


def test_a_damaged_model_is_not_pushed(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "model", tmp_path / "bad")
    (tmp_path / "bad" / "packed" / "labels.utf8").write_bytes(b"x")
    with pytest.raises(ModelError, match=r"labels\.utf8"):
        push(tmp_path / "bad", URL)
    with pytest.raises(ModelError, match="there is no such model folder"):
        push(tmp_path / "nowhere", URL)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="this is not a model folder"):
        push(tmp_path / "empty", URL)
    assert stored() == {}


def test_a_model_that_changes_while_it_is_pushed_is_noticed(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "model", tmp_path / "changing")

    def change(done: int, of: int) -> None:
        path = tmp_path / "changing" / "packed" / "labels.utf8"
        path.write_bytes(path.read_bytes().swapcase())

    with pytest.raises(ModelError, match="it was changed while it was pushed"):
        push(tmp_path / "changing", URL, watch=change)
    assert MANIFEST not in stored()


def test_a_folder_with_other_things_is_not_replaced(models: Path, tmp_path: Path) -> None:
    push(models / "model", URL)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match=r"thesis\.txt"):
        pull(URL, tmp_path / "copy")
    assert (tmp_path / "copy" / "thesis.txt").exists()


def test_an_interrupted_pull_leaves_the_old_model(models: Path, tmp_path: Path) -> None:
    push(models / "model", URL)
    shutil.copytree(models / "other", tmp_path / "copy")

    def interrupt(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(URL, tmp_path / "copy", watch=interrupt)
    assert files_in(tmp_path / "copy") == files_in(models / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.parametrize("url", ["nosuch://place/model", "s3://bucket/model"])
def test_a_location_that_cannot_be_used_is_one_sentence(models: Path, url: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(RemoteError, match=r"this location cannot be used \(.*\); check its address"):
        push(models / "model", url)


def test_the_example_is_true() -> None:
    (example,) = [one for one in doctest.DocTestFinder().find(push, "push", globs={}) if one.examples]
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


def test_passwords_are_not_shown() -> None:
    assert shown("ftp://me:secret@host/model/") == "ftp://me:***@host/model"
    assert shown("abfs://container@account/model") == "abfs://container@account/model"


def test_the_verbs_tell_what_they_did(models: Path, tmp_path: Path) -> None:
    model, store, copy = models / "model", tmp_path / "store", tmp_path / "copy"
    version = version_of(model)
    pushed = CliRunner().invoke(app, ["push", str(model), str(store)])
    assert pushed.exit_code == 0, pushed.output
    assert pushed.output.startswith(f"{store}: pushed version {version}, ")
    pulled = CliRunner().invoke(app, ["pull", f"file://{store}", str(copy)])
    assert pulled.output.startswith(f"{copy}: pulled version {version}, ")
    again = CliRunner().invoke(app, ["pull", str(store), str(copy)])
    assert again.output.startswith(f"{copy}: is there already; version {version}, ")


def test_without_fsspec_the_command_to_type_is_named(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs fsspec, .* pip install '.\[remote\]'"):
        laconic.push(models / "model", URL)


@pytest.mark.slow
def test_pulling_needs_no_torch(models: Path, tmp_path: Path) -> None:
    push(models / "model", str(tmp_path / "store"))
    code = "import sys; sys.modules['torch'] = None; import laconic; laconic.pull(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "store"), str(tmp_path / "copy")], check=True)
    check_hashes(tmp_path / "copy")
