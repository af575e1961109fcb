"""A model folder in service: what is taken, what is refused, and that somebody answers all the while."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from laconic.errors import ModelError
from laconic.packed.folder import of_version, open_packed, write_packed
from laconic.predict.load import Speed
from laconic.predict.packed_predictor import PackedPredictor
from laconic.serve import version as module
from laconic.serve.model import Served
from laconic.serve.version import opened, packed_folder
from laconic.storage.manifest import PACKED_MODEL, version_of, write_manifest
from laconic.storage.model_folder import write_model
from tests.serve.small import TEXTS, in_process, packed, packed_features, rewrite, trained, write

SPEED = Speed(threads=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "model")


def changed(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    path = folder / "packed" / name
    rewrite(path, change(path.read_bytes()))


def flipped(content: bytes) -> bytes:
    return content[:-2] + bytes([content[-2] ^ 1]) + content[-1:]


def test_what_is_served_is_the_packed_model_of_the_folder(folder: Path) -> None:
    now = Served(folder, SPEED, trial=in_process).now
    assert (now.name, now.folder) == (version_of(folder / "packed"), folder / "packed")
    assert now.bytes == sum(path.stat().st_size for path in (folder / "packed").iterdir())
    assert now.packed_predictor.predict(TEXTS) == PackedPredictor(packed()).predict(TEXTS)


def test_a_packed_folder_is_served_by_itself(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "packed", tmp_path / "alone")
    assert (
        Served(tmp_path / "alone", SPEED, trial=in_process).now.name == Served(folder, SPEED, trial=in_process).now.name
    )


def test_dials_reach_the_model(folder: Path) -> None:
    assert Served(folder, Speed(threads=3)).now.packed_predictor.threads == 3


def test_a_folder_that_stays_as_it_is_has_not_changed(folder: Path) -> None:
    served, told = Served(folder, SPEED, trial=in_process), list[str]()
    assert not served.changed()
    assert not served.refresh(told.append)
    assert not told


def test_another_model_is_seen_and_takes_over_under_its_own_name(folder: Path) -> None:
    served, told = Served(folder, SPEED, trial=in_process), list[str]()
    old = served.now
    write(folder, neighbours=1)
    assert served.changed()
    assert served.refresh(told.append)
    assert (served.changed(), told) == (False, ["taken"])
    assert served.now.name == version_of(folder / "packed") != old.name
    assert served.now.packed_predictor.predict(TEXTS) == PackedPredictor(packed(1)).predict(TEXTS)
    assert old.packed_predictor.predict(TEXTS) == PackedPredictor(packed()).predict(TEXTS), (
        "who still has the old one may ask it"
    )


def test_a_link_that_names_another_release_is_followed_there_and_back(tmp_path: Path) -> None:
    releases = [write(tmp_path / name, neighbours) / "packed" for name, neighbours in (("first", 5), ("second", 1))]
    current = tmp_path / "current"
    current.symlink_to(releases[0])
    served = Served(current, SPEED, trial=in_process)
    for release in (releases[1], releases[0]):
        (tmp_path / "next").symlink_to(release)
        (tmp_path / "next").rename(current)
        assert served.changed()
        assert served.refresh()
        assert served.now.name == version_of(release)


def test_a_file_that_is_exchanged_inside_the_folder_is_seen(folder: Path) -> None:
    served = Served(folder, SPEED, trial=in_process)
    write_packed(of_version(packed(1), version_of(folder)), folder / "packed")
    assert served.changed()
    assert served.refresh()
    (folder / "packed" / "NOTES.md").write_text("a file that is none of the model's")
    assert served.changed()
    assert not served.refresh()


BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "a byte flipped": (lambda folder: changed(folder, "arrays.safetensors", flipped), "a hash differs"),
    "a name changed": (lambda folder: changed(folder, "labels.utf8", flipped), "a hash differs"),
    "cut": (lambda folder: changed(folder, "arrays.safetensors", lambda old: old[:-1]), "but the manifest says"),
    "a file missing": (lambda folder: (folder / "packed" / "labels.utf8").unlink(), "not there; copy the model again"),
    "no manifest": (lambda folder: (folder / "packed" / "manifest.json").unlink(), "this model was not packed"),
    "half a manifest": (lambda folder: changed(folder, "manifest.json", lambda old: old[:50]), "not JSON"),
    "no manifest of the model": (lambda folder: (folder / "manifest.json").unlink(), "it has no manifest.json"),
    "not packed": (lambda folder: shutil.rmtree(folder / "packed"), r"`laconic pack .*model` makes what can be served"),
    "of another model": (lambda folder: trained_again(folder), r"packed of another model; `laconic pack .*model`"),
    "gone": (lambda folder: shutil.rmtree(folder), "it has no manifest.json"),
    "a file": (lambda folder: file_instead(folder), "it has no manifest.json"),
    "of features": (lambda folder: features_instead(folder), "reads features, but a service is asked with texts"),
    "of another format": (lambda folder: of_format(folder, 99), "has format 99"),
}


def trained_again(folder: Path) -> None:
    """And what was packed before put back."""
    shutil.move(folder / "packed", folder.parent / "kept")
    write_model(trained(1), folder)
    shutil.move(folder.parent / "kept", folder / "packed")


def file_instead(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("not a folder")


def features_instead(folder: Path) -> None:
    write_packed(of_version(packed_features(), version_of(folder)), folder / "packed")


def of_format(folder: Path, number: int) -> None:
    """With a manifest that fits."""
    facts = json.loads((folder / "packed" / "packed.json").read_text())
    changed(folder, "packed.json", lambda old: json.dumps(facts | {"format": number}).encode())
    write_manifest(folder / "packed", format=1, kind=PACKED_MODEL)


@pytest.mark.parametrize(("spoil", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_served_is_refused_and_the_old_model_answers_until_a_good_one_comes(
    spoil: Callable[[Path], None], message: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served, told = Served(folder, SPEED, trial=in_process), list[str]()
    old, expected = served.now, served.now.packed_predictor.predict(TEXTS)
    spoil(folder)
    with pytest.raises(ModelError, match=message):
        opened(folder, SPEED, verify=True)
    assert served.changed()
    assert not served.refresh(told.append)
    assert (served.now, told) == (old, ["refused"])
    assert old.packed_predictor.predict(TEXTS) == expected
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "the model folder has changed, but the old model stays in service: " in caplog.text
    assert not served.changed(), "what was refused once is not opened again and again"
    if folder.is_file():
        folder.unlink()
    write(folder, neighbours=1)
    assert served.changed()
    assert served.refresh(told.append)
    assert told == ["refused", "taken"]


def test_a_copy_that_is_on_its_way_is_looked_at_again(folder: Path, tmp_path: Path) -> None:
    served = Served(folder, SPEED, trial=in_process)
    new = write(tmp_path / "new", neighbours=1)
    shutil.rmtree(folder)
    for path in sorted(filter(Path.is_file, new.rglob("*")), key=lambda path: (path.parent != new, path)):
        assert served.changed(), "this or the file before it"
        assert not served.refresh(), "the packed model is not whole before its last file"
        (folder / path.relative_to(new)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.relative_to(new))
    assert served.changed()
    assert served.refresh()
    assert served.now.name == version_of(new / "packed")


def test_a_folder_that_goes_away_while_it_is_opened_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served, told = Served(folder, SPEED, trial=in_process), list[str]()

    def vanish(folder: Path) -> None:
        raise FileNotFoundError(folder)

    monkeypatch.setattr(module, "version_of", vanish)
    assert not served.refresh(told.append)
    assert told == ["refused"]


def test_a_folder_that_is_exchanged_while_it_is_opened_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "open_packed", lambda path, verify: exchanged(folder, path))
    with pytest.raises(ModelError, match="it changed while it was opened"):
        opened(folder / "packed", SPEED, verify=True)


def exchanged(folder: Path, path: Path) -> object:
    before = open_packed(path)
    write(folder, neighbours=1)
    return before


def test_no_folder_and_no_model_are_told_apart_from_one_that_was_not_packed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere: this is not a model folder: it has no manifest\.json"):
        packed_folder(tmp_path / "nowhere")
    shutil.rmtree(folder / "packed")
    with pytest.raises(ModelError, match="this model was not packed; `laconic pack"):
        packed_folder(folder)


@pytest.mark.parametrize("error", [MemoryError(), ZeroDivisionError("division by zero"), RecursionError()])
def test_whatever_goes_wrong_while_a_model_is_opened_it_is_refused_and_logged(
    folder: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    served, told = Served(folder, SPEED, trial=in_process), list[str]()
    write(folder, neighbours=1)

    def fail(*arguments: object) -> str:
        raise error

    served._trial = fail
    assert not served.refresh(told.append)
    assert told == ["refused"]
    assert f"the old model stays in service: {error!r}" in caplog.text
    assert "Traceback" in caplog.text
