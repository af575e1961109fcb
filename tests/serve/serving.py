"""A service in processes of its own, as `laconic serve` starts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.chaos.processes import Server, laconic_serve

PATIENT = ("--deadline-ms", "60000", "--queue", "10000")  # whatever else the machine has to do


@contextmanager
def serving(model: Path, folder: Path, *options: str) -> Iterator[Server]:
    """Ready, until the block ends; its log is in the folder."""
    with laconic_serve(model, *options, log=folder / "log") as server:
        yield server
