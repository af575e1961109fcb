"""Reads a request's body within limits on size and time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from laconic.serve.errors import Refusal, too_large, too_slow

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


_MOST_PARTS = 2000  # that a body may come in; each costs about as much, however small it is


class Gone(Exception):  # noqa: N818 - nothing went wrong here
    """The client disconnected, or sent something that is not a body."""


def header(headers: Headers, name: bytes) -> bytes:
    """Return the value of a header, empty if it is missing. Names are lower case."""
    return next((value for key, value in headers if key == name), b"")


def check_announced(headers: Headers, most: int) -> None:
    """Refuse a body by its announced length, before any of it is read."""
    announced = header(headers, b"content-length")
    if announced and (not announced.isdigit() or len(announced) > 18 or int(announced) > most):
        raise too_large(most)


def check_is_json(headers: Headers) -> None:
    kind = header(headers, b"content-type").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Refusal(415, "wrong_type", "the content-type must be application/json")


async def read_body(receive: Receive, most: int, seconds: float) -> bytes:
    """All of it; it has so many seconds, however many parts it comes in."""
    try:
        async with asyncio.timeout(seconds):
            return b"".join([part async for part in _parts(receive, most)])
    except TimeoutError:
        raise too_slow() from None


async def _parts(receive: Receive, most: int) -> AsyncIterator[bytes]:
    size, count, more = 0, 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        part: bytes = message.get("body", b"")
        size, count, more = size + len(part), count + 1, message.get("more_body", False)
        if size > most or count > _MOST_PARTS:
            raise too_large(most)
        yield part
