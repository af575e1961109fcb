"""How processes are started and stopped; a real server's life is test_chaos.py's."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from laconic.errors import ConfigError, ModelError
from laconic.predict.load import Speed
from laconic.serve import server as running
from laconic.serve.asgi import Gateway
from laconic.serve.metrics import FOLDER
from laconic.serve.settings import Serving, TimeLimits
from laconic.serve.worker import DRAIN, REFRESH

SIGNALS = (signal.SIGTERM, signal.SIGINT, REFRESH, DRAIN)


@pytest.fixture(autouse=True)
def _logs_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are this process's, and other tests read them."""
    monkeypatch.setattr("logging.config.dictConfig", lambda settings: None)


class Server:
    """In granian's place."""

    def __init__(self, settings: Serving) -> None:
        self.settings, self.started, self.loaded = settings, list[Callable[[], None]](), list[Any]()

    def on_startup(self, hook: Callable[[], None]) -> None:
        self.started.append(hook)

    def serve(self, *, target_loader: Callable[[], Any], wrap_loader: bool) -> None:
        self.counters = Path(os.environ[FOLDER])
        assert self.counters.is_dir()
        self.loaded.append(target_loader())


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    made: list[Server] = []
    monkeypatch.setattr(running, "_server", lambda settings: made.append(Server(settings)) or made[-1])
    monkeypatch.setattr(running.os, "setpgid", lambda *numbers: None)  # it is the worker that leaves its group
    return made


def test_a_service_is_started_with_counters_of_its_own(
    kept: Path, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, "/before")
    running.serve(kept, Serving(port=0), Speed(threads=1))
    (server,) = servers
    assert server.settings.port > 0
    assert len(server.started) == 1
    assert isinstance(server.loaded[0], Gateway)
    assert (os.environ[FOLDER], server.counters.exists()) == ("/before", False)


def test_a_model_that_cannot_be_served_is_said_before_anything_is_started(
    servers: list[Server], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="this is not a model folder"):
        running.serve(tmp_path, Serving(port=0), Speed())
    assert not servers
    assert FOLDER not in os.environ


def test_a_port_that_is_taken_is_said_before_anything_is_started(kept: Path, servers: list[Server]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port} cannot be used .*choose another --host or --port"):
            running.serve(kept, Serving(port=port), Speed(threads=1))
    assert not servers


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "ü" * 70, "\udcff"])
def test_a_host_that_is_not_this_machine_is_named(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        running._free_port(host)


def test_a_server_is_told_how_patient_it_is_to_be() -> None:
    server = running._server(Serving(port=4711, workers=3, time_limits=TimeLimits(headers=2.5, stop=3.0)))
    assert (server.bind_port, server.workers, server.workers_kill_timeout) == (4711, 3, 3)
    assert server.http1_settings.header_read_timeout == 2500


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """Signals that go to workers, of which one is dead; and afterwards the signals are as they were."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(running.os, "kill", lambda *signal: sent.append(signal))
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield sent
    for number, handler in before.items():
        signal.signal(number, handler)


def worker(number: int, alive: bool) -> Any:
    return SimpleNamespace(is_alive=lambda: alive, inner=SimpleNamespace(pid=number))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_told_to_the_workers_a_while_before_it_comes(heard: list[tuple[int, int]], number: int) -> None:
    stopped = threading.Event()
    workers = [worker(7, True), worker(8, False), worker(9, True)]
    server = SimpleNamespace(wrks=workers, signal_handler_interrupt=stopped.set)
    running._hear_signals(server, 0.01)
    signal.raise_signal(number)
    assert heard == [(7, DRAIN), (9, DRAIN)]
    assert stopped.wait(30)


def test_other_signals_go_on_to_the_workers_or_nowhere(heard: list[tuple[int, int]]) -> None:
    running._hear_signals(SimpleNamespace(wrks=[worker(7, True)]), 0.0)
    signal.raise_signal(REFRESH)
    assert heard == [(7, REFRESH)]
    signal.raise_signal(DRAIN)
    assert len(heard) == 1


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A server with two workers, which granian would replace as it was asked to."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    server = running._server(Serving(workers=2))
    server.wrks = [worker(7, False), worker(8, True)]

    def respawn(self: Any, workers: list[int], *arguments: Any) -> None:
        self.respawned_wrks.update(dict.fromkeys(workers, 1.0))

    monkeypatch.setattr(running.Granian, "_respawn_workers", respawn)
    return server


def test_a_worker_that_dies_again_and_again_is_replaced_ever_later_until_the_service_ends(
    crowd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(running, "sleep", pauses.append)
    for death in range(20):
        crowd._respawn_workers([0], "target", "loader")
        assert not crowd.respawned_wrks, "what granian takes for a crash loop"
        assert len(pauses) == max(0, death - 1)
    crowd._respawn_workers([0], "target", "loader")
    assert crowd.respawned_wrks, "granian ends the service at the next death"


def test_deaths_of_more_than_a_minute_ago_are_forgotten(crowd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(running, "monotonic", lambda: clock[0])
    monkeypatch.setattr(running, "sleep", lambda seconds: None)
    for _ in range(50):
        clock[0] += 7
        crowd._respawn_workers([0], "target", "loader")
        assert not crowd.respawned_wrks
    assert len(crowd.deaths) == 9


def test_texts_that_a_dead_worker_had_waiting_are_no_longer_counted(crowd: Any, tmp_path: Path) -> None:
    for name in ("gauge_livesum_7.db", "gauge_livesum_8.db", "counter_7.db"):
        (tmp_path / name).touch()
    crowd._respawn_workers([0], "target", "loader")
    assert {path.name for path in tmp_path.iterdir()} == {"gauge_livesum_8.db", "counter_7.db"}


@pytest.mark.parametrize(
    ("settings", "warned"),
    [({}, 0), ({"host": "0.0.0.0"}, 1), ({"host": "0.0.0.0", "token": "hush"}, 0), ({"host": "localhost"}, 0)],
)
@pytest.mark.usefixtures("servers")
def test_a_service_for_other_machines_without_a_token_is_warned_of(
    kept: Path, settings: dict[str, str], warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    running.serve(kept, Serving(port=0, **settings), Speed(threads=1))
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["whoever reaches this address may use the service; --token-file asks for a token"] * warned
