"""What this process may use of the machine: processor cores and memory.

Affinity masks and control groups (cgroups, of version 1 or 2) limit a process in a container or in a batch system;
`os.cpu_count()`, /proc/meminfo and the thread pools of libraries do not know of them. Everything else asks here.

`root` is the folder under which /proc and /sys are looked up, so that a test can describe another machine.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from math import ceil
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_ROOT = Path("/")
_limits: list[int] = []  # of cores, set by `at_most_cores`; threads of this process share them


def usable_cores(root: Path = _ROOT) -> int:
    """Return the number of cores that this process may keep busy, 1 or more."""
    affinity = _cores_by_affinity()
    return max(1, min(affinity, _cores_by_quota(root) or affinity, *_limits))


@contextmanager
def at_most_cores(cores: int) -> Iterator[None]:
    """Let this process keep at most so many cores busy while the block runs, torch included."""
    _limits.append(cores)
    try:
        with torch_within_cores():
            yield
    finally:
        _limits.remove(cores)


def free_memory(root: Path = _ROOT) -> int | None:
    """Return the bytes of memory that this process can still get, or None where the system does not say."""
    spare = [_spare_memory(group) for group in _groups(root, "memory")]
    known = [number for number in [_available_memory(root), *spare] if number is not None]
    return max(0, min(known)) if known else None


def share_of_cores(seconds: float = 0.2) -> float:
    """Measure what other processes leave of the cores that this one may keep busy: from nearly 0 to 1."""
    cores, block = usable_cores(), bytes(1 << 20)
    began, used = time.perf_counter(), time.process_time()

    def work(_: int) -> None:
        while time.perf_counter() - began < seconds:
            hashlib.sha256(block)  # gives the interpreter's lock away

    with ThreadPoolExecutor(cores) as threads:
        list(threads.map(work, range(cores)))
    waited = time.perf_counter() - began
    return min(1.0, max(0.01, (time.process_time() - used) / (waited * cores)))


def memory_held() -> int:
    """Return the bytes of memory that this process holds; 0 where the system does not say."""
    return _status_bytes("VmRSS")


def watch_memory_anew() -> None:
    """Let `most_memory_held` count from now on, where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def most_memory_held() -> int:
    """Return the bytes of memory that this process has held at most; 0 where the system does not say."""
    return _status_bytes("VmHWM")


def _status_bytes(name: str) -> int:
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
    return 0


def use_one_core() -> None:
    """Keep this process on one of its cores, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def limit_thread_pools() -> None:
    """Tell OpenMP and BLAS, before they are loaded, of a CPU quota that they would overrun.

    They go by affinity alone. What the user has set in the environment stands.
    """
    if usable_cores() < _cores_by_affinity():
        os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores()))


@contextmanager
def torch_within_cores() -> Iterator[None]:
    """Let torch use at most as many threads as there are usable cores, and restore its own number afterwards."""
    import torch

    threads, cores = torch.get_num_threads(), usable_cores()
    if threads <= cores:
        yield
        return
    torch.set_num_threads(cores)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _cores_by_affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache  # kernels ask before every batch, and a quota hardly ever changes while a process runs
def _cores_by_quota(root: Path) -> int | None:
    """Return the cores that the tightest quota is worth, rounded up, or None without one."""
    return min((ceil(quota) for group in _groups(root, "cpu") if (quota := _cpu_quota(group))), default=None)


def _cpu_quota(group: Path) -> float | None:
    """Return seconds of processor time per second, or None without a limit."""
    words = _text(group / "cpu.max").split()  # version 2: "max 100000" or "150000 100000"
    words = words or [_text(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    match [_number(word) for word in words]:
        case [int(quota), int(period)] if period:
            return quota / period
    return None


def _spare_memory(group: Path) -> int | None:
    """Return what a group's limit leaves beside what it cannot give back, or None without a limit.

    Cached files count as used, but go when memory is needed.
    """
    limits = [_number(_text(group / name)) for name in ("memory.max", "memory.high", "memory.limit_in_bytes")]
    used = _number(_text(group / "memory.current") or _text(group / "memory.usage_in_bytes"))
    known = [limit for limit in limits if limit is not None]
    return min(known) - used + _file_cache(group) if known and used is not None else None


def _file_cache(group: Path) -> int:
    lines = (line.split() for line in _text(group / "memory.stat").splitlines())
    facts = {name: int(value) for name, value in lines}
    # Version 1 has numbers of the group alone beside those that include groups inside it, as its usage does.
    return sum(facts.get(f"total_{name}", facts.get(name, 0)) for name in ("active_file", "inactive_file"))


def _available_memory(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return 1024 * int(value.split()[0])
    return None


class _Mount(NamedTuple):
    """A tree of control groups, where this process sees it."""

    folder: Path
    shown: PurePosixPath  # the group that is at the folder
    kind: str  # cgroup or, in version 2, cgroup2
    controllers: frozenset[str]  # in version 2 unknown


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the groups that limit this process, innermost first. Some may not exist."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for mount in _mounts(root):
            if mount.kind == "cgroup2" if not controllers else controller in mount.controllers:
                parts = _parts_inside(mount, PurePosixPath(path))
                yield from (mount.folder.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _parts_inside(mount: _Mount, group: PurePosixPath) -> tuple[str, ...]:
    """Return the group's path below the mount; where it is not shown there, the path of the mount itself.

    A container without a cgroup namespace sees its own group as the mount, but gets the path on the host.
    """
    parts = group.relative_to(mount.shown).parts if group.is_relative_to(mount.shown) else ()
    return () if ".." in parts else parts


def _mounts(root: Path) -> Iterator[_Mount]:
    for line in _text(root / "proc/self/mountinfo").splitlines():
        where, _, what = (part.split() for part in line.partition(" - "))
        if len(where) >= 5 and len(what) >= 3 and what[0] in ("cgroup", "cgroup2"):
            folder = root / PurePosixPath(where[4]).relative_to("/")
            yield _Mount(folder, PurePosixPath(where[3]), what[0], frozenset(what[2].split(",")))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # it is not there on this system, or not for this user
        return ""


def _number(text: str) -> int | None:
    """Return what a limit says, or None for "max", for -1 and for nothing."""
    return int(text) if text.isdecimal() else None
