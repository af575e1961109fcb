"""What a day's work gives: FastAPI, a body of pydantic's, the model asked one request at a time. To compare with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.chaos.processes import Server, free_port, serving
from laconic.predict.packed_predictor import PackedPredictor

_MODEL = "LACONIC_BARE_MODEL"  # granian makes the application in a process of its own


class Question(BaseModel):
    text: str
    k: int = 5


def application() -> FastAPI:
    app, answerer = FastAPI(), PackedPredictor.open(os.environ[_MODEL])

    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/v1/predict")
    async def predict(question: Question) -> dict[str, Any]:
        (answer,) = answerer.predict([question.text], question.k)
        return {"model": answerer.version, "answers": [{"predictions": [one._asdict() for one in answer]}]}

    return app


@contextmanager
def bare_serve(model: Path, *, log: Path, core: int | None = None) -> Iterator[Server]:
    port, target = free_port(), f"{__name__}:application"
    command = [sys.executable, "-m", "granian", "--interface", "asgi", "--workers", "1", "--port", str(port)]
    with (
        mock.patch.dict(os.environ, {_MODEL: str(model)}),
        serving([*command, "--factory", target], port, log=log, core=core) as server,
    ):
        yield server
