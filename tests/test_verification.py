"""Content of files: every changed byte is found when a folder is opened, and what was verified is not read again."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from laconic.errors import ModelError
from laconic.storage import verification
from laconic.storage.manifest import MANIFEST, check_hashes, check_manifest, write_manifest
from laconic.storage.verification import contents_of
from laconic.system.cache_folder import cache_folder

KIND = "list"  # of folders: any files are right for it
OLD = 1_000_000_000  # a time long ago, in seconds


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(verification, "_RACE", 0)  # files of these tests were all written a moment ago
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "words.txt").write_bytes(b"red rose\n" * 100)
    (made / "empty.txt").touch()
    write_manifest(made, format=1, kind=KIND)
    return made


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    read: list[Path] = []
    original = verification._crc32
    monkeypatch.setattr(verification, "_crc32", lambda path, number: (read.append(path), original(path, number))[1])
    return read


def test_the_crc_of_each_chunk_is_zlib_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_CHUNK", 1000)
    monkeypatch.setattr(verification, "_BUFFER", 300)
    content = os.urandom(2500)
    (tmp_path / "file").write_bytes(content)
    (found,) = contents_of([tmp_path / "file"])
    assert found.crc32 == tuple(zlib.crc32(content[start : start + 1000]) for start in (0, 1000, 2000))


def test_every_byte_of_a_folder_is_checked(folder: Path) -> None:
    check_manifest(folder, kind=KIND)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for place in range(len(whole)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
            with pytest.raises(ModelError):
                check_manifest(folder, kind=KIND)
        path.write_bytes(whole)
        check_manifest(folder, kind=KIND)


def test_what_was_verified_is_read_again_only_after_a_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = count_reads(monkeypatch)
    check_manifest(folder, kind=KIND)
    assert read == [folder / "words.txt"]
    check_manifest(folder, kind=KIND)
    assert len(read) == 1
    (folder / "words.txt").write_bytes((folder / "words.txt").read_bytes())  # the same content, at another time
    check_manifest(folder, kind=KIND)
    assert len(read) == 2
    changed = b"x" + (folder / "words.txt").read_bytes()[1:]
    (folder / "words.txt").write_bytes(changed)
    os.utime(folder / "words.txt", (OLD, OLD))
    with pytest.raises(ModelError, match=r"words\.txt: its content is not what was written \(a hash differs\)"):
        check_manifest(folder, kind=KIND)
    check_manifest(folder, verify=False, kind=KIND)  # sizes alone


def test_a_folder_that_was_moved_or_copied_is_verified_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_manifest(folder, kind=KIND)
    read = count_reads(monkeypatch)
    check_manifest(folder.rename(folder.with_name("other")), kind=KIND)
    assert len(read) == 1


def test_files_that_were_just_written_are_not_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_RACE", 3600 * 10**9)
    read = count_reads(monkeypatch)
    check_manifest(folder, kind=KIND)
    check_manifest(folder, kind=KIND)
    assert len(read) == 2


def test_hashes_are_checked_whatever_is_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_hashes(folder, kind=KIND)
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["crc32 of what follows"]
    manifest["files"]["words.txt"]["sha256"] = "0" * 64
    (folder / MANIFEST).write_text(json.dumps(manifest))
    check_manifest(folder, kind=KIND)  # CRC-32 is right
    with pytest.raises(ModelError, match="a hash differs"):
        check_hashes(folder, kind=KIND)


def test_folders_of_earlier_versions_are_verified_by_sha256(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    files = {name: {key: entry[key] for key in ("bytes", "sha256")} for name, entry in manifest["files"].items()}
    (folder / MANIFEST).write_text(json.dumps({"kind": KIND, "format": 1, "files": files}))
    check_manifest(folder, kind=KIND)
    (folder / "words.txt").write_bytes(b"x" + (folder / "words.txt").read_bytes()[1:])
    with pytest.raises(ModelError, match="a hash differs"):
        check_manifest(folder, kind=KIND)


@pytest.mark.parametrize("crc", [[], ["00000000"] * 2, "00", [3], ["x"], None])
def test_hashes_that_do_not_fit_are_refused(folder: Path, crc: object) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["crc32 of what follows"]
    manifest["files"]["words.txt"]["crc32"] = crc
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=r"a hash differs|hashes of it cannot be read"):
        check_manifest(folder, kind=KIND)


def test_a_damaged_memory_is_as_good_as_none(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_manifest(folder, kind=KIND)
    (entry,) = (cache / "laconic" / "verified").iterdir()
    entry.write_bytes(b"\xff{")
    read = count_reads(monkeypatch)
    check_manifest(folder, kind=KIND)
    assert len(read) == 1


def test_without_a_cache_every_opening_verifies(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache_folder("verified") is None
    read = count_reads(monkeypatch)
    check_manifest(folder, kind=KIND)
    check_manifest(folder, kind=KIND)
    assert len(read) == 2


def test_the_cache_is_private(cache: Path) -> None:
    made = cache_folder("verified")
    assert made == cache / "laconic" / "verified"
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o777)
    assert cache_folder("verified") is None


def test_only_so_many_folders_are_remembered(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_MOST_REMEMBERED", 4)
    for name in "abcdefgh":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        write_manifest(tmp_path / name, format=1, kind=KIND)
        check_manifest(tmp_path / name, kind=KIND)
    assert 1 <= len(list((cache / "laconic" / "verified").iterdir())) <= 4
