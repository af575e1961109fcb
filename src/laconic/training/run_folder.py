"""The folder of a run: its facts, its checkpoints, and a manifest by which damage is noticed.

run.json            laconic's version, what the run was asked for, and the facts that decide its result
STAGE.safetensors   a stage's checkpoint, with its progress among the metadata
NAME.safetensors    a value that is computed once, such as clusters or shortlists
manifest.json       size and CRC-32 of each of these safetensors files
metrics.jsonl       a line per epoch
trackers.json       identifiers of this run at trackers of experiments, if it has any

In an ensemble, every STAGE and NAME is prefixed with its member, as in member-0.train. Every safetensors file has the
fingerprint of its run among the metadata, so that no run is resumed with another one's weights.

The manifest is written before a new file takes its place, and lists the size and checksum of the old file, or null,
beside those of the new one: a kill in between leaves either, and both are accepted. CRC-32 notices accidents, not
forgers; it is several times as fast as a cryptographic hash.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from laconic import __version__
from laconic.errors import TrainingError
from laconic.storage.json_files import read_json, write_json
from laconic.storage.manifest import MANIFEST
from laconic.storage.model_folder import FINISHED
from laconic.storage.tensors import save_tensors
from laconic.storage.verification import crc32_of
from laconic.system.files import replacing_file, sweep_files

Entry = Mapping[str, Any]  # bytes and crc32 of a file
Entries = Sequence[Entry | None]  # what a file may be, the newest last; None: it may be missing
_FORMAT = 1
_FACTS = "run.json"
ASKED = "asked"  # in run.json, and in model.json: the words in which a chosen method was asked for
_VERSION = "laconic"  # in run.json
_TEMPORARY = ".tmp*"  # what safetensors writes to first; a kill leaves it


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fingerprint = ""  # of a run without facts
        self._entries: dict[str, Entries] | None = None  # None: the manifest was not read yet
        self.has_loaded = False  # something of an earlier start

    def begin(self, facts: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        """Start or resume a run; refuse to resume one that was started with other facts or is damaged."""
        if self.path.exists() and not self.path.is_dir():
            raise TrainingError(f"{self.path}: this is a file, where the run's folder belongs; move it away")
        if (self.path / FINISHED).exists():
            shutil.rmtree(self.path)
        sweep_files(self.path, _TEMPORARY)
        self._fingerprint = fingerprint_of(facts)
        if not self._has_files():  # nothing trained yet that could be lost
            self._entries = {}
            (self.path / MANIFEST).unlink(missing_ok=True)
            _write_json(self.path / _FACTS, {_VERSION: __version__, ASKED: asked, **facts})
            return
        before = self._facts()
        for difference in differences(before, {_VERSION: __version__, **facts}):
            raise TrainingError(
                f"{self.path}: a run with {difference} was started here; run the same command to resume it, or remove "
                f"{self.path} to start again"
            )

    def is_unfinished(self, facts: Mapping[str, Any]) -> bool:
        """Return whether there is a run with these facts that can be resumed."""
        if (self.path / FINISHED).exists() or not self._has_files():
            return False
        return not any(differences(self._facts(), {_VERSION: __version__, **facts}))

    def chosen_before(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the facts of a run that can be resumed and was asked for in the same words; empty if there is none."""
        if (self.path / FINISHED).exists() or not self._has_files():
            return {}
        found = self._json(_FACTS)
        return found if found.get(ASKED) == json.loads(_text(asked)) else {}

    def load(self, name: str) -> tuple[dict[str, Tensor], dict[str, str]] | None:
        """Return the tensors and metadata of a file; None if the run has not written it yet."""
        path, entries = self.path / name, self._known().get(name)
        if not path.exists() and (entries is None or None in entries):
            return None
        if entries is None or not path.is_file():
            raise self.damaged(name, "the manifest does not list it" if entries is None else "it is missing")
        found = _entry(path)
        if found not in entries:
            raise self.damaged(name, "its content is not what was written")
        self._known()[name] = [found]
        self.has_loaded = True
        try:
            with safe_open(path, "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
                metadata = file.metadata() or {}
        except (SafetensorError, OSError) as error:
            raise self.damaged(name, str(error)) from None
        if metadata.get("run") != self._fingerprint:
            raise self.damaged(name, "it is of a run with other settings or data")
        return tensors, metadata

    def save(self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        """Write a file in one step; a kill meanwhile leaves the one that was there."""
        before = self._known().get(name, [None])[-1]
        with replacing_file(self.path / name) as partial:
            save_tensors(tensors, partial, {"run": self._fingerprint, **metadata})
            entry = _entry(partial)
            self._write_manifest({**self._known(), name: [before, entry]})
        self._known()[name] = [entry]
        if before is None:  # from now on it must be there
            self._write_manifest(self._known())

    def damaged(self, name: str, what: str) -> TrainingError:
        """Return the error of a damaged file. It is not replaced: later stages might not fit the replacement."""
        return TrainingError(
            f"{self.path / name}: this file of the run is damaged ({what}); remove {self.path} to start again"
        )

    def _has_files(self) -> bool:
        return any(self.path.glob("*.safetensors"))

    def _facts(self) -> dict[str, Any]:
        facts = self._json(_FACTS)
        return {name: fact for name, fact in facts.items() if name != ASKED}

    def _known(self) -> dict[str, Entries]:
        """Return what the manifest says of each file."""
        if self._entries is None:
            self._entries = self._read_manifest() if self._has_files() or (self.path / MANIFEST).exists() else {}
        return self._entries

    def _write_manifest(self, entries: Mapping[str, Entries]) -> None:
        _write_json(self.path / MANIFEST, {"kind": "run", "format": _FORMAT, "files": entries})

    def _read_manifest(self) -> dict[str, Entries]:
        match self._json(MANIFEST):
            case {"kind": "run", "format": 1, "files": dict(files)} if all(isinstance(v, list) for v in files.values()):
                return files
        raise self.damaged(MANIFEST, "it does not list the run's files")

    def _json(self, name: str) -> dict[str, Any]:
        """Read a JSON object of the run."""
        try:
            return read_json(self.path / name, lambda what: self.damaged(name, what))
        except OSError as error:
            raise self.damaged(name, error.strerror or str(error)) from None


def fingerprint_of(facts: Mapping[str, Any]) -> str:
    """Return a digest of everything that decides the result of a run."""
    text = _text({_VERSION: __version__, **facts})
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Describe the differences of two runs' facts; `old` was read from JSON."""
    new = json.loads(_text(new))
    for name in sorted({*old, *new}):
        one, other = old.get(name), new.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from differences(one, other, f"{prefix}{name}.")
        elif one != other:
            yield f"{prefix}{name} = {one!r} (now {other!r})"


def _entry(path: Path) -> Entry:
    return {"bytes": path.stat().st_size, "crc32": f"{crc32_of(path):08x}"}


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with replacing_file(path) as partial:
        write_json(partial, value)


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, sort_keys=True)
