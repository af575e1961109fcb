"""Manifests of folders: manifest.json has the size and the hashes of every file, and a checksum of itself."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from laconic.errors import ModelError, UserError
from laconic.storage.json_files import parse_json, read_json
from laconic.storage.verification import Content, contents_of, damaged_file, first_damaged
from laconic.system.files import restore, set_aside
from laconic.units import counted

MANIFEST = "manifest.json"
MODEL, PACKED_MODEL = "model", "packed model"  # kinds of folders
PACKED = "packed"  # where a model's folder has its packed model
# Files that a whole folder of each kind has.
_REQUIRED = {
    MODEL: ("model.json", "labels.txt"),
    PACKED_MODEL: ("packed.json", "arrays.safetensors", "labels.utf8"),
}
_WITHOUT_TORCH = (
    "it predicts, but lacks the torch weights that this takes: pass the model folder that it was packed from or, if "
    "training kept the packed model alone, train again without --no-keep-torch"
)
_CHECKSUM = "crc32 of what follows"
_KIND = "kind"  # folders from before there were several kinds say nothing: they are models


class _UnreadableError(ModelError):
    """A file exists, but the system does not let us read it."""


def write_manifest(folder: Path, *, format: int, kind: str = MODEL) -> None:
    """List all files that the folder has."""
    paths = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != MANIFEST]
    files = {
        path.name: {
            "bytes": path.stat().st_size,
            "sha256": content.sha256,
            "crc32": [f"{crc:08x}" for crc in content.crc32 or ()],
        }
        for path, content in zip(paths, contents_of(paths), strict=True)
    }
    text = json.dumps({_KIND: kind, "format": format, "files": files}, indent=2, ensure_ascii=False) + "\n"
    rest = text.removeprefix("{").encode()
    (folder / MANIFEST).write_bytes(_checksum(rest) + rest)


def check_manifest(folder: Path, *, verify: bool = True, kind: str = MODEL) -> None:
    """Check that every file has its recorded size and, with `verify`, its content; a second time is instant."""
    contents = _listed(folder, kind)
    with _reading(folder):
        damaged = damaged_file(folder, MANIFEST, contents) if verify else None
    if damaged is not None:
        raise _damaged(folder / damaged)


def check_hashes(folder: Path, *, kind: str = MODEL) -> None:
    """Check every hash of every file, whatever was verified before."""
    with _reading(folder):
        damaged = first_damaged({folder / name: one for name, one in _listed(folder, kind).items()}, thorough=True)
    if damaged is not None:
        raise _damaged(damaged)


def _damaged(path: Path) -> ModelError:
    return ModelError(f"{path}: its content is not what was written (a hash differs); copy the model again")


def _listed(folder: Path, kind: str) -> dict[str, Content]:
    """Return what the manifest says of all files, which are there in their sizes."""
    with _reading(folder):
        _restore(folder)
        if not folder.is_dir():
            aside = f"; a killed writer left it as {set_aside(folder)}" if set_aside(folder).exists() else ""
            raise ModelError(f"{folder}: there is no such model folder{aside}")
        if not (folder / MANIFEST).exists():
            raise ModelError(f"{folder}: this is not a model folder: it has no {MANIFEST}")
    manifest = json_object(folder / MANIFEST)
    with _reading(folder / MANIFEST):
        written = (folder / MANIFEST).read_bytes()
    contents = {}
    for name, entry in _files(manifest, written, str(folder), (kind,)).items():
        with _reading(path := folder / Path(name).name):
            contents[path.name] = _content(path, entry)
    return contents


def files_of(folder: Path) -> list[str]:
    """Return the names of a model's files, those of its packed model among them; a run that was kept is left out."""
    kind = kind_of(folder) or MODEL  # what is no model at all is refused as one
    names = [MANIFEST, *_listed(folder, kind)]
    if kind == MODEL and kind_of(folder / PACKED):
        names += [f"{PACKED}/{name}" for name in (MANIFEST, *_listed(folder / PACKED, PACKED_MODEL))]
    return names


class Listing(NamedTuple):
    """What a manifest says of a folder."""

    kind: str
    sizes: Mapping[str, int]  # of its files, in bytes
    contents: Mapping[str, Content]


def listing_of(written: bytes, where: str, *, kinds: Collection[str] = (MODEL, PACKED_MODEL)) -> Listing:
    """Return what a manifest from elsewhere says, as it was written; its folder is one of `kinds`, or it is refused.

    Names that are no plain names of files, which might lie outside the folder, are refused as well.
    """
    path = f"{where}/{MANIFEST}"
    manifest = parse_json(written, lambda what: ModelError(f"{path}: {what}; copy the model again"))
    files = _files(manifest, written, where, kinds)
    for name, entry in files.items():
        size = entry.get("bytes") if isinstance(entry, dict) else None
        if not _is_plain(name) or not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise ModelError(f"{path}: {name!r} of {size!r} bytes is no file of a model; do not trust where it is from")
    contents = {name: _hashes(f"{where}/{name}", entry) for name, entry in files.items()}
    return Listing(str(manifest.get(_KIND, MODEL)), {name: entry["bytes"] for name, entry in files.items()}, contents)


