"""Run a function in a forked process with limits of time and memory, and tell how it ended.

Everything is imported before the fork, so that a case costs milliseconds. One thread each: pools do not outlive forks.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from laconic.errors import UserError

SLOWEST = 5.0  # seconds of a case
MOST_MEMORY = 1000.0  # megabytes more than before
_CEILING = 4 * 2**30  # bytes of address space more than before: the machine must survive the campaign
_OLD_PEAK = "5"  # written to clear_refs, it forgets the highest memory so far


class Outcome(NamedTuple):
    kind: str  # done, refused, traceback, crash, hang, memory
    value: Any = None  # what the function returned, or the message
    seconds: float = 0.0
    megabytes: float = 0.0  # more than before the function

    @property
    def bad(self) -> bool:
        return self.kind not in ("done", "refused", "no matter")


def outcome(work: Callable[[], Any], seconds: float = SLOWEST) -> Outcome:
    """Run the work in a process of its own, which is killed after so many seconds."""
    reading, writing = os.pipe()
    began, child = monotonic(), os.fork()
    if not child:
        os.close(reading)
        _child(work, writing)
    os.close(writing)
    told = _read(reading, began + seconds)
    took = monotonic() - began
    if told is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if told is None:
        return Outcome("hang", f"no end after {seconds:.0f} s", took)
    if not told:
        return Outcome("crash", _death(status), took)
    kind, value, megabytes = pickle.loads(told)
    if kind in ("done", "refused") and megabytes > MOST_MEMORY:
        kind, value = "memory", f"{megabytes:.0f} MB ({kind}: {value!r:.100})"
    return Outcome(kind, value, took, megabytes)


def killed_after(seconds: float, work: Callable[[], Any]) -> bool:
    """Run the work in a process that is killed (SIGKILL) after so many seconds; return whether it had ended before."""
    child = os.fork()
    if not child:
        _silence()
        with suppress(BaseException):
            work()
        os._exit(0)
    ends = monotonic() + seconds
    while monotonic() < ends:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        sleep(min(0.005, max(0.0, ends - monotonic())))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def command(*arguments: object) -> None:
    """Run a command line of laconic in this process; a mistake of the user's is raised as such."""
    from laconic.cli.main import app

    app([str(argument) for argument in arguments], prog_name="laconic", standalone_mode=False)


def _child(work: Callable[[], Any], writing: int) -> None:
    Path("/proc/self/clear_refs").write_text(_OLD_PEAK)
    before = _peak()
    with suppress(ValueError, OSError):
        space = before * 2**20 + _address_space() + _CEILING
        resource.setrlimit(resource.RLIMIT_AS, (int(space), int(space)))
    _silence()
    try:
        kind, value = "done", work()
    except UserError as error:
        kind, value = "refused", str(error)[:500]
    except BaseException:  # noqa: BLE001  # whatever it is, the campaign goes on
        kind, value = "traceback", traceback.format_exc()[-2000:]
    with suppress(OSError):
        told = pickle.dumps((kind, value, _peak() - before))
        while told:
            told = told[os.write(writing, told) :]
    os._exit(0)


def _read(reading: int, until: float) -> bytes | None:
    """Return all that the child says before it ends; None if it does not end in time."""
    told = b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - monotonic()))
            if not ready:
                return None
            piece = pipe.read(2**16)
            if not piece:
                return told
            told += piece


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.waitstatus_to_exitcode(status)}"


def _silence() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    sys.stdin = open(os.devnull)  # noqa: SIM115  # until the process ends


def _peak() -> float:
    """Return the highest memory of this process, in megabytes."""
    return _status("VmHWM") / 1024


def _address_space() -> float:
    return _status("VmSize") * 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
