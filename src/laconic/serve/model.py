"""The model in service, and its replacement by a new version: tried in another process, opened, then exchanged.

Those who answer take `now` once and keep it for a whole batch, so every answer is wholly one version's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from laconic.errors import ModelError, UserError
from laconic.predict.load import Speed
from laconic.serve.trial import GivenUp, Trial, try_in_own_process
from laconic.serve.version import opened
from laconic.storage.manifest import PACKED

log = logging.getLogger(__name__)


class Served:
    """A model folder in service."""

    def __init__(self, model: Path, speed: Speed, *, verify: bool = True, trial: Trial = try_in_own_process) -> None:
        self._model, self._speed, self._trial = model, speed, trial
        self._seen, self._closed = _look(model), False
        self.now = opened(model, speed, verify=verify)

    def changed(self) -> bool:
        """Return whether the folder has changed since it was last looked at."""
        return _look(self._model) != self._seen

    def refresh(self, on_result: Callable[[str], None] = lambda result: None) -> bool:
        """Replace the model in service by what the folder holds now; return whether it is another version.

        A folder that does not pass its trial is refused, and the old model stays in service. If the folder changes
        during its trial, the trial ends, and `changed` stays true.
        """
        self._seen = _look(self._model)
        try:
            return self._replace(on_result)
        except GivenUp:
            return False
        except Exception as error:  # a MemoryError, say: whatever a model does, later ones are to be looked at
            unforeseen = not isinstance(error, (UserError, OSError))
            what = repr(error) if unforeseen else error
            log.error("the model folder has changed, but the old model stays in service: %s", what, exc_info=unforeseen)
            on_result("refused")
            return False

    def close(self) -> None:
        """End a trial that is in progress."""
        self._closed = True

    def _replace(self, on_result: Callable[[str], None]) -> bool:
        name = self._trial(self._model, self._speed, lambda: self._closed or self.changed())
        if name == self.now.name:
            return False
        version = opened(self._model, self._speed, verify=False)  # the trial has verified it
        if version.name != name:
            raise ModelError(f"{version.folder}: it changed after its trial; it is looked at again")
        old, self.now = self.now, version
        log.info("version %s took the place of %s", version.name, old.name)
        on_result("taken")
        return True


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
