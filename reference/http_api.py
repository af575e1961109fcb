"""The page of the HTTP API, from the service's own OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

from laconic.serve.routes import openapi_of
from laconic.serve.settings import Serving
from laconic.serve.worker import PREDICT
from reference.markdown import code, plain, table

_INTRODUCTION = """# HTTP API

[`laconic serve`](cli/serve.md) answers at these paths. `GET /openapi.json` is this page for programs (OpenAPI 3.1),
with the limits of the running service. How the service
behaves under load and when it stops, its metrics and its log are described in [The service](service.md).
"""
_NAMES = {"Successful Response": "Success"}  # FastAPI's own words


def page() -> str:
    """Return the page: every path with its request and its responses, then every form of JSON."""
    document = openapi_of(Serving())
    parts = [_INTRODUCTION]
    for path, methods in sorted(document["paths"].items(), key=lambda one: (one[0] != PREDICT, one[0])):
        parts += [_operation(f"{method.upper()} {path}", one) for method, one in methods.items()]
    parts.append("## Forms\n")
    parts += [_form(name, schema) for name, schema in document["components"]["schemas"].items()]
    return "\n".join(parts)


def _operation(title: str, operation: dict[str, Any]) -> str:
    parts = [f"## {title}", "", plain(" ".join(operation.get("description", operation["summary"]).split())), ""]
    headers = operation.get("parameters", [])
    if headers:
        rows = [[code(one["name"]), one["in"], _type(one["schema"])] for one in headers]
        parts += [table(["parameter", "in", "type"], rows), ""]
    if body := operation.get("requestBody"):
        parts += [f"Request body: {_content(body['content'])}", ""]
    rows = [
        [
            status,
            plain(response["description"].replace("Successful Response", "Success")),
            _content(response.get("content", {})),
        ]
        for status, response in sorted(operation["responses"].items())
    ]
    return "\n".join([*parts, table(["status", "meaning", "body"], rows), ""])


def _content(content: dict[str, Any]) -> str:
    return ", ".join(_type(one["schema"]) if one.get("schema") else plain(kind) for kind, one in content.items())


def _form(name: str, schema: dict[str, Any]) -> str:
    parts = [f"### {name}", "", plain(schema.get("description", "")), ""]
    required = schema.get("required", [])
    rows = [
        [code(key), _type(one), "yes" if key in required else "", plain(one.get("description", ""))]
        for key, one in schema.get("properties", {}).items()
    ]
    parts += [table(["key", "type", "always there", "meaning"], rows), ""]
    for example in schema.get("examples", []):
        parts += ["```json", json.dumps(example, indent=2, ensure_ascii=False), "```", ""]
    return "\n".join(parts)


def _type(schema: dict[str, Any]) -> str:
    """Return a type as text; another form is a link to it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_type(one) for one in schema[several])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    bounds = [f"{schema[key]:,}" for key in ("minimum", "maximum") if key in schema]
    return f"{kind}, {' to '.join(bounds)}" if len(bounds) == 2 else str(kind)
