"""The state of a worker process: model, queue and metrics; and its background tasks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic, time

from laconic.serve.batcher import Batcher
from laconic.serve.logs import LOG
from laconic.serve.metrics import Metrics
from laconic.serve.model import Served
from laconic.serve.responses import Asked, answering
from laconic.serve.schemas import Question
from laconic.serve.settings import Serving

log = logging.getLogger(LOG)
PREDICT = "/v1/predict"  # where questions are asked
REFRESH, DRAIN = signal.SIGUSR1, signal.SIGUSR2  # granian keeps SIGHUP, SIGINT and SIGTERM for itself
_TOLD_EVERY = 1.0  # seconds between lines about refused requests
_PAUSE = 1.0  # seconds after an unforeseen error in the background, so that it does not fill the log


class Service:
    """The model, queue and metrics of a worker process."""

    def __init__(self, served: Served, settings: Serving, main: int | None = None) -> None:
        self.served, self.settings, self.measures = served, settings, Metrics()
        self.batcher: Batcher[Asked, bytes] = Batcher(
            answering(served, settings.limits), queue=settings.queue, batch=settings.batch, on_batch=self._on_batch
        )
        self.stopping = False  # no new clients are wanted
        self.refused = self.turned_away = 0  # requests since that was last logged; turned away: before they were read
        self._look_now = asyncio.Event()
        self._parent = main or os.getppid()  # which may have died while this process started

    async def answer(self, question: Question, seconds: float) -> bytes:
        """Return the body of an answer."""
        asked = Asked(question, monotonic() + seconds)
        return await self.batcher.ask(asked, len(question.asked), asked.deadline)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """From the first request to the last: the folder is watched and signals are heard."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(REFRESH, self._look_now.set)
        loop.add_signal_handler(DRAIN, self.drain)
        rounds = {"watch": self._watch, "tell": self._tell_refused}
        beside = [asyncio.create_task(self._again_and_again(*each)) for each in rounds.items()]
        self.measures.loaded.set(time())
        self._tell_start()
        yield
        for task in beside:
            task.cancel()
        self.served.close()
        await self.batcher.close()
        self._tell()
        log.info("stopped")

    def _tell_start(self) -> None:
        """Log what is served, in a function of its own: a variable of `at_work` would keep the version to the end."""
        version = self.served.now
        fields = {"url": self.settings.url, "model": version.name, "folder": version.folder}
        log.info("serving", extra={"fields": fields})

    def drain(self) -> None:
        """Ask clients to close their connections; requests that still come are answered."""
        self.stopping = True

    def _on_batch(self, texts: int) -> None:
        self.measures.batches.observe(texts)
        self.measures.waiting.set(self.batcher.texts)

    async def _again_and_again(self, task: str, round: Callable[[], Awaitable[None]]) -> None:
        """Run rounds of a background task without end. One that fails unforeseen is logged and counted."""
        while True:
            try:
                await round()
            except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # a panic of Rust's too: nobody awaits this task, so it would end without a word
                log.exception("unexpected error in a background task; it continues", extra={"fields": {"task": task}})
                self.measures.errors.labels(task).inc()
                await asyncio.sleep(_PAUSE)

    async def _watch(self) -> None:
        """Wait for a change of the model folder, or for a signal, and take the new model."""
        look = self.settings.time_limits.look
        try:
            async with asyncio.timeout(look or 1.0):
                await self._look_now.wait()
        except TimeoutError:
            self._check_parent()
            if not look or not self.served.changed():
                return
        self._look_now.clear()
        if await asyncio.to_thread(self.served.refresh, self._on_swap):
            self.measures.loaded.set(time())

    def _check_parent(self) -> None:
        """Stop the worker if its main process was killed."""
        if os.getppid() != self._parent:
            log.error("the main process is gone")
            self._parent = os.getppid()
            signal.raise_signal(signal.SIGTERM)

    def _on_swap(self, result: str) -> None:
        self.measures.swaps.labels(result).inc()

    async def _tell_refused(self) -> None:
        """Log refused requests as counts: a line for each would make a busy service busier."""
        await asyncio.sleep(_TOLD_EVERY)
        self._tell()

    def _tell(self) -> None:
        turned_away, refused = self.turned_away, self.refused + self.turned_away
        self.refused = self.turned_away = 0
        if turned_away:
            self.measures.refusals.labels("busy").inc(turned_away)
            self.measures.requests.labels(PREDICT, 503).inc(turned_away)
        if refused:
            log.warning("too busy", extra={"fields": {"refused": refused}})
