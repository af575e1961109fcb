"""Keep-alive connections that have one request under way at a time. Knows nothing of rates or of what is right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from benchmarks.chaos.wire import Answer, first_answer

HOST = "127.0.0.1"
Then: TypeAlias = Callable[[Answer | None], None]  # None: the connection was lost before its answer was whole


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.open, self.answers = False, 0
        self._then: Then | None = None
        self._received = b""

    @classmethod
    async def to(cls, port: int) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return connection

    def send(self, request: bytes, then: Then) -> None:
        self._then = then
        self._transport.write(request)

    async def ask(self, request: bytes) -> Answer | None:
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.send(
            request, lambda found: None if answer.done() else answer.set_result(found)
        )  # nobody may wait any more
        return await answer

    def close(self) -> None:
        self.open = False
        self._transport.close()

    def connection_made(self, transport: Any) -> None:  # uvloop's are no asyncio.Transport
        self.open, self._transport = True, transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        found = first_answer(self._received)
        if found is None:
            return
        answer, end = found
        self._received = self._received[end:]
        self.answers += 1
        if answer.closes:
            self.close()
        self._tell(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._tell(None)

    def _tell(self, answer: Answer | None) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(answer)
