"""Response bodies that describe the model and its state, and the OpenAPI document of the service."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field

from laconic.data.fields import parse_fields
from laconic.evaluation.thresholds import Threshold
from laconic.predict.packed_predictor import PackedPredictor
from laconic.serve.asgi import GUARDED
from laconic.serve.errors import Refused
from laconic.serve.schemas import Answered, question_schema
from laconic.serve.settings import Serving
from laconic.serve.version import Version
from laconic.serve.worker import PREDICT

_CARD = "README.md"
_LARGEST_CARD = 200_000  # bytes
_REFUSALS = {
    400: "The body is not valid JSON",
    401: "The bearer token is missing or wrong",
    408: "The body did not arrive in time",
    413: "The body is too large",
    415: "The content type is not application/json",
    421: "The Host header names a host that the service does not know",
    422: "A field of the request is invalid",
    503: "Overloaded, or the deadline cannot be met; retry after Retry-After seconds",
}


class Alive(BaseModel):
    """The body of `/healthz`."""

    status: str


class Ready(BaseModel):
    """The body of `/readyz`."""

    status: str
    model: str = Field(description="Version of the model in use.")


class AskableLimits(BaseModel):
    """The limits of a request."""

    texts: int = Field(description="Maximum number of texts per request.")
    explained: int = Field(description="Maximum number of texts per request with `explain`.")
    explained_words: int = Field(description="Maximum number of words in these texts together.")
    characters: int = Field(description="Maximum length of a text in characters.")
    bytes: int = Field(description="Maximum size of a request body in bytes.")
    k: int = Field(description="Maximum number of labels per text.")
    deadline_ms: int = Field(description="Milliseconds within which a request is answered or refused.")


class AttributeFacts(BaseModel):
    """An attribute of the labels, such as a category."""

    values: int = Field(description="Number of its values.")
    labels: int = Field(description="Number of labels that have one.")
    largest: dict[str, int] = Field(description="The values that most labels have, with their numbers of labels.")


class StoredThreshold(BaseModel):
    """A threshold that was chosen on labelled texts, which requests use with `"min_score": "stored"`."""

    aim: str = Field(description="What it was chosen for, such as precision 0.9.")
    score: float = Field(description="Lowest score of labels without a threshold of their own.")
    own: int = Field(description="Number of labels with a threshold of their own.")
    k: int = Field(description="Number of labels per text among which it was chosen.")
    texts: int = Field(description="Number of texts on which it was chosen.")
    precision: float = Field(description="Precision on these texts, in percent.")
    recall: float = Field(description="Recall on these texts, in percent.")


class ModelFacts(BaseModel):
    """The body of `/v1/model`."""

    model: str = Field(description="Version of the model; a change of any of its files changes it.")
    method: str = Field(description="Method that trained the model.")
    labels: int = Field(description="Number of labels.")
    words: int = Field(description="Number of words in the vocabulary; of features, if the model reads those.")
    created: str = Field(description="Time when the model was created.")
    laconic: str = Field(description="Version of laconic that trained the model.")
    calibrated: bool = Field(description="Whether scores are calibrated probabilities.")
    fields: list[str] = Field(description="Fields that a text may be given as, if the model was trained on several.")
    attributes: dict[str, AttributeFacts] = Field(description="Attributes of the labels, which `where` filters by.")
    threshold: StoredThreshold | None = Field(description="The threshold that is stored in the model, if any.")
    bytes: int = Field(description="Size of the packed model's files in bytes.")
    metrics: dict[str, Any] | None = Field(description="Metrics on held-out texts, and the split that was evaluated.")
    card: str | None = Field(description="The model card, in Markdown.")
    limits: AskableLimits
    needs_token: bool = Field(description="Whether requests need a bearer token.")


def facts_of(version: Version, settings: Serving) -> ModelFacts:
    facts = version.packed_predictor.facts
    return ModelFacts(
        model=version.name,
        method=facts["method"],
        labels=len(version.packed_predictor.labels),
        words=_words(version.packed_predictor),
        created=facts["created"],
        laconic=facts["laconic"],
        calibrated=version.packed_predictor.calibrated,
        fields=[field.name for field in parse_fields(version.packed_predictor.fields)],
        attributes=_attributes(version.packed_predictor),
        threshold=_threshold(version.packed_predictor.threshold),
        bytes=version.bytes,
        metrics=facts.get("metrics"),
        card=_card(version.folder),
        limits=AskableLimits(**asdict(settings.limits), deadline_ms=round(settings.time_limits.deadline * 1e3)),
        needs_token=bool(settings.token),
    )


def _words(packed_predictor: PackedPredictor) -> int:
    known = packed_predictor.model.vocabulary
    return int(packed_predictor.facts["sizes"]["inputs"]) if known is None else len(known.words)


def _attributes(packed_predictor: PackedPredictor) -> dict[str, AttributeFacts]:
    known = packed_predictor.attributes
    return {} if known is None else {name: AttributeFacts(**facts) for name, facts in known.summary().items()}


def _threshold(stored: Threshold | None) -> StoredThreshold | None:
    if stored is None:
        return None
    facts = {name: fact for name, fact in asdict(stored).items() if name != "labels"}
    return StoredThreshold(own=len(stored.labels), **facts)


def _card(folder: Path) -> str | None:
    """Return the model card of the packed folder, or of the model folder around it."""
    for path in (folder / _CARD, folder.parent / _CARD):
        if path.is_file() and path.stat().st_size <= _LARGEST_CARD and (path.parent / "manifest.json").is_file():
            return path.read_text(encoding="utf-8", errors="replace")
    return None


def document(app: FastAPI, settings: Serving) -> None:
    """Add `/v1/predict`, which asgi.py handles, to the OpenAPI document that FastAPI makes of the other paths."""
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
    deadline = {
        "name": "x-deadline-ms",
        "in": "header",
        "required": False,
        "description": "Shorter deadline for this request, in milliseconds.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 60_000},
    }
    return {
        "summary": "Predict labels",
        "description": "Predict the best labels of one or several texts, best first.",
        "operationId": "predict",
        "parameters": [deadline],
        "requestBody": {"required": True, "content": _content("Question")},
        "responses": {
            "200": _json("Answered", "Predictions for each text, in the order of the request"),
            **{str(status): _json("Refused", why) for status, why in _REFUSALS.items()},
        },
    }


def _json(name: str, description: str) -> dict[str, Any]:
    return {"description": description, "content": _content(name)}


def _content(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
