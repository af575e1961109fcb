"""The ASGI application that granian calls: authorises, limits and logs requests.

Questions are read and answered here, without a framework between, since most of a quick model's time would go there;
every other path is app.py's.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any, TypeAlias

from laconic.serve.body import Gone, Receive, check_announced, check_is_json, header, read_body
from laconic.serve.errors import Refusal, busy
from laconic.serve.logs import LOG
from laconic.serve.schemas import question_of
from laconic.serve.worker import PREDICT, Service

log = logging.getLogger(LOG)
Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Paths that are counted by name.
PATHS = {PREDICT, "/v1/model", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/"}
REQUEST_ID = "laconic.request_id"  # where others find it in a request's scope
GUARDED = ("/v1/", "/metrics")  # beginnings of paths that need the token, where there is one
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}  # that are logged by name
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_JSON, _NOT_STORED = (b"content-type", b"application/json"), (b"cache-control", b"no-store")
_CLOSE = (b"connection", b"close")
_POLICY = b"content-security-policy"
_SAFE = [(b"x-content-type-options", b"nosniff"), (b"x-frame-options", b"DENY")]
_NOT_A_PAGE = (_POLICY, b"default-src 'none'; frame-ancestors 'none'")
_BUSY, _TURNED_AWAY = busy().body("ID"), [_JSON, _NOT_STORED, *_SAFE, _NOT_A_PAGE, *busy().headers()]
_LONGEST_DEADLINE = 60_000  # milliseconds
_CLOSING = {408, 413}  # what else would come of such a request is not waited for


class Gateway:
    """The outer application: checks and limits every request, and answers `/v1/predict` itself."""

    def __init__(self, inside: App, service: Service) -> None:
        self._inside, self._service, self._settings = inside, service, service.settings
        self._token, self._hosts = self._settings.token.encode(), self._settings.known_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inside(scope, receive, send)
            return
        if scope["path"] == PREDICT and self._service.batcher.full:
            await self._turn_away(scope, send)
            return
        visit = _Visit(scope, send, closing=self._service.stopping)
        try:
            if scope["path"] == PREDICT:
                await visit.reply(200, await self._predict(visit, receive), timed=True)
            else:
                self._let_in(visit)
                await self._inside({**scope, "method": "GET"} if visit.bodiless else scope, receive, visit.send)
        except Refusal as refusal:
            await self._refuse(visit, refusal)
        except Gone:  # or what came in its place was no body; whoever is still there hears of it
            await self._refuse(visit, Refusal(400, "bad_request", "the body is incomplete"))
        finally:
            if visit.status:  # a response was begun
                self._note(visit)

    async def _turn_away(self, scope: Scope, send: Send) -> None:
        """Nothing of the request is read, let alone understood: what is refused must cost next to nothing."""
        request_id = _request_id(scope["headers"])
        body = _BUSY.replace(b"ID", request_id)
        headers = [*_TURNED_AWAY, (b"content-length", b"%d" % len(body)), (b"x-request-id", request_id)]
        headers += [_CLOSE] if self._service.stopping else []
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        self._service.turned_away += 1

    async def _predict(self, visit: _Visit, receive: Receive) -> bytes:
        self._let_in(visit)
        _check_is_post(visit)
        check_is_json(visit.headers)
        limits, time_limits = self._settings.limits, self._settings.time_limits
        seconds = _deadline(visit.headers, time_limits.deadline)
        question = question_of(await read_body(receive, limits.bytes, time_limits.body), limits)
        return await self._service.answer(question, seconds - visit.seconds())

    def _let_in(self, visit: _Visit) -> None:
        """Check the name that the service is called by, the bearer token, if one is needed, and the announced size."""
        if self._hosts is not None and _name(header(visit.headers, b"host")) not in self._hosts:
            raise Refusal(421, "wrong_host", "this name of the service is not known to it; --allow-host makes it known")
        scheme, _, given = header(visit.headers, b"authorization").partition(b" ")
        guarded = self._token and visit.path.startswith(GUARDED)
        if guarded and not (scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)):
            raise Refusal(401, "unauthorised", "this needs the header `Authorization: Bearer TOKEN`")
        check_announced(visit.headers, self._settings.limits.bytes)

    async def _refuse(self, visit: _Visit, refusal: Refusal) -> None:
        self._service.measures.refusals.labels(refusal.code).inc()
        if refusal.status == 401:
            visit.extra.append((b"www-authenticate", b"Bearer"))
        visit.extra.extend(refusal.headers())
        await visit.reply(refusal.status, refusal.body(visit.request_id))

    def _note(self, visit: _Visit) -> None:
        seconds, measures = visit.seconds(), self._service.measures
        measures.requests.labels(visit.path if visit.path in PATHS else "other", visit.status).inc()
        measures.seconds.observe(seconds)
        if visit.status == 503 and visit.path == PREDICT:
            self._service.refused += 1
        elif self._settings.log_requests:
            log.info("request", extra={"fields": visit.log_fields(seconds)})


class _Visit:
    """A request and the functions that send its response."""

    def __init__(self, scope: Scope, send: Send, *, closing: bool) -> None:
        self.path, self.method, self.headers = scope["path"], scope["method"], scope["headers"]
        self._send, self._closing, self._began = send, closing, perf_counter()
        self.request_id = _request_id(self.headers).decode()
        scope[REQUEST_ID] = self.request_id
        self.status, self.bodiless = 0, self.method == "HEAD"
        self.extra: list[tuple[bytes, bytes]] = []

    def seconds(self) -> float:
        return perf_counter() - self._began

    async def reply(self, status: int, body: bytes, *, timed: bool = False) -> None:
        if timed:
            self.extra.append((b"server-timing", b"app;dur=%.2f" % (self.seconds() * 1e3)))
        headers = [_JSON, _NOT_STORED, (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """With the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message.get("headers", ())
            own = [(b"x-request-id", self.request_id.encode()), *_SAFE, *self.extra]
            if not any(name == _POLICY for name, _ in given):
                own.append(_NOT_A_PAGE)
            if self._closing or self.status in _CLOSING:
                own.append(_CLOSE)
            message = {**message, "headers": [*given, *own]}
        elif self.bodiless:
            message = {**message, "body": b""}
        await self._send(message)

    def log_fields(self, seconds: float) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "method": self.method if self.method in _METHODS else "other",
            "path": self.path if self.path in PATHS else "other",
            "status": self.status,
            "milliseconds": round(seconds * 1e3, 2),
        }


def _request_id(headers: Any) -> bytes:
    """Return the client's own request id if it is well-formed, else a new one."""
    given = header(headers, b"x-request-id")
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8).encode()


def _name(host: bytes) -> bytes:
    """Return the name in a Host header, without its port; names that have none are what HTTP/1.0 sends."""
    name, _, port = host.rpartition(b":")
    return (name if name and port.isdigit() else host).lower().removesuffix(b".") or b"localhost"


def _check_is_post(visit: _Visit) -> None:
    if visit.method != "POST":
        visit.extra.append((b"allow", b"POST"))
        raise Refusal(405, "wrong_method", "use POST")


def _deadline(headers: Any, usual: float) -> float:
    """Return the request's deadline in seconds; a client may shorten the usual one."""
    given = next((value for name, value in headers if name == b"x-deadline-ms"), None)
    if given is None:
        return usual
    if not given.isdigit() or len(given) > 5 or not 1 <= int(given) <= _LONGEST_DEADLINE:
        raise Refusal(422, "bad_question", f"must be an integer from 1 to {_LONGEST_DEADLINE}", "x-deadline-ms")
    return min(usual, int(given) / 1e3)
