"""HTTP/1.1 as bytes: requests that are built once and sent often, and of answers no more than what is asked of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

NOTHING: Mapping[str, str] = {}
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)


class Answer(NamedTuple):
    status: int
    head: bytes  # the status line and headers
    body: bytes

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this answer."""
        return _CLOSE.search(self.head) is not None

    def header(self, name: str) -> str | None:
        found = re.search(rb"\r\n" + re.escape(name.encode()) + rb":[ \t]*([^\r\n]*)", self.head, re.IGNORECASE)
        return found[1].decode("latin-1") if found else None

    def json(self) -> Any:
        return json.loads(self.body)


def request(method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = NOTHING) -> bytes:
    length = {} if body is None else {"content-length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in {"host": "localhost", **length, **headers}.items()]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + (body or b"")


def question(asked: Mapping[str, Any], headers: Mapping[str, str] = NOTHING) -> bytes:
    """A request for predictions."""
    body = json.dumps(asked, ensure_ascii=False).encode()
    return request("POST", "/v1/predict", body, {"content-type": "application/json", **headers})


def first_answer(received: bytes) -> tuple[Answer, int] | None:
    """The answer that the bytes begin with, and where it ends; None: it is not all there yet."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head, begin = received[:end], end + 4
    if not head.startswith(b"HTTP/1."):
        raise ValueError(f"this is not HTTP: {head[:40]!r}")
    status = int(head[9:12])
    if status < 200:  # "100 Continue" says nothing yet
        later = first_answer(received[begin:])
        return later and (later[0], begin + later[1])
    length = _LENGTH.search(head)
    if length is None:
        return _chunked(status, head, received, begin) if _CHUNKED.search(head) else (Answer(status, head, b""), begin)
    last = begin + int(length[1])
    return (Answer(status, head, received[begin:last]), last) if len(received) >= last else None


def _chunked(status: int, head: bytes, received: bytes, begin: int) -> tuple[Answer, int] | None:
    parts = []
    while (line := received.find(b"\r\n", begin)) >= 0:
        size = int(received[begin:line].partition(b";")[0], 16)
        parts.append(received[line + 2 : line + 2 + size])
        begin = line + 2 + size + 2
        if begin > len(received):
            return None
        if size == 0:
            return Answer(status, head, b"".join(parts)), begin
    return None
