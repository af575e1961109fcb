"""Starts and stops the processes of the service; accepted requests are answered before it stops."""

from __future__ import annotations

import logging
import logging.config
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from time import monotonic, sleep
from typing import Any

from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings

from laconic.errors import ConfigError
from laconic.predict.load import Speed
from laconic.serve.logs import LOG, log_settings
from laconic.serve.settings import Serving
from laconic.serve.version import opened

log = logging.getLogger(LOG)
_COUNTERS = "PROMETHEUS_MULTIPROC_DIR"  # laconic.serve.metrics reads it; to import that here would be too soon
_MINUTE, _PAUSE = 60.0, 0.5  # seconds; a pause before a worker is replaced that died again
_MOST_DEATHS = 10  # of a worker in a minute; then the service ends
_BACKLOG = 4096  # connections, of which slow ones may be many


def serve(
    model: Path, settings: Serving, speed: Speed, *, started: Callable[[Serving], None] = lambda settings: None
) -> None:
    """Serve until a signal stops it. A model that cannot be served is reported before a port is taken.

    `started` is called once the server starts, with the port that it listens on.
    """
    logging.config.dictConfig(log_settings())
    opened(model, speed, verify=True)
    settings = replace(settings, port=settings.port or _free_port(settings.host))
    _check_port(settings)
    if not (settings.loopback or settings.token):
        log.warning("whoever reaches this address may use the service; --token-file asks for a token")
    with TemporaryDirectory(prefix="laconic-serve-") as counters, _environment(_COUNTERS, counters):
        server = _server(settings)

        def begin() -> None:
            _hear_signals(server, settings.time_limits.drain)
            started(settings)

        server.on_startup(begin)
        server.serve(target_loader=partial(_application, model, settings, speed, os.getpid()), wrap_loader=False)


def _application(model: Path, settings: Serving, speed: Speed, main: int) -> Any:
    """Make the application in a worker process."""
    os.setpgid(0, 0)  # a signal to the whole group, as Ctrl-C is, is for the main process to hand on
    from laconic.serve.routes import application

    return application(model, settings, speed, main)


class _Server(Granian):  # type: ignore[misc,valid-type]  # granian's base class depends on the build of Python
    """Granian with another rule for workers that die: its own ends the service at a second death in 5.5 seconds."""

    deaths: tuple[float, ...] = ()  # times of the last minute

    def _respawn_workers(self, workers: Sequence[int], *arguments: Any, **options: Any) -> None:
        now, pids = monotonic(), [self.wrks[number].inner.pid for number in workers]
        self.deaths = (*(death for death in self.deaths if now - death < _MINUTE), *(now for _ in workers))
        log.error("a worker died and is replaced", extra={"fields": {"died": pids, "last_minute": len(self.deaths)}})
        _forget_gauges(pids)
        if len(self.deaths) > self.workers:  # some died again
            sleep(_PAUSE)
        super()._respawn_workers(workers, *arguments, **options)
        if len(self.deaths) <= _MOST_DEATHS * self.workers:
            self.respawned_wrks.clear()  # granian ends the service if one of these dies again soon


def _forget_gauges(pids: Iterable[int]) -> None:
    """Remove what dead workers counted as their present state."""
    for pid in pids:
        for path in Path(os.environ[_COUNTERS]).glob(f"gauge_live*_{pid}.db"):
            path.unlink()


def _server(settings: Serving) -> Any:
    time_limits = settings.time_limits
    return _Server(
        "laconic",  # a name for its logs; target_loader makes the application
        address=settings.host,
        port=settings.port,
        workers=settings.workers,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_BACKLOG,
        http1_settings=HTTP1Settings(header_read_timeout=round(time_limits.headers * 1e3)),
        log_dictconfig=log_settings(),
        respawn_failed_workers=True,
        workers_kill_timeout=max(1, round(time_limits.stop)),
    )


def _hear_signals(server: Any, drain: float) -> None:
    """Install the main process's signal handlers after granian's: delay a stop, and forward signals to the workers."""
    from laconic.serve.worker import DRAIN, REFRESH

    def forward(number: int) -> None:
        for worker in server.wrks:
            if worker.is_alive():
                os.kill(worker.inner.pid, number)

    def stop(number: int, frame: Any) -> None:
        forward(DRAIN)
        Timer(drain, server.signal_handler_interrupt).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(REFRESH, lambda number, frame: forward(REFRESH))
    signal.signal(DRAIN, signal.SIG_IGN)  # until a worker hears it itself


def _free_port(host: str) -> int:
    with _bound(host, 0) as one:
        return int(one.getsockname()[1])


def _check_port(settings: Serving) -> None:
    with _bound(settings.host, settings.port):
        pass


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port))
        except (OSError, TypeError) as error:  # the latter of a name that cannot be written as one of a machine
            raise ConfigError(f"{host}:{port} cannot be used ({error}); choose another --host or --port") from None
        yield one


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
