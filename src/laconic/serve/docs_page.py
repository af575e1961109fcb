"""The page `/docs`: the OpenAPI document as HTML, made here, so that it needs no script and nothing from elsewhere."""

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
    """Return the page that describes every path of an OpenAPI document."""
    parts = schema.get("components", {}).get("schemas", {})
    methods = ((path, verb, about) for path, verbs in schema["paths"].items() for verb, about in verbs.items())
    described = ("\n".join(_method(path, verb, about, parts)) for path, verb, about in methods)
    return _PAGE.format(paths="\n".join(described)).encode()


def _method(path: str, verb: str, about: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    yield f"<section><h2><code>{verb.upper()} {escape(path)}</code></h2>"
    yield f"<p>{escape(about.get('description') or about.get('summary', ''))}</p>"
    if about.get("parameters"):
        rows = [(one["name"], f"{one['in']}, {_type(one['schema'])}", "") for one in about["parameters"]]
        yield from _table("Parameters", rows)
    if "requestBody" in about:
        yield from _body("Request", about["requestBody"], parts)
    for status, response in about["responses"].items():
        yield from _body(f"{status}: {response['description']}", response, parts)
    yield "</section>"


def _body(title: str, body: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    """Describe a body's fields; a body of another kind than JSON is named by its type."""
    content = body.get("content", {})
    part = _resolved(content.get("application/json", {}).get("schema", {}), parts)
    required = part.get("required", ())
    rows = [
        (name, _type(field) + ", required" * (name in required), _meaning(field))
        for name, field in part.get("properties", {}).items()
    ]
    yield from _table(title, rows, ", ".join(content))
    for example in part.get("examples", ()):
        yield f"<pre>{escape(json.dumps(example, ensure_ascii=False, indent=2))}</pre>"


def _table(title: str, rows: list[tuple[str, str, str]], note: str = "") -> Iterator[str]:
    yield f"<h3>{escape(title)}</h3>"
    if not rows:
        yield f"<p>{escape(note)}</p>"
        return
    cells = ("".join([f"<td><code>{escape(name)}</code></td>", *(f"<td>{escape(cell)}</td>" for cell in others)])
             for name, *others in rows)  # fmt: skip
    yield f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _resolved(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    return parts.get(reference.rpartition("/")[2], {}) if reference else schema


def _type(schema: Mapping[str, Any]) -> str:
    """Name a field's type: of a reference its own name, of a list that of its items."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_type, choices)))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _meaning(schema: Mapping[str, Any]) -> str:
    """Return a field's description with its default and its bounds."""
    bounds = {"default": "default", "minimum": "at least", "maximum": "at most", "maxLength": "at most, characters"}
    bounds |= {"maxItems": "at most, items"}
    told = [f"{words} {schema[name]}" for name, words in bounds.items() if schema.get(name) is not None]
    return "; ".join(filter(None, [schema.get("description", ""), *told]))
