"""Crash at every system call by which a verb changes a model folder, or let that call fail.

python -m tests.faults remove-labels [--error EIO] [--without-exchange] [--every N]      prints what was found, as JSON

The verb runs in a forked process, with a preloaded library (faults.c) that kills it before its first call, its second
one, and so on, until it ends by itself. Whatever is left must be the old model or the new one, whole, and the next
writer must succeed and leave nothing else.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import io
import json
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from laconic.training.run_folder import RunFolder

ROOT = Path(__file__).parents[1]
ALONE = "train --no-keep-torch"
VERBS = ("save", "pack", "add-labels", "remove-labels", "update", "train", ALONE)
CHECKPOINT = "checkpoint"  # a run's, instead of a model's folder
_MOST = 100_000  # calls


@dataclass
class Found:
    """What was left by the crashes at each call."""

    points: int = 0
    old: int = 0
    new: int = 0
    wrong: list[str] = field(default_factory=list)


def crashes(verb: str, place: Path, *, error: str = "", without_exchange: bool = False, every: int = 1) -> Found:
    """Run the crashes of a verb in a process of its own, which needs a C compiler."""
    library = place / "faults.so"
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("there is no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, ROOT / "tests" / "faults.c", "-ldl"], check=True)
    command = [sys.executable, "-m", "tests.faults", verb, "--place", place, "--every", every, "--library", library]
    command += ["--error", error] * bool(error) + ["--without-exchange"] * without_exchange
    one = {
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
        "LD_PRELOAD": str(library),
    }  # threads do not survive a fork
    ran = subprocess.run(list(map(str, command)), cwd=ROOT, env=os.environ | one, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr[-3000:])
    return Found(**json.loads(ran.stdout.splitlines()[-1]))


def _found(verb: str, place: Path, library: Path, error: int, without_exchange: bool, every: int) -> Found:
    job: _Job | _Checkpoint = _Checkpoint(place) if verb == CHECKPOINT else _Job(verb, place)
    faults = ctypes.CDLL(str(library))
    job.make()
    job.prepare(place / "warm" / "model")
    job.run(place / "warm" / "model")  # compiles kernels and imports modules before any fork
    found = Found()
    for number in range(1, _MOST, every):
        folder = place / str(number) / "model"
        job.prepare(folder)
        code, told = _in_child(lambda: _armed(faults, folder, number, error, without_exchange, job))  # noqa: B023 - it is called at once
        found.points += 1
        try:
            is_new = job.check(folder)
        except Exception as wrong:  # noqa: BLE001 - whatever is wrong is reported
            found.wrong.append(f"call {number}: {wrong!r}")
        else:
            found.new, found.old = found.new + is_new, found.old + (not is_new)
        if error and (code not in (0, 2) or "Traceback" in told):
            found.wrong.append(f"call {number}: exit code {code}: {told[-1000:]}")
        shutil.rmtree(place / str(number))
        if code == 0 and "all calls were made" in told:
            return found
    raise AssertionError("the verb does not end")


def _armed(faults: Any, folder: Path, number: int, error: int, without_exchange: bool, job: _Job | _Checkpoint) -> None:
    faults.faults_arm(os.fsencode(folder.parent), ctypes.c_long(number), error, int(without_exchange))
    job.run(folder)
    if faults.faults_seen() < number:
        sys.stderr.write("all calls were made\n")


def _in_child(call: Callable[[], None]) -> tuple[int, str]:
    """Make a call in a forked process; return its exit code, or minus the signal that ended it, and what it told."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code, told = 0, io.StringIO()
        with redirect_stdout(told), redirect_stderr(told):
            try:
                call()
            except SystemExit as stopped:
                code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
            except BaseException:  # noqa: BLE001 - the parent looks at the traceback
                code = 1
                traceback.print_exc()
        os.write(write, told.getvalue().encode()[-60_000:])
        os._exit(code)
    os.close(write)
    told_bytes = b"".join(iter(lambda: os.read(read, 65536), b""))
    os.close(read)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told_bytes.decode("utf-8", "replace")