def _is_plain(name: str) -> bool:
    """Return whether this is the name of a file of a model, which lies in its folder."""
    return name not in ("", ".", "..", MANIFEST, PACKED) and not {*name} & {"/", "\\", "\0"}


def _files(manifest: Mapping[str, Any], written: bytes, where: str, kinds: Collection[str]) -> dict[str, Any]:
    """Return the entries of a manifest that is intact itself, of one of these kinds, and lists what that kind has."""
    _check_itself(f"{where}/{MANIFEST}", manifest, written)
    found = manifest.get(_KIND, MODEL)
    if found not in kinds:
        needed = " or ".join(repr(kind) for kind in kinds)
        remedy = f"; {_WITHOUT_TORCH}" if found == PACKED_MODEL else ""
        raise ModelError(
            f"{where}: a folder of kind {needed} is needed here, but this one is of kind {found!r}{remedy}"
        )
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise ModelError(f"{where}/{MANIFEST}: it does not list the model's files")
    if missing := [name for name in _REQUIRED.get(found, ()) if name not in files]:
        raise ModelError(
            f"{where}/{MANIFEST}: it does not list {missing[0]}, which every {found} has; copy the model again"
        )
    return files


def _checksum(rest: bytes) -> bytes:
    """Return how a manifest begins: with the CRC-32 of all that follows."""
    return f'{{\n  "{_CHECKSUM}": "{zlib.crc32(rest):08x}",'.encode()


def _check_itself(path: str, manifest: Mapping[str, Any], written: bytes) -> None:
    """Refuse a manifest that is damaged itself; those of earlier versions have no checksum."""
    unknown = manifest.keys() - {_KIND, "format", "files", _CHECKSUM}
    rest = written[len(_checksum(b"")) :]
    if unknown or (_CHECKSUM in manifest and written != _checksum(rest) + rest):
        raise ModelError(f"{path}: its content is not what was written; copy the model again")


def _content(path: Path, entry: Any) -> Content:
    """Return what the manifest says of a file that is there in its size."""
    if not isinstance(entry, dict) or not path.is_file():
        raise ModelError(f"{path}: the manifest lists this file, but it is not there; copy the model again")
    size, expected = path.stat().st_size, entry.get("bytes")
    if size != expected:
        raise ModelError(f"{path}: {counted(size, 'byte')}, but the manifest says {expected!r}; copy the model again")
    return _hashes(str(path), entry)


def _hashes(path: str, entry: Mapping[str, Any]) -> Content:
    """Return the hashes of a file that its entry in the manifest has."""
    try:
        crc32 = tuple(int(crc, 16) for crc in entry["crc32"]) if "crc32" in entry else None
        return Content(str(entry["sha256"]), crc32)
    except (KeyError, TypeError, ValueError):
        raise ModelError(f"{path}: the manifest's hashes of it cannot be read; copy the model again") from None


def check_replaceable(
    folder: Path, *, kind: str = MODEL, also: Collection[str] = (), besides: Collection[str] = ()
) -> None:
    """Refuse to replace a folder that is of another kind or holds files besides ours and those named.

    `also` are other kinds of folders that may be replaced.
    """
    _restore(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder}: this is a file; choose another name for the model folder")
    with _reading(folder):
        foreign = {path.name for path in folder.iterdir()} - _own_files(folder, (kind, *also)) - {*besides}
    if foreign:
        raise UserError(
            f"{folder}: it holds {sorted(foreign)[0]!r}, which is not of a {kind} and would be lost; choose another "
            "name"
        )


def _own_files(folder: Path, kinds: Collection[str]) -> set[str]:
    """Return the files that we wrote into a folder, by its manifest; empty if that is not ours."""
    try:
        manifest = json_object(folder / MANIFEST)
    except _UnreadableError:
        raise
    except ModelError:
        return set()
    match manifest:
        case {"format": int(), "files": dict(files)} if manifest.get(_KIND, MODEL) in kinds:
            return {MANIFEST, *files}
    return set()


def kind_of(folder: Path) -> str:
    """Return a folder's kind by its manifest; empty: not one of ours."""
    with _reading(folder):
        _restore(folder)
        if not (folder / MANIFEST).is_file():
            return ""
    return str(json_object(folder / MANIFEST).get(_KIND, MODEL))


def _restore(folder: Path) -> None:
    """Restore a folder that a killed writer had set aside, where permitted."""
    with suppress(OSError):
        restore(folder)


def version_of(folder: Path) -> str:
    """Return a short identifier of exactly these files."""
    with _reading(folder / MANIFEST):
        return version_by((folder / MANIFEST).read_bytes())


def version_by(manifest: bytes) -> str:
    """Return the version of the model that has this manifest."""
    return hashlib.sha256(manifest).hexdigest()[:12]


def json_object(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file of a model."""
    with _reading(path):
        return read_json(path, lambda what: ModelError(f"{path}: {what}; copy the model again"))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the system's errors of reading into errors for people."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise _UnreadableError(
            f"{where}: cannot be read ({error.strerror}); check its permissions, or copy the model again"
        ) from None
