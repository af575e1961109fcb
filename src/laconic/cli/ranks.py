"""Training by several processes, called ranks: start them on one machine, connect them, and let one of them speak."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from laconic.cli.options import err
from laconic.errors import ConfigError, UserError
from laconic.units import counted

if TYPE_CHECKING:
    import torch

    from laconic.system.ranks import Ranks

_TIMEOUT = "LACONIC_RANK_TIMEOUT"  # in the environment: seconds until a rank that does not answer is given up
_USUAL_TIMEOUT = 600.0
# Without it, ranks that torchrun restarts look for each other at the addresses of those that have ended.
_OWN_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def hush_later_ranks() -> None:
    """Print nothing in ranks after the first one: what they would say before they are connected, it says too."""
    err.quiet = int(os.environ.get("RANK", "0")) > 0


def launch(gpus: int, device: str) -> None:
    """Run this command once on each of that many GPUs of this machine, and exit as they do."""
    import torch
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    if device not in ("auto", "cuda"):
        raise ConfigError(
            f"--gpus trains on GPUs, but --device is {device}; ranks on a CPU are started by torchrun "
            f"--nproc-per-node {gpus} -m laconic train ... --device cpu"
        )
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus > found:
        raise ConfigError(f"--gpus must be at most the {counted(found, 'GPU')} of this machine, but is {gpus}")
    os.environ.setdefault(_OWN_STORE, "1")
    try:
        words = ["--standalone", f"--nproc-per-node={gpus}", "-m", "laconic", *_without_gpus(sys.argv[1:])]
        run(parse_args(words))  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        raise typer.Exit(failure.exitcode if failure.exitcode > 0 else 1) from None


def _without_gpus(words: list[str]) -> list[str]:
    at = next((at for at, word in enumerate(words) if word.partition("=")[0] == "--gpus"), None)
    return words if at is None else words[:at] + words[at + (1 if "=" in words[at] else 2) :]


@contextmanager
def connected(device: str) -> Iterator[tuple[Ranks, torch.device]]:
    """Yield the ranks that this process is one of, and its device; of an error that several have, one is reported."""
    from laconic.system.ranks import ALONE
    from laconic.training.run import device_named

    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE, device_named(device)
        return
    from laconic.system.process_group import ProcessGroup, rank_device

    own = rank_device(device_named(device))
    ranks = ProcessGroup(own, _timeout())
    try:
        yield ranks, own
        ranks.close()
    except UserError:
        if ranks.reports():
            raise
        raise typer.Exit(2) from None


def _timeout() -> float:
    text = os.environ.get(_TIMEOUT, "")
    try:
        seconds = float(text or _USUAL_TIMEOUT)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigError(f"{_TIMEOUT} must be a number of seconds above 0, but is {text!r}")
    return seconds
