"""How long something takes on a device: as it is, and as a CUDA graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from laconic.step import rehearse

Result = TypeVar("Result")
Run = Callable[[], object]
_WARM_UP = 3


def milliseconds(run: Run, device: torch.device, times: int) -> float:
    """The median, from a start on the host to the device's end."""
    for _ in range(_WARM_UP):
        run()
    return statistics.median([_timed(run, device) for _ in range(times)])


def graphed(run: Run, device: torch.device) -> Run:
    """The same as a CUDA graph; on a CPU, as it is."""
    if device.type != "cuda":
        return run
    rehearse(run)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def attempt(what: str, run: Callable[[], Result]) -> Result | str:
    """What came of it, said as soon as it is known; one that fails must not cost a run all others."""
    try:
        result: Result | str = run()
    except Exception as error:  # noqa: BLE001 - whatever a compiler or a driver may raise
        result = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    print(f"{what}: {result}", flush=True)
    return result


def percentiles(times: list[float]) -> dict[str, Any]:
    """Of seconds, in milliseconds."""
    cuts = statistics.quantiles([1000 * one for one in times], n=100)
    return {"p50_ms": round(cuts[49], 4), "p99_ms": round(cuts[98], 4), "texts_timed": len(times)}


def _timed(run: Run, device: torch.device) -> float:
    _wait(device)
    started = time.perf_counter()
    run()
    _wait(device)
    return 1000 * (time.perf_counter() - started)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
