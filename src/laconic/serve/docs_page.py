"""The page `/docs`: the OpenAPI document as plain HTML, without scripts and without files of other servers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>laconic: HTTP API</title>
  <link rel="icon" href="favicon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="page.css">
</head>
<body class="api">
  <header><h1>laconic: HTTP API</h1><p><a href=".">Try it</a> · <a href="openapi.json">OpenAPI document</a></p></header>
  <main>
{paths}
  </main>
</body>
</html>
"""


def docs_page(schema: Mapping[str, Any]) -> bytes:
    """Return the page that describes every path of an OpenAPI document, POST paths first."""
    parts = schema.get("components", {}).get("schemas", {})
    methods = [(path, verb, about) for path, verbs in schema["paths"].items() for verb, about in verbs.items()]
    methods.sort(key=lambda one: one[1] != "post")
    lines = [line for path, verb, about in methods for line in _method(path, verb, about, parts)]
    lines += [
        "<section><h2>Objects</h2>",
        *(line for name in parts for line in _fields(name, parts[name])),
        "</section>",
    ]
    return _PAGE.format(paths="\n".join(lines)).encode()


def _method(path: str, verb: str, about: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    yield f"<section><h2><code>{verb.upper()} {escape(path)}</code></h2>"
    yield f"<p>{escape(about.get('description') or about.get('summary', ''))}</p>"
    if about.get("parameters"):
        given = [
            (one["name"], f"{one['in']}, {_type(one['schema'])}", one.get("description", ""))
            for one in about["parameters"]
        ]
        yield from _table("Parameters", given)
    if "requestBody" in about:
        content = about["requestBody"]["content"]
        yield from _fields("Request", parts[_type(content["application/json"]["schema"])])
    responses = about["responses"].items()
    yield from _table("Responses", [(status, _kind(body), body["description"]) for status, body in responses])
    yield "</section>"


def _kind(body: Mapping[str, Any]) -> str:
    """Return the schema name of a JSON body, or the media type of another body."""
    content = body.get("content", {}).items()
    return ", ".join(_type(one["schema"]) if one.get("schema") else kind for kind, one in content)


def _fields(title: str, part: Mapping[str, Any]) -> Iterator[str]:
    """Render the fields of an object and its examples."""
    required = part.get("required", ())
    fields = part.get("properties", {}).items()
    yield from _table(
        title, [(name, _type(field) + ", required" * (name in required), _meaning(field)) for name, field in fields]
    )
    for example in part.get("examples", ()):
        yield f"<pre>{escape(json.dumps(example, ensure_ascii=False, indent=2))}</pre>"


def _table(title: str, rows: list[tuple[str, str, str]]) -> Iterator[str]:
    yield f"<h3>{escape(title)}</h3><table>"
    for name, *others in rows:
        yield f"<tr><td><code>{escape(name)}</code></td>{''.join(f'<td>{escape(cell)}</td>' for cell in others)}</tr>"
    yield "</table>"


def _type(schema: Mapping[str, Any]) -> str:
    """Return the name of a field's type: the schema's name for a reference, the items' type for a list."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_type, choices)))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _meaning(schema: Mapping[str, Any]) -> str:
    """Return a field's description with its default and its bounds."""
    forms = {"default": "default {}", "minimum": "at least {}", "maximum": "at most {}"}
    forms |= {"maxLength": "at most {} characters", "maxItems": "at most {}"}
    bounds = [form.format(json.dumps(schema[name])) for name, form in forms.items() if schema.get(name) is not None]
    return " ".join(filter(None, [schema.get("description", ""), f"({', '.join(bounds)})" if bounds else ""]))
