"""Descriptions of the service: its model, its state, and the OpenAPI document of its paths."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field

from laconic.serve.asgi import GUARDED
from laconic.serve.errors import Refused
from laconic.serve.model import Version
from laconic.serve.schemas import Answered, question_schema
from laconic.serve.settings import Serving
from laconic.serve.worker import PREDICT

_CARD = "README.md"
_LARGEST_CARD = 200_000  # bytes
_REFUSALS = {
    400: "The body is not JSON",
    401: "The token is missing or wrong",
    408: "The body took too long to come",
    413: "The body is too large",
    415: "The body is not said to be JSON",
    422: "A field of the question is wrong",
    503: "Too busy, too late, or about to stop: try again after Retry-After seconds",
}


class Alive(BaseModel):
    """The body of `/healthz`."""

    status: str


class Ready(BaseModel):
    """The body of `/readyz`."""

    status: str
    model: str = Field(description="The version that answers.")


class AskableLimits(BaseModel):
    """The limits of a request, of those in the settings."""

    texts: int
    explained: int
    characters: int
    bytes: int
    k: int
    deadline_ms: int


class ModelFacts(BaseModel):
    """The body of `/v1/model`."""

    model: str = Field(description="The version; it changes when any byte of the model does.")
    method: str
    labels: int
    words: int
    created: str
    laconic: str = Field(description="The version of laconic that trained it.")
    calibrated: bool = Field(description="Whether scores are probabilities.")
    bytes: int = Field(description="Of the packed model's files.")
    metrics: dict[str, Any] | None = Field(description="On held-out texts, and which split they are.")
    card: str | None = Field(description="The model card, in Markdown.")
    limits: AskableLimits
    needs_token: bool


def facts_of(version: Version, settings: Serving) -> ModelFacts:
    facts = version.packed_predictor.facts
    return ModelFacts(
        model=version.name,
        method=facts["method"],
        labels=len(version.packed_predictor.labels),
        words=facts["sizes"]["inputs"],
        created=facts["created"],
        laconic=facts["laconic"],
        calibrated=version.packed_predictor.calibrated,
        bytes=version.bytes,
        metrics=facts.get("metrics"),
        card=_card(version.folder),
        limits=AskableLimits(**asdict(settings.limits), deadline_ms=round(settings.time_limits.deadline * 1e3)),
        needs_token=bool(settings.token),
    )


def _card(folder: Path) -> str | None:
    """Return the model card of the packed folder, or of the model folder around it."""
    for path in (folder / _CARD, folder.parent / _CARD):
        if path.is_file() and path.stat().st_size <= _LARGEST_CARD and (path.parent / "manifest.json").is_file():
            return path.read_text(encoding="utf-8", errors="replace")
    return None


def document(app: FastAPI, settings: Serving) -> None:
    """Add the path that asgi.py handles itself to what FastAPI knows of the others."""
    known = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _with_predict(known(), settings)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way of doing this


def _with_predict(schema: dict[str, Any], settings: Serving) -> dict[str, Any]:
    parts = schema.setdefault("components", {}).setdefault("schemas", {})
    for part in (Answered, Refused):
        whole = part.model_json_schema(ref_template="#/components/schemas/{model}")
        parts |= whole.pop("$defs", {})
        parts[part.__name__] = whole
    parts["Question"] = question_schema(settings.limits)
    schema["paths"][PREDICT] = {"post": _predict(settings)}
    if settings.token:
        schema["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        for path, methods in schema["paths"].items():
            if path.startswith(GUARDED):
                for method in methods.values():
                    method["security"] = [{"bearer": []}]
                    method["responses"]["401"] = _json("Refused", _REFUSALS[401])
    return schema


def _predict(settings: Serving) -> dict[str, Any]:
    deadline = {"type": "integer", "minimum": 1, "maximum": 60_000}
    return {
        "summary": "Predict",
        "description": "The best labels of one text or of several, best first.",
        "operationId": "predict",
        "parameters": [
            {"name": "x-deadline-ms", "in": "header", "required": False, "schema": deadline},
        ],
        "requestBody": {"required": True, "content": _content("Question")},
        "responses": {
            "200": _json("Answered", "One answer a text"),
            **{str(status): _json("Refused", why) for status, why in _REFUSALS.items()},
        },
    }


def _json(name: str, description: str) -> dict[str, Any]:
    return {"description": description, "content": _content(name)}


def _content(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
