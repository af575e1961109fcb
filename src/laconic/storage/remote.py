"""Push model folders to locations that fsspec reaches, such as buckets and shares, and pull them from there.

A location has the files of the model folder under their own names, so that other tools can copy them too. Its manifest
is removed before anything else changes there, and written last: what has none is no model. A kept run is not pushed.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from laconic.errors import ModelError, UserError, missing_package
from laconic.storage.json_files import LARGEST
from laconic.storage.manifest import (
    MANIFEST,
    MODEL,
    PACKED,
    PACKED_MODEL,
    Listing,
    check_hashes,
    check_manifest,
    check_replaceable,
    kind_of,
    listing_of,
    version_by,
)
from laconic.storage.verification import first_damaged
from laconic.system.files import left_behind, replacing
from laconic.system.locks import locked
from laconic.units import human_bytes

_CHUNK = 4 * 2**20  # bytes that are moved at a time

Watch = Callable[[int, int], None]  # is told the bytes that were moved, and those that there are


class RemoteError(UserError):
    """A location that cannot be reached, read or written."""


class Transfer(NamedTuple):
    """A model that was pushed or pulled."""

    version: str  # of the model: a short identifier of exactly these files
    files: int
    bytes: int
    changed: bool  # False: the same model was there already


def push(
    folder: Path | str, url: str, *, force: bool = False, watch: Watch = lambda done, of: None, **storage_options: Any
) -> Transfer:
    """Copy a model folder, with its packed model, to a location that fsspec reaches.

    Every file is verified as it is read, and the manifest is written last: a push that was interrupted leaves no model.

    Args:
        folder: A model folder, or a packed folder alone.
        url: Where to, such as "s3://bucket/name", "gs://...", "hf://owner/repository" or a path.
        force: Replace another model that is there; it is gone while the files are copied.
        watch: Called with the bytes that are copied so far, and those of all files.
        **storage_options: Options of fsspec for this location, such as `endpoint_url` for s3.

    Returns:
        The model's version, its files and bytes, and whether it was not there already.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from laconic import Laconic, pull, push
        >>> with TemporaryDirectory() as folder:
        ...     Laconic("nearest").fit(["red rose"], [["flower"]]).save(f"{folder}/model")
        ...     pushed = push(f"{folder}/model", "memory://models/flowers")
        ...     pulled = pull("memory://models/flowers", f"{folder}/copy")
        ...     pulled.version == pushed.version
        True
    """
    place, parts = _Place.at(url, storage_options), _parts_of(Path(folder))
    there = place.manifests()
    if there == {part.prefix: part.manifest for part in parts} and all(place.has(part) for part in parts):
        return _transfer(parts, changed=False)
    foreign = [at for at, manifest in there.items() if all((at, manifest) != part[:2] for part in parts)]
    if foreign and not force:
        raise RemoteError(
            f"{place}: another model is there (version {version_by(there[foreign[0]])}); --force (Python: force=True) "
            "replaces it, or choose another name"
        )
    place.clear(there, keep={f"{part.prefix}{name}" for part in parts for name in part.listing.sizes})
    moved = _Moved(watch, _bytes(parts))
    for part in parts:
        for name in part.listing.sizes:
            moved = place.upload(Path(folder), part, name, moved)
    for part in reversed(parts):  # the model's own is the last of all
        place.write(part.prefix + MANIFEST, part.manifest)
    return _transfer(parts, changed=True)


def pull(url: str, folder: Path | str, *, watch: Watch = lambda done, of: None, **storage_options: Any) -> Transfer:
    """Copy a model from a location that fsspec reaches into a model folder, in one step.

    Sizes and hashes of all files are checked before the model takes the place of an older one; a pull that fails or is
    interrupted leaves that as it was. Only pull from locations that you trust as much as the model.

    Args:
        url: Where from, such as "s3://bucket/name", "hf://owner/repository", "https://..." or a path.
        folder: The model folder to write. A model that is there is replaced; anything else is refused.
        watch: Called with the bytes that are copied so far, and those of all files.
        **storage_options: Options of fsspec for this location, such as `endpoint_url` for s3.

    Returns:
        The model's version, its files and bytes, and whether it was not there already.
    """
    place, folder = _Place.at(url, storage_options), Path(folder)
    parts = place.parts()
    kind = parts[0].listing.kind
    with locked(folder):
        if _is_here(folder, parts):
            return _transfer(parts, changed=False)
        _check_free(folder, kind)
        _check_space(folder, _bytes(parts))
        moved = _Moved(watch, _bytes(parts))
        with replacing(folder) as partial:
            for part in parts:
                moved = place.download(part, partial, moved)
    return _transfer(parts, changed=True)


def shown(url: str) -> str:
    """Return an address for messages, without a password that it may have."""
    return re.sub(r"//([^/@:]*):[^/@]*@", r"//\1:***@", url).rstrip("/")


class _Part(NamedTuple):
    """A folder of a model: the model's own, or its packed one."""

    prefix: str  # of its files' names
    manifest: bytes
    listing: Listing


