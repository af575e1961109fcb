"""Runs a peer in separate processes, so that its crashes and memory do not affect ours.

What both sides have to know lies in files of a folder: the examples and the questions once for all peers, and in a
folder for each peer what it wrote, what it answered, how long that took, and what it said meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array, load_npz, save_npz

from laconic.analysis.latency import Trial, singly
from laconic.analysis.peers.libraries import peer_at
from laconic.analysis.peers.peer import Examples, Peer
from laconic.errors import UserError
from laconic.system.machine import usable_cores, use_one_core

_LONGEST_WORDS = 300  # of what a peer said before it ended


class PeerError(UserError):
    """A peer that failed, with the end of its output."""


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The texts that every peer has to label."""

    texts: Sequence[str]
    names: Sequence[str]  # of labels: an answer is a name
    places: int  # labels of each text that are judged
    k: int  # labels of an answer that is timed
    singly: int  # texts that are asked one by one


class Answers(NamedTuple):
    """The labels of a peer, with its training time, latency and size."""

    labels: Int[np.ndarray, "texts places"]
    seconds: float  # that training took
    p50: float  # milliseconds of one text
    size: int  # bytes of all that it wrote


def write_work(folder: Path, examples: Examples, questions: Questions) -> None:
    """Write the data that the processes read."""
    _write(folder / "examples.json", list(examples.texts))
    save_npz(folder / "labels.npz", examples.labels)
    _write(folder / "questions.json", asdict(questions))


def measured(place: str, folder: Path, number: int) -> Answers:
    """Train a peer and then ask it, each in a new process, so that it answers from its files."""
    own = folder / str(number)
    (own / "model").mkdir(parents=True)
    for step in _STEPS:
        _run([sys.executable, "-m", __name__, step, place, str(own)], own / f"{step}.json")
    figures = {**_read(own / "train.json"), **_read(own / "answer.json")}
    return Answers(np.load(own / "labels.npy"), **figures, size=size_of(own / "model"))


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _run(command: Sequence[str], result: Path) -> None:
    """Wait for the last file that a process writes, or report why it did not come."""
    said = result.with_suffix(".txt")
    with said.open("wb") as file, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file) as process:
        try:
            code = process.wait()
        finally:
            process.kill()  # where we are stopped; else it has ended
    if code or not result.exists():
        lines = said.read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        raise PeerError(f"{_ending(code)}: {last[:_LONGEST_WORDS]}")


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        return f"ended by {name}" + ", perhaps for want of memory" * (name == "SIGKILL")
    return f"ended by signal {-code}"


def _train(peer: Peer, folder: Path) -> None:
    texts, labels = _read(folder.parent / "examples.json"), csr_array(load_npz(folder.parent / "labels.npz"))
    began = perf_counter()
    peer.train(Examples(texts, labels), folder / "model", usable_cores())
    _write(folder / "train.json", {"seconds": perf_counter() - began})


def _answer(peer: Peer, folder: Path) -> None:
    use_one_core()  # threads that a library starts for a single text cannot help it then; our models take one, too
    questions, rank = Questions(**_read(folder.parent / "questions.json")), peer.open(folder / "model")
    most = len(questions.names)
    np.save(folder / "labels.npy", rank(questions.texts, min(questions.places, most)).labels)

    def predict(texts: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        rows = zip(*(part.tolist() for part in rank(texts, k)), strict=True)
        return [[(questions.names[label], score) for label, score in zip(*row, strict=True)] for row in rows]

    trial = Trial(folder=str(folder), texts=questions.texts, k=min(questions.k, most), singly=questions.singly)
    _write(folder / "answer.json", {"p50": float(np.median(singly(predict, trial)))})


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


_STEPS = {"train": _train, "answer": _answer}


def _go_with_whoever_asked() -> None:
    """End this process when its parent ends, which closes the parent's end of the pipe."""
    os.read(sys.stdin.fileno(), 1)  # not of the file object: its lock would be in the way of a good end
    os._exit(1)


def main() -> None:
    Thread(target=_go_with_whoever_asked, daemon=True).start()
    step, place, folder = sys.argv[1:]
    _STEPS[step](peer_at(place), Path(folder))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)  # whoever asked is told