class _Job:
    """A verb, the model folder that it changes, and what must be left."""

    def __init__(self, verb: str, place: Path) -> None:
        self.verb, self.place, self.source = verb, place, place / "source"

    def make(self) -> None:
        from laconic import Laconic

        texts = [f"{colour} {thing}" for colour in ("red", "blue", "green") for thing in ("rose", "sea", "hat", "car")]
        labels = [text.split() for text in texts]
        rows = [f"{text},{' '.join(own)}" for text, own in zip(texts, labels, strict=True)]
        (self.place / "data.csv").write_text("text,labels\n" + "\n".join(rows) + "\n")
        (self.place / "labels.jsonl").write_text('{"id": "crimson", "text": "red"}\n')
        Laconic("nearest").fit(texts, labels).pack(texts).save(self.source)
        if self.verb == "save":
            self.model = Laconic("nearest", neighbours=3).fit(texts, labels).pack(texts)
        self.files = _files(self.source)

    def prepare(self, folder: Path) -> None:
        folder.parent.mkdir()
        shutil.copytree(self.source, folder)

    def run(self, folder: Path) -> None:
        from laconic.cli.main import main

        more: list[Any] = {
            "pack": [folder, "--data", self.place / "data.csv"],
            "add-labels": [folder, self.place / "labels.jsonl"],
            "remove-labels": [folder, "--label", "hat"],
            "update": [folder, self.place / "data.csv", "--epochs", 1, "--device", "cpu"],
            "train": [self.place / "data.csv", "--method", "nearest", "--force", "--out", folder],
            ALONE: [self.place / "data.csv", "--method", "nearest", "--force", "--no-keep-torch", "--out", folder],
        }.get(self.verb, [])
        if self.verb == "save":
            self.model.save(folder)
            return
        sys.argv = ["laconic", self.verb.split()[0], *map(str, more)]
        try:
            main()
        except SystemExit as stopped:
            if stopped.code:
                raise

    def check(self, folder: Path) -> bool:
        """Raise an error unless the old model or the new one is whole; return whether it is the new one."""
        from laconic.packed.folder import SOURCE, open_packed
        from laconic.storage.manifest import PACKED_MODEL, check_hashes, kind_of, version_of
        from laconic.storage.model_folder import read_model
        from laconic.system.files import replacing, restore

        restore(folder)
        files = _files(folder)
        if self.verb == ALONE and kind_of(folder) == PACKED_MODEL:
            check_hashes(folder, kind=PACKED_MODEL)
            packed = open_packed(folder, verify=True)
            assert packed.ranker.num_labels == len(packed.labels), "the packed model is not whole"
        else:
            check_hashes(folder)
            check_hashes(folder / "packed", kind=PACKED_MODEL)
            model, packed = read_model(folder, verify=True), open_packed(folder / "packed", verify=True)
            assert packed.facts[SOURCE] == version_of(folder), "the packed model is of another model"
            assert list(packed.labels) == list(model.labels.names)
            assert self.verb != ALONE or files == self.files, "there are torch weights of the new model"
        is_new = files != self.files
        with replacing(folder) as partial:
            (partial / "file").touch()
        left = sorted(path.name for path in folder.parent.iterdir())
        assert left == ["model"], f"left are {left}"
        return is_new


class _Checkpoint:
    """A run that writes a stage's checkpoint over an earlier one, and then a value for the first time."""

    facts: ClassVar[dict[str, Any]] = {"config": {"epochs": 2}}
    stage, value = "stage.safetensors", "value.safetensors"

    def __init__(self, place: Path) -> None:
        self.source = place / "source"

    def make(self) -> None:
        self._begun(self.source).save(self.stage, self._tensors(1), {"state": "1"})

    def prepare(self, folder: Path) -> None:
        folder.parent.mkdir()
        shutil.copytree(self.source, folder)

    def run(self, folder: Path) -> None:
        from laconic.errors import UserError

        try:
            run = self._begun(folder)
            assert run.load(self.stage) is not None
            run.save(self.stage, self._tensors(2), {"state": "2"})
            run.save(self.value, self._tensors(3), {})
        except UserError as error:  # as the command line does
            raise SystemExit(2) from error

    def check(self, folder: Path) -> bool:
        """Raise an error unless the old checkpoint or the new one is whole; return whether it is the new one."""
        run = self._begun(folder)
        stage, value = run.load(self.stage), run.load(self.value)
        assert stage is not None, "the checkpoint is gone"
        tensors, metadata = stage
        assert tensors["weights"].unique().tolist() == [float(metadata["state"])], "half of a checkpoint"
        assert value is None or metadata["state"] == "2", "a value that was written before its time"
        self.run(folder)
        left = sorted(path.name for path in folder.iterdir())
        assert left == ["manifest.json", "run.json", self.stage, self.value], f"left are {left}"
        return metadata["state"] == "2"

    def _begun(self, folder: Path) -> RunFolder:
        from laconic.training.run_folder import RunFolder

        run = RunFolder(folder)
        run.begin(self.facts, {})
        return run

    @staticmethod
    def _tensors(number: int) -> dict[str, Any]:
        import torch

        return {"weights": torch.full((50, 20), float(number))}


def _files(folder: Path) -> dict[str, bytes]:
    """Return the content of a model's own files; a killed writer may have left others."""
    return dict(_read(folder, "*")) | dict(_read(folder, "packed/*"))


def _read(folder: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.glob(pattern)):
        if path.is_file() and not path.name.startswith("."):
            yield str(path.relative_to(folder)), path.read_bytes()


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=[*VERBS, CHECKPOINT])
    parser.add_argument("--place", type=Path)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--error", default="", help="let the call fail, with this error, instead of a kill")
    parser.add_argument("--without-exchange", action="store_true", help="as where folders cannot be exchanged")
    parser.add_argument("--every", type=int, default=1, help="crash at every Nth call only")
    given = parser.parse_args()
    if given.library is None:
        with TemporaryDirectory() as place:
            options = {"error": given.error, "without_exchange": given.without_exchange, "every": given.every}
            sys.stdout.write(json.dumps(asdict(crashes(given.verb, Path(place), **options))) + "\n")
        return
    number = getattr(errno, given.error) if given.error else 0
    found = _found(given.verb, given.place, given.library, number, given.without_exchange, given.every)
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    _main()
