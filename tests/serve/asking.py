"""Calls the application as a server does: with a scope, with the parts of a body, and with somebody who listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from laconic.serve.routes import application_of
from laconic.serve.worker import Service

JSON = {"content-type": "application/json"}


class Gone(NamedTuple):
    """In place of a body's part: the client is gone."""


class Pause(NamedTuple):
    """In place of a body's part: the client sends nothing for a while."""

    seconds: float


@dataclass(kw_only=True)
class Request:
    method: str = "GET"
    path: str = "/"
    headers: Mapping[str, str | bytes] = field(default_factory=dict)
    body: tuple[bytes | Gone | Pause, ...] = (b"",)  # in parts
    read: int = 0  # parts that were asked for, when it was last made


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def said(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a refusal, which must be one in our form."""
        said = self.said
        assert said.keys() == {"error", "request_id"}
        assert said["error"].keys() - {"where"} == {"code", "message"}
        assert said["request_id"] == self.headers["x-request-id"]
        assert len(self.body) <= 4096
        return str(said["error"]["code"])


class Site:
    """A service and its application."""

    def __init__(self, service: Service) -> None:
        self.service, self.app = service, application_of(service)
        self.sent: list[dict[str, Any]] = []  # to whom asked last
        self.asked = ""  # by which method

    def ask(self, request: Request) -> Reply:
        """The reply to somebody who waits for it."""
        reply = asyncio.run(self.visit(request))
        assert reply is not None
        return reply

    async def visit(self, request: Request) -> Reply | None:
        """The reply; None: nothing was sent."""
        self.sent, request.read = [], 0

        async def receive() -> dict[str, Any]:
            part = request.body[request.read]
            request.read += 1
            if isinstance(part, Gone):
                return {"type": "http.disconnect"}
            if isinstance(part, Pause):
                await asyncio.sleep(part.seconds)
                part = b""
            return {"type": "http.request", "body": part, "more_body": request.read < len(request.body)}

        async def send(message: dict[str, Any]) -> None:
            self.sent.append(message)

        await self.app(scope_of(request), receive, send)
        self.asked = request.method
        return self.reply()

    def reply(self) -> Reply | None:
        """What the last one who asked was told, come what may."""
        return _reply(self.sent, bodiless=self.asked == "HEAD")


def scope_of(request: Request) -> dict[str, Any]:
    path, _, query = request.path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), _bytes(value)) for name, value in request.headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }


def predict(question: Any, **headers: str) -> Request:
    """A question as it is usually asked; headers_like_this are sent with hyphens."""
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method="POST", path="/v1/predict", headers={**JSON, **named}, body=(body,))


def _reply(sent: list[dict[str, Any]], *, bodiless: bool) -> Reply | None:
    if not sent:
        return None
    first, *rest = sent
    assert first["type"] == "http.response.start"
    names = [name for name, _ in first["headers"]]
    assert len(names) == len(set(names)), "a header was sent twice"
    headers = {name.decode(): value.decode() for name, value in first["headers"]}
    body = b"".join(message.get("body", b"") for message in rest)
    if "content-length" in headers and not bodiless:
        assert int(headers["content-length"]) == len(body)
    return Reply(status=first["status"], headers=headers, body=body)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
