"""Run a function on several ranks that gloo connects, each in a process of its own, forked where torch is imported."""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from typing import Any

import torch

from laconic.system.process_group import ProcessGroup
from laconic.system.ranks import ALONE, Ranks

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.several", "laconic.methods.train", "tests.planted", "torch._dynamo", "pytest"])
LIMIT = 60  # seconds until a rank that does not answer is given up


def on_ranks(world: int, function: Callable[..., Any], *given: Any) -> list[Any]:
    """Return what the function returns on every rank; an exception comes as it was raised, a kill as its exit code.

    With one rank the function runs here, by itself.
    """
    if world == 1:
        return [function(ALONE, *given)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pipes, processes = [], []
    for rank in range(world):
        ours, theirs = FORKS.Pipe(duplex=False)
        process = FORKS.Process(target=_as_rank, args=(theirs, rank, world, port, function, given))
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    found = [_received(pipe, process) for pipe, process in zip(pipes, processes, strict=True)]
    for process in processes:
        process.join()
    return found


def _received(pipe: Any, process: Any) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        process.join()
        return process.exitcode


def _as_rank(pipe: Any, rank: int, world: int, port: int, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    named = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in named.items()} | {"MASTER_ADDR": "127.0.0.1"})
    try:
        ranks: Ranks = ProcessGroup(torch.device("cpu"), LIMIT)
        pipe.send(function(ranks, *given))
        ranks.close()
    except Exception as error:  # noqa: BLE001 - whatever it is, the test wants to see it
        traceback.print_exc()
        pipe.send(error)
