"""What goes on beside answering: the folder is watched, signals are heard, and the end waits for the last answer."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from laconic.predict.load import Speed
from laconic.serve import worker as module
from laconic.serve.model import Served
from laconic.serve.schemas import Question
from laconic.serve.settings import Serving, TimeLimits
from laconic.serve.worker import DRAIN, REFRESH, Service
from tests.serve.asking import Site, predict
from tests.serve.small import in_process, write

QUICK = Serving(time_limits=TimeLimits(look=0.01))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "model")


def run(claim: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(claim, 60))


async def becomes(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)


def service_of(folder: Path, settings: Serving = QUICK) -> Service:
    return Service(Served(folder, Speed(threads=1), trial=in_process), settings)


def swaps(service: Service, result: str) -> float:
    return float(service.measures.swaps.labels(result)._value.get())


def test_nothing_keeps_the_version_that_was_replaced(folder: Path) -> None:
    """Its files would stay open, and its memory taken, as long as the service runs."""

    async def claim() -> None:
        service = service_of(folder)
        old = weakref.ref(service.served.now)
        async with service.at_work():
            await service.answer(Question(text="a"), 60)
            write(folder, neighbours=1)
            await becomes(lambda: swaps(service, "taken") == 1)
            await service.answer(Question(text="a"), 60)
            gc.collect()
            assert old() is None

    run(claim())


def test_a_changed_folder_takes_over_while_it_is_served(folder: Path) -> None:
    async def claim() -> None:
        service = service_of(folder)
        old = service.served.now.name
        async with service.at_work():
            before = service.measures.loaded._value.get()
            write(folder, neighbours=1)
            await becomes(lambda: service.served.now.name != old)
            await becomes(lambda: service.measures.loaded._value.get() > before)
            assert swaps(service, "taken") == 1

    run(claim())


def errors(service: Service, task: str) -> float:
    return float(service.measures.errors.labels(task)._value.get())


class Panic(BaseException):
    """As errors of Rust's are: not an Exception."""


