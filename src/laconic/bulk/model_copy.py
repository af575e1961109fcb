"""Bring a model to machines that do not see its folder: through Ray's object store, once to each."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laconic.storage.manifest import version_of
from laconic.system.cache_folder import cache_folder
from laconic.system.files import replacing
from laconic.system.locks import LockedError

_BLOCK = 1 << 26  # bytes of an object in the store
_PAUSE = 0.2  # seconds between looks at a copy that another process makes


@dataclass(frozen=True, kw_only=True)
class ModelCopy:
    """A model folder, and its content as objects of Ray for machines that lack the folder."""

    folder: Path
    version: str
    files: dict[str, list[Any]]  # references to the blocks of each file; empty: all machines see the folder

    @staticmethod
    def of(folder: Path, *, travels: bool) -> ModelCopy:
        """Put the files of a model folder into Ray's object store, if they are to travel."""
        files = {path.name: _stored(path) for path in sorted(folder.iterdir()) if path.is_file()} if travels else {}
        return ModelCopy(folder=folder.resolve(), version=version_of(folder), files=files)

    def here(self) -> Path:
        """Return a folder with the model on this machine: its own, or a copy that is made once."""
        if not self.files or _is_version(self.folder, self.version):
            return self.folder
        copy = (cache_folder("models") or Path(tempfile.gettempdir()) / "laconic-models") / self.version
        while not copy.is_dir():
            try:
                with replacing(copy) as partial:
                    for name, blocks in self.files.items():
                        _write(partial / name, blocks)
            except LockedError:  # another process of this machine makes it
                time.sleep(_PAUSE)
        return copy


def _is_version(folder: Path, version: str) -> bool:
    return (folder / "manifest.json").is_file() and version_of(folder) == version


def _stored(path: Path) -> list[Any]:
    import ray

    with path.open("rb") as file:
        return [ray.put(block) for block in iter(lambda: file.read(_BLOCK), b"")]


def _write(path: Path, blocks: list[Any]) -> None:
    import ray

    with path.open("wb") as file:
        file.writelines(ray.get(block) for block in blocks)
