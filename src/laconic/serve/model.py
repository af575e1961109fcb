"""The model in service, and its replacement by a new version: opened and verified beside it, then exchanged.

Those who answer take `now` once and keep it for a whole batch, so every answer is wholly one version's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from laconic.errors import ModelError, UserError
from laconic.packed.folder import SOURCE, is_packed, open_packed
from laconic.predict.load import Speed, packed_predictor
from laconic.predict.packed_predictor import PackedPredictor
from laconic.storage.manifest import MANIFEST, PACKED, kind_of, version_of
from laconic.system.files import bytes_in

log = logging.getLogger(__name__)
_WARMING = (
    "a text to begin with",
    "",
)  # compiles kernels, or fetches them, before anybody waits


@dataclass(frozen=True)
class Version:
    """One version of a model, ready to answer."""

    name: str  # changes when any byte of the model does
    packed_predictor: PackedPredictor
    folder: Path  # where it was packed
    bytes: int


class Served:
    """A model folder in service."""

    def __init__(self, model: Path, speed: Speed, *, verify: bool = True) -> None:
        self._model, self._speed = model, speed
        self._seen = _look(model)
        self.now = opened(model, speed, verify=verify)

    def changed(self) -> bool:
        """Return whether the folder has changed since it was last looked at."""
        return _look(self._model) != self._seen

    def refresh(self, on_result: Callable[[str], None] = lambda result: None) -> bool:
        """Replace the model in service by what the folder holds now; return whether it is another version.

        A folder that cannot be opened is refused, and the old model stays in service.
        """
        self._seen = _look(self._model)
        try:
            version = opened(self._model, self._speed, verify=True)
        except (UserError, OSError) as error:  # a folder may go away between two looks at it
            log.error("the model folder has changed, but the old model stays in service: %s", error)
            on_result("refused")
            return False
        if version.name == self.now.name:
            return False
        old, self.now = self.now, version
        log.info("version %s took the place of %s", version.name, old.name)
        on_result("taken")
        return True


def opened(model: Path, speed: Speed, *, verify: bool) -> Version:
    """Open the packed model of a folder and run it once, so that the first request is quick."""
    folder = packed_folder(model)
    packed = open_packed(folder, verify=verify)
    if version_of(folder) != packed.version:
        raise ModelError(f"{folder}: it changed while it was opened; it is looked at again")
    if packed.vocabulary is None:
        raise ModelError(f"{folder}: this model reads features, but a service is asked with texts")
    version = Version(packed.version, packed_predictor(packed, speed), folder, bytes_in(folder))
    for text in _WARMING:
        version.packed_predictor.predict([text])
    return version


def packed_folder(model: Path) -> Path:
    """Return the packed folder: the folder itself, or the one inside a model folder if it belongs to that model."""
    if is_packed(model):
        return model
    if not kind_of(model):
        raise ModelError(f"{model}: this is not a model folder: it has no {MANIFEST}")
    if not is_packed(model / PACKED):
        raise ModelError(f"{model}: this model was not packed; `laconic pack {model}` makes what can be served")
    if open_packed(model / PACKED, verify=False).facts.get(SOURCE) != version_of(model):
        raise ModelError(f"{model / PACKED}: it was packed of another model; `laconic pack {model}` packs this one")
    return model / PACKED


def _look(model: Path) -> set[tuple[str, int, int, int]]:
    """Return what changes when a folder or a file in it is replaced; a copy may still be in progress."""
    return {stamp for folder in (model, model / PACKED) for stamp in _stamps(folder)}


def _stamps(folder: Path) -> list[tuple[str, int, int, int]]:
    try:
        with os.scandir(folder) as files:
            found = [(file.path, file.stat()) for file in files if file.is_file()]
    except OSError:  # it is being exchanged
        return []
    return [(path, stat.st_ino, stat.st_mtime_ns, stat.st_size) for path, stat in found]
