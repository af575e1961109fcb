"""All paths of the service except `/v1/predict`, and the OpenAPI document of all of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException

from laconic import __version__
from laconic.predict.load import Speed
from laconic.serve.asgi import REQUEST_ID, App, Gateway
from laconic.serve.docs_page import docs_page
from laconic.serve.errors import Refusal, failed
from laconic.serve.logs import LOG
from laconic.serve.model import Served
from laconic.serve.openapi import Alive, ModelFacts, Ready, document, facts_of
from laconic.serve.settings import Serving
from laconic.serve.trial import try_in_own_process
from laconic.serve.worker import Service

log = logging.getLogger(LOG)
_PAGE = {  # path: file of the page, kind
    "/": ("index.html", "text/html; charset=utf-8"),
    "/favicon.svg": ("favicon.svg", "image/svg+xml"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_SAFE = {  # the page uses nothing but its own files, and nobody puts it into theirs
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_SENT = ["authorization", "content-type", "x-deadline-ms", "x-request-id"]  # headers that pages elsewhere may send
_TOLD = ["retry-after", "server-timing", "x-request-id"]  # and read
_CODES = {404: "not_found", 405: "wrong_method"}
_MESSAGES = {404: "no such path; /openapi.json lists the paths", 405: "method not allowed"}


def application(model: Path, settings: Serving, speed: Speed, main: int) -> App:
    """Return the ASGI application of a worker process, which ends with its main process."""
    trial = partial(try_in_own_process, seconds=settings.time_limits.trial)
    return application_of(Service(Served(model, speed, verify=False, trial=trial), settings, main))


def application_of(service: Service) -> App:
    @asynccontextmanager
    async def at_work(app: FastAPI) -> AsyncIterator[None]:
        async with service.at_work():
            yield

    app = FastAPI(
        title="laconic",
        version=__version__,
        description="Assign a short text its few right labels.",
        lifespan=at_work,
        docs_url=None,  # these would fetch scripts from elsewhere; /docs is our own
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_paths(app, service)
    _add_page(app)
    document(app, service.settings)
    docs = _file(docs_page(app.openapi()), "text/html; charset=utf-8")
    app.add_route("/docs", docs, methods=["GET"], include_in_schema=False)
    app.add_exception_handler(HTTPException, _nothing_here)
    app.add_exception_handler(Exception, _failed)
    door, origins = Gateway(app, service), service.settings.origins
    return CORSMiddleware(door, origins, ["GET", "POST"], _SENT, expose_headers=_TOLD) if origins else door


def openapi_of(settings: Serving) -> dict[str, Any]:
    """Return the OpenAPI document of a service with these settings, without a model."""
    app = FastAPI(title="laconic", version=__version__)
    _add_paths(app, cast(Service, None))  # paths use the service only when they are called
    document(app, settings)
    return app.openapi()


def _add_paths(app: FastAPI, service: Service) -> None:
    @app.get("/v1/model")
    async def model() -> ModelFacts:
        """Return the model's metrics, sizes and card, and the limits of a request."""
        return facts_of(service.served.now, service.settings)

    @app.get("/healthz")
    async def healthz() -> Alive:
        """Report that the process is alive. Restart it if this fails."""
        return Alive(status="alive")

    @app.get("/readyz", responses={503: {"model": Ready, "description": "The service is about to stop"}})
    async def readyz(response: Response) -> Ready:
        """Report whether to send requests here: 200 when ready, 503 when the service is about to stop."""
        response.status_code = 503 if service.stopping else 200
        return Ready(status="stopping" if service.stopping else "ready", model=service.served.now.name)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Return the metrics in the text format of Prometheus."""
        return Response(service.measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_page(app: FastAPI) -> None:
    folder = files("laconic.serve") / "page"
    for path, (name, kind) in _PAGE.items():
        app.add_route(path, _file((folder / name).read_bytes(), kind), methods=["GET"], include_in_schema=False)


def _file(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def given(request: Request) -> Response:
        return Response(content, headers={"content-type": kind, **_SAFE})

    return given


async def _nothing_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code
    refusal = Refusal(status, _CODES.get(status, "refused"), _MESSAGES.get(status, "the request cannot be handled"))
    return _reply(request, refusal, dict(error.headers or {}))


async def _failed(request: Request, error: Exception) -> Response:
    """Answer an internal error; starlette raises it again after this, so that it is logged."""
    return _reply(request, failed(), {})


def _reply(request: Request, refusal: Refusal, headers: dict[str, str]) -> Response:
    request_id = request.scope.get(REQUEST_ID, "")
    return Response(refusal.body(request_id), refusal.status, headers, media_type="application/json")