@pytest.mark.parametrize(
    ("where", "error"), [("changed", ZeroDivisionError), ("refresh", MemoryError), ("refresh", Panic)]
)
def test_the_folder_is_watched_on_after_an_unforeseen_error(
    folder: Path,
    where: str,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unforeseen(*arguments: Any) -> bool:
        raise error("nobody thought of this")

    monkeypatch.setattr(module, "_PAUSE", 0.01)

    async def claim() -> None:
        service = service_of(folder)
        async with service.at_work():
            with monkeypatch.context() as patch:
                patch.setattr(service.served, where, unforeseen)
                write(folder, neighbours=1)
                await becomes(lambda: errors(service, "watch") > 1)
            write(folder, neighbours=2)
            await becomes(lambda: swaps(service, "taken") == 1)
        assert "laconic_background_errors_total" in service.measures.text().decode()

    with caplog.at_level(logging.ERROR):
        run(claim())
    told = [record for record in caplog.records if record.exc_info]
    assert told
    assert {record.getMessage() for record in told} == {"unexpected error in a background task; it continues"}
    assert told[0].exc_info is not None
    assert told[0].exc_info[0] is error


def test_refused_requests_are_told_on_after_an_unforeseen_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def claim() -> None:
        monkeypatch.setattr(module, "_TOLD_EVERY", 0.01)
        monkeypatch.setattr(module, "_PAUSE", 0.01)
        service = service_of(folder)
        tell, broken = service._tell, [True]

        def once_broken() -> None:
            if broken:
                broken.pop()
                raise ZeroDivisionError
            tell()

        monkeypatch.setattr(service, "_tell", once_broken)
        async with service.at_work():
            service.turned_away = 3
            await becomes(lambda: service.turned_away == 0)
        assert errors(service, "tell") == 1

    run(claim())


def test_the_folder_is_watched_on_after_one_that_could_not_be_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def claim() -> None:
        service = service_of(folder)
        old = service.served.now
        async with service.at_work():
            shutil.rmtree(folder)
            await becomes(lambda: swaps(service, "refused") > 0 and not service.served.changed())
            refused = swaps(service, "refused")
            with monkeypatch.context() as patch:
                patch.setattr("laconic.serve.model.opened", broken_disk)
                write(folder, neighbours=1)
                await becomes(lambda: swaps(service, "refused") > refused and not service.served.changed())
            assert service.served.now is old
            (folder / "packed" / "NOTES.md").write_text("the disk is whole again")
            await becomes(lambda: swaps(service, "taken") == 1)

    run(claim())


def broken_disk(*arguments: Any, **options: Any) -> None:
    raise OSError(5, "Input/output error")


def test_without_looks_only_a_signal_takes_a_changed_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timeout, waits = asyncio.timeout, list[float]()
    monkeypatch.setattr(module.asyncio, "timeout", lambda seconds: waits.append(seconds) or timeout(0.01))

    async def claim() -> None:
        service = service_of(folder, Serving(time_limits=TimeLimits(look=0.0)))
        old = service.served.now.name
        async with service.at_work():
            write(folder, neighbours=1)
            waited = len(waits)
            await becomes(lambda: len(waits) > waited + 2)
            assert service.served.now.name == old
            os.kill(os.getpid(), REFRESH)
            await becomes(lambda: service.served.now.name != old)

    run(claim())


def test_a_signal_says_that_it_is_to_stop(folder: Path) -> None:
    async def claim() -> None:
        service = service_of(folder)
        async with service.at_work():
            os.kill(os.getpid(), DRAIN)
            await becomes(lambda: service.stopping)
            assert await service.answer(Question(text="a"), 30.0)

    run(claim())


def test_the_end_waits_for_the_last_answer(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def claim() -> None:
        service = service_of(folder)
        async with service.at_work():
            asked = [asyncio.create_task(service.answer(Question(text="a"), 30.0)) for _ in range(9)]
            await asyncio.sleep(0)
        assert all(one.done() and one.result() for one in asked)

    run(claim())
    first, *_, last = [record for record in caplog.records if record.name == "laconic.serve"]
    assert (first.message, last.message) == ("serving", "stopped")
    assert first.fields["url"] == "http://127.0.0.1:8000"  # type: ignore[attr-defined]  # what `extra` adds to a record
    assert first.fields["folder"] == folder / "packed"  # type: ignore[attr-defined]  # what `extra` adds to a record


def test_the_application_is_at_work_from_its_start_to_its_end(folder: Path) -> None:
    """As a server says so."""

    async def claim() -> None:
        site, heard, told = Site(service_of(folder)), asyncio.Queue[dict[str, Any]](), asyncio.Queue[dict[str, Any]]()
        lifespan = asyncio.create_task(site.app({"type": "lifespan", "asgi": {}, "state": {}}, heard.get, told.put))
        await heard.put({"type": "lifespan.startup"})
        assert (await told.get())["type"] == "lifespan.startup.complete"
        old = site.service.served.now.name
        write(folder, neighbours=1)
        await becomes(lambda: site.service.served.now.name != old)
        reply = await site.visit(predict({"text": "a"}))
        assert reply is not None
        assert reply.said["model"] == site.service.served.now.name
        await heard.put({"type": "lifespan.shutdown"})
        assert (await told.get())["type"] == "lifespan.shutdown.complete"
        await lifespan

    run(claim())


def test_those_who_were_turned_away_are_told_of_together(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TOLD_EVERY", 0.01)

    async def claim() -> None:
        site = Site(service_of(folder))
        async with site.service.at_work():
            site.service.batcher.texts = 10_000
            for _ in range(3):
                await site.visit(predict({"text": "a"}))
            await becomes(lambda: site.service.turned_away == 0)
            site.service.batcher.texts = 0

    run(claim())
    told = [record.fields for record in caplog.records if record.message == "too busy"]  # type: ignore[attr-defined]  # what `extra` adds to a record
    assert sum(one["refused"] for one in told) == 3


def test_a_worker_without_its_main_process_stops(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    monkeypatch.setattr(module.signal, "raise_signal", raised.append)

    async def claim() -> None:
        service = service_of(folder)
        async with service.at_work():
            await asyncio.sleep(0.03)
            assert not raised
            monkeypatch.setattr(module.os, "getppid", lambda: 1)
            await becomes(lambda: bool(raised))

    run(claim())
    assert raised == [signal.SIGTERM]
