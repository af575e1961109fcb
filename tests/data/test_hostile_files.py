"""Data files from strangers are read or refused in words; nothing else comes of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from laconic.data.sources import read
from laconic.data.streams import Reading, form_of, opened_stream
from laconic.errors import DataError, UserError
from tests.hostile import SOUND, hostile_files
from tests.variants import THOROUGH


def _read(name: str, content: bytes, folder: Path) -> None:
    path = folder / name
    path.write_bytes(content)
    beside = [folder / "trn_X.txt"] if name.startswith("trn") else []
    for other in beside:
        other.write_text("one\ntwo\n")
    try:
        with suppress(UserError):
            read(str(folder if beside else path))
        with suppress(UserError), opened_stream(path, Reading(form=form_of(path) or "lines"), _skipped) as stream:
            list(stream.entries)
    finally:
        for written in (path, *beside):
            written.unlink()


def _skipped(error: DataError) -> None:
    assert str(error)


def test_a_mutated_file_is_read_or_refused(tmp_path: Path) -> None:
    for file in hostile_files(2000 if THOROUGH else 80, seed=1):
        _read(file.name, file.content, tmp_path)


def test_the_same_seed_gives_the_same_files() -> None:
    assert list(hostile_files(20)) == list(hostile_files(20)) != list(hostile_files(20, seed=1))
    assert {file.name for file in hostile_files(200)} == set(SOUND)
