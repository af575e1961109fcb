"""Bodies that no honest client sends, by what they are, with the statuses that are allowed."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from tests.serve.hostile_case import BAD, FINE, MARKER

Bodies: TypeAlias = dict[str, tuple[bytes, set[int]]]


def bodies() -> Bodies:
    return {**_not_json(), **_odd_json(), **_huge(), **_wrong_fields()}


def body(**asked: Any) -> bytes:
    return json.dumps(asked, ensure_ascii=False).encode()


def _not_json() -> Bodies:
    marker = MARKER.encode()
    return {
        "nothing": (b"", BAD),
        "spaces": (b" " * 1000, BAD),
        "half an object": (b'{"text": "' + marker, BAD),
        "no quotes": (b"{text: " + marker + b"}", BAD),
        "single quotes": (b"{'text': '" + marker + b"'}", BAD),
        "something after the object": (b'{"text": "a"} ' + marker, BAD),
        "two objects": (b'{"text": "a"}{"text": "b"}', BAD),
        "a comment": (b'{"text": "a" /* ' + marker + b" */}", BAD),
        "a trailing comma": (b'{"text": "a",}', BAD),
        "a form": (b"text=" + marker, BAD),
        "UTF-16": (json.dumps({"text": "a"}).encode("utf-16"), BAD),
        "a byte order mark": (b'\xef\xbb\xbf{"text": "a"}', FINE | BAD),
        "bytes that are not UTF-8": (b'{"text": "\xff\xfe ' + marker + b'"}', BAD),
        "an overlong NUL": (b'{"text": "\xc0\x80"}', BAD),
        "a raw lone surrogate": (b'{"text": "\xed\xa0\x80"}', BAD),
        "a raw NUL": (b'{"text": "a\x00b"}', BAD),
        "a raw newline": (b'{"text": "a\nb"}', BAD),
        "NULs": (b"\x00" * 1000, BAD),
        "a key that is no string": (b'{1: "' + marker + b'"}', BAD),
        "a key that is not UTF-8": (b'{"\xff": "a"}', BAD),
    }


def _odd_json() -> Bodies:
    return {
        **{f"{one} alone": (one.encode(), BAD) for one in ("null", "true", "1", '"a"', "[]", "{}", "[{}]", "NaN")},
        "an escaped lone surrogate": (b'{"text": "\\ud800"}', FINE | BAD),
        "a lone surrogate in a label": (b'{"text": "a", "block": ["\\udfff"]}', FINE | BAD),
        "an escaped NUL": (b'{"text": "a\\u0000b"}', FINE | BAD),
        "a key twice": (b'{"text": "a", "text": "b"}', FINE | BAD),
        "k twice": (b'{"text": "a", "k": 1, "k": 0}', BAD),
        "a field that is not known": (f'{{"text": "a", "{MARKER}": 1}}'.encode(), {422}),
        "a field of every object": (b'{"text": "a", "__proto__": {}, "constructor": 1}', {422}),
        "both text and texts": (b'{"text": "a", "texts": ["b"]}', {422}),
        "an empty text and texts": (b'{"text": "", "texts": ["b"]}', {422}),
        "neither text nor texts": (b'{"k": 1}', {422}),
        "no texts": (b'{"texts": []}', {422}),
        "an empty text": (b'{"text": ""}', FINE | BAD),
        "empty texts": (b'{"texts": ["", "", ""]}', FINE | BAD),
        "an upper-case key": (b'{"TEXT": "a"}', {422}),
        "-0 as a score": (b'{"text": "a", "min_score": -0}', FINE),
        "-0.0 as a score": (b'{"text": "a", "min_score": -0.0}', FINE),
        "-0 as k": (b'{"text": "a", "k": -0}', {422}),
        "a tiny score": (b'{"text": "a", "min_score": 1e-999}', FINE | BAD),
        **{
            f"{value} as {field}": (f'{{"text": "a", "{field}": {value}}}'.encode(), BAD)
            for field in ("k", "min_score")
            for value in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "0x10", "+1", "01", ".5", "1e", "1_000")
        },
        **{
            f"k {value}": (f'{{"text": "a", "k": {value}}}'.encode(), {422})
            for value in ("0", "-1", "101", "1e9", "1000000000", "true", '"5"', "null", "[5]", "1.5", str(2**63))
        },
    }


def _huge() -> Bodies:
    refused = BAD | {413}
    names = json.dumps([f"{MARKER}{number}" for number in range(60_000)])
    return {
        "100,000 brackets": (b"[" * 100_000, BAD),
        "100,000 brackets, closed": (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", BAD),
        "100,000 objects": (b'{"text": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", BAD),
        "100,000 objects of no known field": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, BAD),
        "5,000 digits as k": (b'{"text": "a", "k": ' + b"9" * 5000 + b"}", BAD),
        "500,000 digits as k": (b'{"text": "a", "k": ' + b"9" * 500_000 + b"}", BAD),
        "500,000 digits as a score": (b'{"text": "a", "min_score": 0.' + b"3" * 500_000 + b"}", FINE | BAD),
        "too many texts": (body(texts=[MARKER] * 101), {422}),
        "as many texts as fit": (body(texts=["a"] * 200_000), refused),
        "too long a text": (body(text=MARKER * 201), {422}),
        "one of the texts is too long": (body(texts=["a", "b" * 1001]), {422}),
        "a text of 900,000 characters": (body(text="a" * 900_000), {422}),
        "as much as is allowed": (body(texts=["a b " * 250] * 100, k=100), FINE),
        "a thousand combining accents": (body(text="a" + "\u0301" * 999), FINE),
        "a thousand faces": (body(text="\U0001f600" * 1000), FINE),
        "a word of a thousand letters": (body(text="ab" * 500), FINE),
        "a thousand one-letter words": (body(text="a " * 500), FINE),
        "a text from right to left": (body(text="\u202e\u2066\u200f" * 300), FINE),
        "60,000 labels that nobody knows": (f'{{"text": "a", "allow": {names}}}'.encode(), FINE | refused),
        "100,000 times the same label": (body(text="a", block=["L0"] * 100_000), FINE | refused),
        "a label of 500,000 characters": (body(text="a", allow=[MARKER * 100_000]), FINE | refused),
        "100,000 fields": (json.dumps({f"{MARKER}{one}": 1 for one in range(70_000)}).encode(), refused),
        "more bytes than are allowed": (body(text="a" * 1_100_000), {413}),
    }


def _wrong_fields() -> Bodies:
    """Every field with a value of every kind, most of them wrong; null may stand for what is left out."""
    values: list[Any] = [None, True, 7, 1.5, "5", MARKER, [], {}, [7], [None], [[MARKER]], [MARKER, 1], {"a": [MARKER]}]
    right: dict[str, list[Any]] = {
        "text": ["5", MARKER],
        "texts": [],
        "k": [7],
        "min_score": [None, 7, 1.5],
        "allow": [None, []],
        "block": [None, []],
        "explain": [True],
    }
    return {
        f"{value!r:.20} as {field}": (
            body(**{field: value}) if field in ("text", "texts") else body(text="a", **{field: value}),
            FINE | BAD if value in fits else {422},
        )
        for field, fits in right.items()
        for value in values
    }
