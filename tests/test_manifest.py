"""Folders that know their own files."""

import json

import pytest

from laconic.errors import ModelError, UserError
from laconic.storage.manifest import MANIFEST, check_manifest, check_replaceable, kind_of, version_of, write_manifest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "words").write_text("red")
    write_manifest(tmp_path / "own", format=1, kind="list")
    return tmp_path / "own"


def test_a_folder_is_of_its_kind_and_whole(folder):
    check_manifest(folder, verify=True, kind="list")
    check_replaceable(folder, kind="list")
    assert (kind_of(folder), kind_of(folder.parent)) == ("list", "")


@pytest.mark.parametrize(
    ("kind", "names"),
    [("model", ["model.json", "labels.txt"]), ("packed model", ["packed.json", "arrays.safetensors", "labels.utf8"])],
)
def test_a_manifest_lists_what_every_folder_of_its_kind_has(tmp_path, kind, names):
    for present in range(len(names) + 1):
        for name in names[:present]:
            (tmp_path / name).touch()
        write_manifest(tmp_path, format=1, kind=kind)
        if present == len(names):
            check_manifest(tmp_path, verify=True, kind=kind)
        else:
            with pytest.raises(ModelError, match=rf"it does not list {names[present]}, which every {kind} has"):
                check_manifest(tmp_path, verify=True, kind=kind)


def test_a_folder_that_says_nothing_of_its_kind_is_a_model(folder):
    for name in ("model.json", "labels.txt"):
        (folder / name).touch()
    write_manifest(folder, format=1, kind="list")
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(
        json.dumps({name: value for name, value in manifest.items() if name in ("format", "files")})
    )
    check_manifest(folder, verify=True)
    check_replaceable(folder)
    assert kind_of(folder) == "model"


def test_a_folder_of_another_kind_is_neither_opened_nor_replaced(folder):
    with pytest.raises(ModelError, match="a folder of kind 'model' is needed here, but this one is of kind 'list'"):
        check_manifest(folder, verify=False)
    with pytest.raises(UserError, match=r"it holds 'manifest\.json', which is not of a model and would be lost"):
        check_replaceable(folder)


def test_what_may_be_there_besides_is_named(folder):
    (folder / "run").mkdir()
    check_replaceable(folder, kind="list", besides=["run"])
    with pytest.raises(UserError, match="it holds 'run'"):
        check_replaceable(folder, kind="list")


def test_a_manifest_does_not_reach_out_of_its_folder(folder):
    (folder.parent / "secret").write_text("red")
    entry = json.loads((folder / MANIFEST).read_text())["files"]["words"]
    for name in ("../secret", "..", "/etc/hostname"):
        (folder / MANIFEST).write_text(json.dumps({"kind": "list", "files": {name: entry}}))
        with pytest.raises(ModelError, match="the manifest lists this file, but it is not there"):
            check_manifest(folder, verify=True, kind="list")


def test_a_version_is_that_of_the_content(folder):
    before = version_of(folder)
    write_manifest(folder, format=1, kind="list")
    assert version_of(folder) == before
    (folder / "words").write_text("tan")
    write_manifest(folder, format=1, kind="list")
    assert version_of(folder) != before


def aside(folder):
    """As a writer leaves it that is killed where two folders cannot be exchanged at once."""
    return folder.rename(folder.with_name(f".{folder.name}.set-aside"))


@pytest.mark.parametrize(
    "look",
    [
        lambda folder: check_manifest(folder, verify=True, kind="list"),
        kind_of,
        lambda folder: check_replaceable(folder, kind="list"),
    ],
)
def test_a_folder_that_a_killed_writer_had_set_aside_is_found_by_whoever_looks(folder, look):
    aside(folder)
    look(folder)
    assert kind_of(folder) == "list"
    assert [path.name for path in folder.parent.iterdir()] == ["own"]


def test_where_it_cannot_be_put_back_its_name_is_told(folder, monkeypatch):
    aside(folder)

    def refused(folder):
        raise PermissionError

    monkeypatch.setattr("laconic.storage.manifest.restore", refused)
    with pytest.raises(ModelError, match=r"no such model folder; a killed writer left it as .*\.own\.set-aside"):
        check_manifest(folder, verify=False)
