"""Grow label trees in a process of their own, so that threads that prepare a GPU's work do not wait for them.

The process reads its task from a folder and writes the trees there; it prints the fractions that are done.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from laconic.config import configure, settings_of
from laconic.data.dataset import Dataset
from laconic.data.exchange import map_data, write_data
from laconic.errors import TrainingError
from laconic.methods.trees import Config, build
from laconic.storage.tensors import save_tensors, tensors_of
from laconic.system.machine import at_most_cores, usable_cores

_MODULE = "laconic.methods.tree_process"
_TASK, _TREES = "task.json", "trees.safetensors"
_NICE = 10  # as the system counts: what prepares the GPU's work, and compiles it, goes first on the cores


def build_apart(data: Dataset, config: Config, advance: Callable[[float], None]) -> dict[str, Tensor]:
    """Return the tensors of a ranker that `build` would return; where `advance` raises an error, the process ends."""
    with tempfile.TemporaryDirectory(prefix="laconic-") as name:
        folder = Path(name)
        write_data(_needed(data), folder)
        task = {"config": settings_of(config), "cores": usable_cores()}
        (folder / _TASK).write_text(json.dumps(task), encoding="utf-8")
        places = os.pathsep.join(filter(None, sys.path))  # modules are found where this process finds them
        command, env = [sys.executable, "-P", "-m", _MODULE, name], {**os.environ, "PYTHONPATH": places}
        with (
            (folder / "errors.txt").open("wb") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, encoding="ascii", env=env) as process,
        ):
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    advance(float(line))
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise TrainingError(_why(process.returncode, (folder / "errors.txt").read_text(errors="replace")))
        return {name: tensor.clone() for name, tensor in tensors_of(folder / _TREES).items()}  # no longer mapped


def _needed(data: Dataset) -> Dataset:
    """Return what label trees are grown from."""
    return replace(data, label_inputs=None, word_vectors=None, pretrained=None, words=None, validation=None, extra=None)


def _why(code: int, complaint: str) -> str:
    last = complaint.strip().rpartition("\n")[2]
    killed = f"was ended by signal {-code}" + ", as for want of memory" * (-code == signal.SIGKILL)
    how = killed if code < 0 else f"ended with exit code {code} ({last})"
    return f"the process that grew label trees {how}; run the same command again, or without trees (fusion.trees=0)"


def main(folder: Path) -> None:
    if hasattr(os, "nice"):
        os.nice(_NICE)
    task = json.loads((folder / _TASK).read_text(encoding="utf-8"))

    def report(fraction: float) -> None:
        sys.stdout.write(f"{fraction}\n")
        sys.stdout.flush()

    with at_most_cores(task["cores"]):
        ranker = build(map_data(folder), configure(Config, task["config"]), report)
    save_tensors({name: tensor.contiguous() for name, tensor in ranker.state_dict().items()}, folder / _TREES)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
