"""A server in a process of its own: started on a core, waited for until it is ready, stopped; and what it takes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from time import monotonic, sleep

from benchmarks.chaos.connections import HOST
from benchmarks.chaos.exchange import exchange
from benchmarks.chaos.wire import Answer, request

_PROXY = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
READY = request("GET", "/readyz")
_PORTS = range(20_000, 30_000)  # below those that the system gives to clients
_START = 180.0  # seconds until it is ready; the first start on a machine compiles kernels
_STOP = 20.0


@dataclass(frozen=True, kw_only=True)
class Server:
    process: subprocess.Popen[bytes]
    port: int
    log: Path  # what it has said

    def pids(self) -> list[int]:
        """Itself and all that came of it."""
        return tree_of(self.process.pid)

    def memory(self) -> float:
        """Megabytes that are nobody else's, of all its processes."""
        return memory_of(self.pids())

    def descriptors(self) -> int:
        """Return the number of open files and connections of all its processes."""
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in self.pids())

    def ready(self) -> Answer | None:
        return self.asked(READY)

    def asked(self, sends: bytes, seconds: float = 10) -> Answer | None:
        """On a connection of its own."""
        try:
            answers = exchange(self.port, sends, seconds=seconds).answers
        except OSError:
            return None
        return answers[0] if answers else None


@contextmanager
def laconic_serve(model: Path, *options: str, log: Path, core: int | None = None) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "laconic", "serve", str(model), "--port", str(port), "--quiet", *options]
    with serving(command, port, log=log, core=core) as server:
        yield server


@contextmanager
def haproxy(behind: Server, folder: Path, core: int | None = None) -> Iterator[Server]:
    """HAProxy before a server, by deploy/haproxy.cfg with other ports."""
    program = which("haproxy")
    if program is None:
        raise SystemExit("haproxy is not installed")
    port, config = free_port(), folder / "haproxy.cfg"
    text = _PROXY.read_text(encoding="utf-8")
    assert "bind :80\n" in text
    assert "127.0.0.1:8000 " in text
    text = text.replace("bind :80\n", f"bind {HOST}:{port}\n").replace("127.0.0.1:8000 ", f"{HOST}:{behind.port} ")
    config.write_text(text, encoding="utf-8")
    with serving([program, "-db", "-f", str(config)], port, log=folder / "haproxy.log", core=core) as server:
        yield server


@contextmanager
def serving(command: Sequence[str], port: int, *, log: Path, core: int | None = None) -> Iterator[Server]:
    """A server that answers at the port; with the block it ends, if it has not before."""
    with log.open("wb") as said, on_core(core):
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
    server = Server(process=process, port=port, log=log)
    try:
        _wait(server)
        yield server
    finally:
        _end(process)


def free_port() -> int:
    first = os.getpid() * 101 % len(_PORTS)  # processes that look at the same time look elsewhere
    for port in (*_PORTS[first:], *_PORTS[:first]):
        with socket.socket() as one, suppress(OSError):
            one.bind((HOST, port))
            return port
    raise OSError("no port is free")


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """This process and those that it starts meanwhile; None: wherever they may be."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def two_cores() -> tuple[int, int]:
    """One for the server, one for who asks; the same where there is no other."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


def tree_of(pid: int) -> list[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def memory_of(pids: Sequence[int]) -> float:
    """Megabytes of these processes that are not pages of files."""
    return sum(map(_anonymous_bytes, pids)) / 1e6


def _anonymous_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0  # it ended meanwhile
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def _wait(server: Server) -> None:
    end = monotonic() + _START
    while monotonic() < end and server.process.poll() is None:
        answer = server.ready()
        if answer is not None and answer.status == 200:
            return
        sleep(0.05)
    code = server.process.poll()
    raise RuntimeError(f"the server is not ready (exit code {code}): {server.log.read_text()[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_STOP)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
