"""Every message that the page of errors quotes is one that the code can write."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
HOLE = "…"


def quoted() -> list[str]:
    """Return the messages in the first columns of the page's tables."""
    return re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def written() -> list[str]:
    """Return every string of the source, with a hole wherever a value is filled in."""
    found = []
    for path in (ROOT / "src" / "laconic").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.append("".join(str(one.value) if isinstance(one, ast.Constant) else HOLE for one in node.values))
    return found


def is_written(message: str) -> bool:
    parts = message.split(HOLE)
    return any(_in_order(parts, one) for one in written())


def _in_order(parts: list[str], text: str) -> bool:
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def test_the_page_quotes_messages() -> None:
    assert len(quoted()) >= 35


@pytest.mark.parametrize("message", quoted())
def test_a_quoted_message_is_in_the_source(message: str) -> None:
    assert is_written(message)


def test_a_message_that_nobody_writes_is_found_out() -> None:
    assert not is_written("the moon is made of …, which is not cheese")
