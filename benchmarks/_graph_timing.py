"""How long something takes on a device: as it is, and as a CUDA graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import torch

from laconic.training.step import leave_capture, warm_up

Result = TypeVar("Result")
Run = Callable[[], object]


def milliseconds(run: Run, device: torch.device, times: int) -> float:
    """The median, from the host's start to the device's end."""
    run()
    return round(statistics.median([_milliseconds(run, device) for _ in range(times)]), 4)


def graphed(run: Run, device: torch.device) -> Run:
    """The same as a CUDA graph; on a CPU, as it is."""
    if device.type != "cuda":
        return run
    warm_up(run)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def attempt(what: str, run: Callable[[], Result], device: torch.device) -> Result | str:
    """What came of it, said at once. Something that fails must not cost a run all that comes after."""
    result: Result | str
    try:
        result = run()
    except Exception as error:  # noqa: BLE001 - whatever a compiler or a driver may raise
        result = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if device.type == "cuda":
            leave_capture(device)
    print(f"{what}: {result}", flush=True)
    return result


def _milliseconds(run: Run, device: torch.device) -> float:
    _wait(device)
    started = time.perf_counter()
    run()
    _wait(device)
    return 1000 * (time.perf_counter() - started)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
