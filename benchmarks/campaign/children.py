"""Run a function in a forked process with limits of time and memory, and tell how it ended.

Everything is imported before the fork, so that a case costs milliseconds. One thread each: pools do not outlive forks.
Seconds in which a process was ready to run and waited for a core do not count, so that a busy machine looks like an
idle one; seconds in which it waits for anything else do.
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
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from laconic.errors import UserError

SLOWEST = 5.0  # seconds of a case
MOST_MEMORY = 1000.0  # megabytes more than before
_CEILING = 4 * 2**30  # bytes of address space more than before: the machine must survive the campaign
_LOOKS = 0.2  # seconds between looks at a process that has reached its limit by the clock
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
    child = os.fork()
    if not child:
        os.close(reading)
        _child(work, writing)
    os.close(writing)
    spent = _Clock(child)
    told = _read(reading, spent, seconds)
    took = spent()
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


def quietly(work: Callable[[], Any]) -> Any:
    """Run the work in this process, as a child would, but for what it prints: nothing is imported or compiled later."""
    with open(os.devnull, "w") as null, redirect_stdout(null), redirect_stderr(null):
        return work()


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
    except BaseException:  # noqa: BLE001 - whatever it is, the campaign goes on and reports it
        kind, value = "traceback", traceback.format_exc()[-2000:]
    with suppress(OSError):
        told = pickle.dumps((kind, value, _peak() - before))
        while told:
            told = told[os.write(writing, told) :]
    os._exit(0)


class _Clock:
    """Seconds since the start of a process, without those in which it waited for a core."""

    def __init__(self, process: int) -> None:
        self._waits, self._began, self._waited = Path(f"/proc/{process}/schedstat"), monotonic(), 0.0

    def __call__(self) -> float:
        with suppress(OSError, IndexError):  # it may have ended
            self._waited = int(self._waits.read_text().split()[1]) / 1e9
        return monotonic() - self._began - self._waited


def _read(reading: int, spent: _Clock, seconds: float) -> bytes | None:
    """Return all that the child says before it ends; None if it does not end in time."""
    told = b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(_LOOKS, seconds - spent()))
            if not ready:
                if spent() < seconds:
                    continue
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
    sys.stdin = open(os.devnull)  # noqa: SIM115 - it stays open until the process ends


def _peak() -> float:
    """Return the highest memory of this process, in megabytes."""
    return _status("VmHWM") / 1024


def _address_space() -> float:
    return _status("VmSize") * 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