class _Moved(NamedTuple):
    """Bytes that were moved, out of all."""

    watch: Watch
    all: int
    done: int = 0

    def by(self, number: int) -> _Moved:
        self.watch(self.done + number, self.all)
        return self._replace(done=self.done + number)


@dataclass(frozen=True)
class _Place:
    """A location that fsspec reaches; its errors are the user's to put right."""

    url: str  # as it may be shown
    files: Any  # fsspec's file system
    root: str

    @classmethod
    def at(cls, url: str, options: Mapping[str, Any]) -> _Place:
        try:
            from fsspec.core import url_to_fs
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(missing_package("push and pull", error) or str(error), name=error.name) from None
        with _reaching(shown(url)):
            files, root = url_to_fs(url, **options)
            files.invalidate_cache()  # what was listed earlier may have changed
        return cls(shown(url), files, root.rstrip("/"))

    def __str__(self) -> str:
        return self.url

    def manifests(self) -> dict[str, bytes]:
        """Return the manifests that are there, by the prefix of their folder."""
        found = {prefix: self._small(prefix + MANIFEST) for prefix in ("", f"{PACKED}/")}
        return {prefix: manifest for prefix, manifest in found.items() if manifest is not None}

    def parts(self) -> list[_Part]:
        """Return the folders of the model that is there."""
        there = self.manifests()
        if "" not in there:
            raise ModelError(
                f"{self}: no model is there, or it is being pushed: it has no {MANIFEST}; check the address, or wait"
            )
        own = _Part("", there[""], listing_of(there[""], str(self)))
        packed, prefix = there.get(f"{PACKED}/"), f"{PACKED}/"
        if packed is None or own.listing.kind != MODEL:
            return [own]
        return [own, _Part(prefix, packed, listing_of(packed, f"{self}/{PACKED}", kinds=(PACKED_MODEL,)))]

    def has(self, part: _Part) -> bool:
        """Return whether all files are there in their sizes."""
        for name, size in part.listing.sizes.items():
            with _reaching(self.url):
                try:
                    if self.files.info(self._path(part.prefix + name)).get("size") != size:
                        return False
                except FileNotFoundError:
                    return False
        return True

    def clear(self, manifests: Mapping[str, bytes], keep: set[str]) -> None:
        """Remove manifests and, but for those to keep, the files that they list; the model's own manifest first."""
        for prefix in manifests:
            self._remove(prefix + MANIFEST)
        for prefix, manifest in manifests.items():
            with suppress(ModelError):  # of a damaged manifest nothing is known
                for name in listing_of(manifest, str(self)).sizes:
                    if prefix + name not in keep:
                        self._remove(prefix + name)

    def upload(self, folder: Path, part: _Part, name: str, moved: _Moved) -> _Moved:
        """Copy a file there, and refuse one that is not what its manifest says."""
        path, digest = folder / part.prefix / name, hashlib.sha256()
        with path.open("rb") as source, self._writing(part.prefix + name) as target:
            while chunk := source.read(_CHUNK):
                with _reaching(self.url):
                    target.write(chunk)
                digest.update(chunk)
                moved = moved.by(len(chunk))
        if digest.hexdigest() != part.listing.contents[name].sha256:
            raise ModelError(f"{path}: it was changed while it was pushed; push the model again")
        return moved

    def download(self, part: _Part, folder: Path, moved: _Moved) -> _Moved:
        """Copy a folder of the model from there, and verify it."""
        here = folder / part.prefix
        here.mkdir(exist_ok=True)
        for name, size in part.listing.sizes.items():
            with (here / name).open("wb") as target:
                for chunk in self._chunks(part.prefix + name, size):
                    target.write(chunk)
                    moved = moved.by(len(chunk))
        damaged = first_damaged({here / name: one for name, one in part.listing.contents.items()}, thorough=True)
        if damaged is not None:
            raise ModelError(
                f"{self}/{part.prefix}{damaged.name}: its content is not what the manifest says (a hash differs); pull "
                "again, and if that does not help, push the model again"
            )
        (here / MANIFEST).write_bytes(part.manifest)
        return moved

    def write(self, name: str, content: bytes) -> None:
        with self._writing(name) as target, _reaching(self.url):
            target.write(content)

    def _chunks(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the content of a file; refuse one that has another size than the manifest says, without reading on."""
        left = size
        with self._opened(name) as source:
            while True:
                with _reaching(self.url):
                    chunk = source.read(min(_CHUNK, left + 1))
                left -= len(chunk)
                if left < 0 or (not chunk and left):
                    than = "more than" if left < 0 else "only"
                    found = size if left < 0 else size - left
                    raise ModelError(
                        f"{self}/{name}: {than} {found:,} bytes, but the manifest says {size:,}; pull again, and if "
                        "that does not help, push the model again"
                    )
                if not chunk:
                    return
                yield chunk

    def _small(self, name: str) -> bytes | None:
        """Return the content of a manifest; None if it is not there."""
        with _reaching(self.url):
            try:
                with self.files.open(self._path(name), "rb") as file:
                    content = bytes(file.read(LARGEST + 1))
            except FileNotFoundError:
                return None
        if len(content) > LARGEST:
            raise ModelError(f"{self}/{name}: {human_bytes(LARGEST)} are the most for such a file; it was not read")
        return content

    @contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        with _reaching(self.url):
            file = self.files.open(self._path(name), "rb")
        with file:
            yield file

    @contextmanager
    def _writing(self, name: str) -> Iterator[Any]:
        path = self._path(name)
        with _reaching(self.url):
            self.files.makedirs(path.rpartition("/")[0], exist_ok=True)
            file = self.files.open(path, "wb")
        try:
            yield file
        finally:
            with _reaching(self.url):  # many locations store a file when it is closed
                file.close()

    def _remove(self, name: str) -> None:
        with _reaching(self.url), suppress(FileNotFoundError):
            self.files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    """Turn errors of a location into errors for people."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # every kind of location has errors of its own
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise RemoteError(
            f"{url}: this location cannot be used ({told}); check its address, your access to it, and that the "
            "package of fsspec for it is installed"
        ) from error


def _parts_of(folder: Path) -> list[_Part]:
    """Return the folders of a model on this machine, after checking every hash."""
    kind = kind_of(folder) or MODEL  # what is no model at all is refused as one
    check_hashes(folder, kind=kind)
    parts = [_part("", folder, kind)]
    if kind == MODEL and kind_of(folder / PACKED):
        check_hashes(folder / PACKED, kind=PACKED_MODEL)
        parts.append(_part(f"{PACKED}/", folder / PACKED, PACKED_MODEL))
    return parts


def _part(prefix: str, folder: Path, kind: str) -> _Part:
    manifest = (folder / MANIFEST).read_bytes()
    return _Part(prefix, manifest, listing_of(manifest, str(folder), kinds=(kind,)))


def _is_here(folder: Path, parts: list[_Part]) -> bool:
    """Return whether a folder is exactly this model, and whole."""
    try:
        for part in parts:
            if (folder / part.prefix / MANIFEST).read_bytes() != part.manifest:
                return False
            check_manifest(folder / part.prefix, kind=part.listing.kind)
    except (ModelError, OSError):
        return False
    return len(parts) > 1 or not (folder / PACKED).exists()


def _check_free(folder: Path, kind: str) -> None:
    """Refuse to replace anything but a model of the same kind, with its packed model."""
    packed = folder / PACKED
    inside = [PACKED, *(path.name for path in left_behind(packed))] if kind == MODEL else []
    check_replaceable(folder, kind=kind, besides=inside)
    if kind == MODEL:
        check_replaceable(packed, kind=PACKED_MODEL)


def _check_space(folder: Path, needed: int) -> None:
    folder = folder.absolute()
    free = shutil.disk_usage(next(parent for parent in folder.parents if parent.exists())).free
    if needed > free:
        raise RemoteError(
            f"{folder}: the model has {human_bytes(needed)}, but {human_bytes(free)} of the disk are free; make room, "
            "or choose another folder"
        )


def _bytes(parts: list[_Part]) -> int:
    return sum(sum(part.listing.sizes.values()) for part in parts)


def _transfer(parts: list[_Part], *, changed: bool) -> Transfer:
    files = sum(len(part.listing.sizes) + 1 for part in parts)
    own = sum(len(part.manifest) for part in parts)
    return Transfer(version_by(parts[0].manifest), files, _bytes(parts) + own, changed)
