"""Bytes to a server and whatever comes back, both at once: whoever sends too much must hear of it while sending."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from select import select
from time import perf_counter

from benchmarks.chaos.connections import HOST
from benchmarks.chaos.wire import Answer, first_answer

_AT_ONCE = 1 << 16  # bytes


@dataclass
class Exchange:
    answers: list[Answer] = field(default_factory=list)
    rest: bytes = b""  # what came and is no answer, or not yet
    closed: bool = False  # by the server
    hung: bool = False  # neither answered nor closed in time
    first: float = float("nan")  # seconds until the first answer


def exchange(port: int, sends: bytes, *, wanted: int = 1, then_ends: bool = False, seconds: float = 10) -> Exchange:
    """Sends all, and reads until there are so many answers or the server has closed the connection.

    `then_ends`: says that nothing more will come once all was sent.
    """
    found, began = Exchange(), perf_counter()
    with socket.create_connection((HOST, port), timeout=seconds) as connection:
        connection.setblocking(False)
        sender = _Sender(connection, sends, then_ends)
        while not found.closed and len(found.answers) < wanted:
            if perf_counter() - began > seconds:
                found.hung = True
                break
            readable, writable, _ = select([connection], [connection] if sender.more else [], [], 0.2)
            if writable:
                sender.send()
            if readable:
                _receive(connection, found)
            if found.answers and found.first != found.first:
                found.first = perf_counter() - began
    return found


class _Sender:
    def __init__(self, connection: socket.socket, sends: bytes, then_ends: bool) -> None:
        self._connection, self._rest, self._then_ends = connection, memoryview(sends), then_ends
        self.more = True

    def send(self) -> None:
        try:
            self._rest = self._rest[self._connection.send(self._rest[:_AT_ONCE]) :]
            if not self._rest and self._then_ends:
                self._connection.shutdown(socket.SHUT_WR)
        except OSError:  # the server wants no more; what it has said can still be read
            self._rest = memoryview(b"")
        self.more = bool(self._rest)


def _receive(connection: socket.socket, found: Exchange) -> None:
    try:
        data = connection.recv(_AT_ONCE)
    except OSError:
        data = b""
    found.closed = not data
    found.rest += data
    for answer, end in _answers(found.rest):
        found.answers.append(answer)
        found.rest = found.rest[end:]


def _answers(received: bytes) -> Iterator[tuple[Answer, int]]:
    """Each with where it ends in what is left by those before."""
    while received.startswith(b"HTTP/1.") and (found := first_answer(received)) is not None:
        yield found
        received = received[found[1] :]
