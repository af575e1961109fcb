"""The folder of a run: its facts, its checkpoints, and a manifest by which damage is noticed.

run.json            laconic's version, what the run was asked for, and the facts that decide its result
STAGE.safetensors   a stage's checkpoint, with its progress among the metadata; a training by several ranks writes it in
                    pieces (pieces.py)
NAME.safetensors    a value that is computed once, such as clusters or shortlists
manifest.json       size and CRC-32 of each of these safetensors files, and which of them are pieces of a checkpoint
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

from safetensors import SafetensorError
from torch import Tensor

from laconic import __version__
from laconic.data.shards import Shard
from laconic.errors import TrainingError
from laconic.storage.json_files import read_json, write_json
from laconic.storage.manifest import MANIFEST
from laconic.storage.model_folder import FINISHED
from laconic.storage.tensors import save_tensors
from laconic.storage.verification import crc32_of
from laconic.system.files import replacing_file, sweep_files
from laconic.system.ranks import ALONE, Ranks
from laconic.training.pieces import PATTERN, own_piece, piece_names, read_pieces

Entry = Mapping[str, Any]  # bytes and crc32 of a file
Entries = Sequence[Entry | None]  # what a file may be, the newest last; None: it may be missing
_FORMAT = 1
_FACTS = "run.json"
ASKED = "asked"  # in run.json, and in model.json: the words in which a chosen method was asked for
_VERSION = "laconic"  # in run.json
_TEMPORARY = ".tmp*"  # what safetensors writes to first; a kill leaves it


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path, ranks: Ranks = ALONE) -> None:
        self.path, self.ranks = path, ranks
        self._fingerprint = ""  # of a run without facts
        self._entries: dict[str, Entries] | None = None  # None: the manifest was not read yet
        self._pieces: dict[str, list[str]] = {}  # the files of each checkpoint that is in pieces
        self.has_loaded = False  # something of an earlier start

    def begin(self, facts: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        """Start or resume a run; refuse to resume one that was started with other facts or is damaged."""
        self._fingerprint = fingerprint_of(facts)
        if self.ranks.is_first:
            self._begin(facts, asked)
        self.ranks.wait()
        if not (self.path / _FACTS).exists():
            raise TrainingError(
                f"{self.path}: rank {self.ranks.rank} does not see the run that the first rank has begun; the model "
                "folder must be on a file system that all machines share (--out)"
            )

    def _begin(self, facts: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise TrainingError(f"{self.path}: this is a file, where the run's folder belongs; move it away")
        if (self.path / FINISHED).exists():
            shutil.rmtree(self.path)
        sweep_files(self.path, _TEMPORARY)
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
        listed = {piece for pieces in self._checkpoints().values() for piece in pieces}
        for path in self.path.glob(PATTERN):  # of a checkpoint that was not finished, or is replaced
            if path.name not in listed:
                path.unlink()

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

    def has(self, name: str) -> bool:
        """Return whether the run has written a file, or pieces of it."""
        return name in self._known() or name in self._checkpoints()

    def load(
        self, name: str, shards: Mapping[str, Shard] | None = None
    ) -> tuple[dict[str, Tensor], dict[str, str]] | None:
        """Return the tensors and metadata of a file; None if the run has not written it yet.

        Of tensors that have a shard, its rows alone are read.
        """
        entries = self._known().get(name)
        pieces = self._checkpoints().get(name)
        if pieces is not None and (entries is None or not (self.path / name).exists()):
            return self._read(name, pieces, shards or {})
        if not (self.path / name).exists() and (entries is None or None in entries):
            return None
        return self._read(name, [name], shards or {})

    def _read(
        self, name: str, files: Sequence[str], shards: Mapping[str, Shard]
    ) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Read a file, or the pieces of a checkpoint, after checking their content."""
        for one in files:
            self._check(one)
        self.has_loaded = True

        def check(path: Path, metadata: Mapping[str, str]) -> None:
            if metadata.get("run") != self._fingerprint:
                raise self.damaged(path.name, "it is of a run with other settings or data")

        try:
            tensors, metadata = read_pieces([self.path / one for one in files], shards, check)
        except (SafetensorError, OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise self.damaged(name, str(error)) from None
        return tensors, metadata

    def _check(self, name: str) -> None:
        """Refuse a file that is not what the manifest says."""
        path, entries = self.path / name, self._known().get(name)
        if entries is None or not path.is_file():
            raise self.damaged(name, "the manifest does not list it" if entries is None else "it is missing")
        found = _entry(path)
        if found not in entries:
            raise self.damaged(name, "its content is not what was written")
        self._known()[name] = [found]

    def save(
        self,
        name: str,
        tensors: Mapping[str, Tensor],
        metadata: Mapping[str, str],
        shards: Mapping[str, Shard] | None = None,
    ) -> None:
        """Write a file in one step; a kill meanwhile leaves the one that was there.

        Where tensors have shards, every rank writes a piece.
        """
        if shards:
            self._save_pieces(name, tensors, metadata, shards)
            return
        if self.ranks.is_first:
            self._save(name, tensors, metadata)
        self.ranks.wait()
        if not self.ranks.is_first:
            self.forget_manifest()

    def _save(self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        before = self._known().get(name, [None])[-1]
        with replacing_file(self.path / name) as partial:
            save_tensors(tensors, partial, {"run": self._fingerprint, **metadata})
            entry = _entry(partial)
            self._write_manifest({**self._known(), name: [before, entry]})
        self._known()[name] = [entry]
        replaced = self._forget_pieces(name)
        if before is None or replaced:  # from now on it must be there
            self._write_manifest(self._known())
        self._remove(replaced)

    def _save_pieces(
        self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], shards: Mapping[str, Shard]
    ) -> None:
        """Write this rank's piece of a checkpoint; the first rank's manifest then replaces the checkpoint before."""
        pieces = piece_names(name, self._checkpoints().get(name, ()), self.ranks.world)
        own, rows = own_piece(tensors, shards, self.ranks)
        with replacing_file(self.path / pieces[self.ranks.rank]) as partial:
            told = metadata if self.ranks.is_first else {}
            save_tensors(own, partial, {"run": self._fingerprint, **told, **rows})
            entry = _entry(partial)
        entries = [json.loads(text) for text in self.ranks.gather_texts(json.dumps(entry))]  # all pieces are in place
        replaced = [*self._forget_pieces(name), *([name] if self._known().pop(name, None) else [])]
        self._known().update({piece: [one] for piece, one in zip(pieces, entries, strict=True)})
        self._pieces[name] = pieces
        if self.ranks.is_first:
            self._write_manifest(self._known())
            self._remove(replaced)
        self.ranks.wait()

    def forget(self, prefix: str) -> None:
        """Remove files whose names begin so, which nothing that is resumed will need any more."""
        if self.ranks.is_first:
            gone = [name for name in self._known() if name.startswith(prefix)]
            self._entries = {name: entries for name, entries in self._known().items() if name not in gone}
            self._pieces = {name: pieces for name, pieces in self._pieces.items() if not name.startswith(prefix)}
            if gone:  # a kill from here on leaves files that the manifest does not list, and nobody reads
                self._write_manifest(self._entries)
                self._remove(gone)
        self.ranks.wait()
        if not self.ranks.is_first:
            self.forget_manifest()

    def forget_manifest(self) -> None:
        """Read the manifest anew when it is needed: another rank has changed it."""
        self._entries = None

    def _forget_pieces(self, name: str) -> list[str]:
        """Take the pieces of a checkpoint off the list; return their names."""
        pieces = self._checkpoints().pop(name, [])
        for piece in pieces:
            self._known().pop(piece, None)
        return pieces

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)

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
            self._entries, self._pieces = {}, {}
            if self._has_files() or (self.path / MANIFEST).exists():
                self._entries, self._pieces = self._read_manifest()
        return self._entries

    def _checkpoints(self) -> dict[str, list[str]]:
        """Return the files of each checkpoint that is in pieces."""
        self._known()
        return self._pieces

    def _write_manifest(self, entries: Mapping[str, Entries]) -> None:
        pieces = {"pieces": self._pieces} if self._pieces else {}
        _write_json(self.path / MANIFEST, {"kind": "run", "format": _FORMAT, "files": entries, **pieces})

    def _read_manifest(self) -> tuple[dict[str, Entries], dict[str, list[str]]]:
        found = self._json(MANIFEST)
        match found, found.get("pieces", {}):
            case {"kind": "run", "format": 1, "files": dict(files)}, dict(pieces) if all(
                isinstance(listed, list) for listed in (*files.values(), *pieces.values())
            ):
                return files, pieces
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
