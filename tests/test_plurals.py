"""Numbers of things in messages: in the singular where there is one, and by one function everywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from laconic.units import counted, plural

PACKAGE = Path(__file__).parents[1] / "src" / "laconic"
COUNTED = re.compile(r" (?:texts|labels|words|examples|epochs|steps|cells|columns|records|predictions)\b")
# Where there is never one: a re-ranker has a size of dozens.
EXEMPT = ("of the best … labels",)
DAMAGED = ("engine", "methods", "predict", "distilling.py", "plots.py", "matrices.py")


def test_one_thing_is_told_in_the_singular() -> None:
    assert [counted(number, "text") for number in (0, 1, 2, 1200)] == ["0 texts", "1 text", "2 texts", "1,200 texts"]
    assert [counted(number, "entry", "entries") for number in (1, 3)] == ["1 entry", "3 entries"]
    assert [plural(number, "is", "are") for number in (0, 1, 2)] == ["are", "is", "are"]


def test_messages_that_count_things_know_the_singular() -> None:
    found = [message for path in PACKAGE.rglob("*.py") if not in_depth(path) for message in plurals_in(path)]
    assert [one for one in found if not any(exempt in one for exempt in EXEMPT)] == []


def in_depth(path: Path) -> bool:
    """Code whose messages speak of a model's inner parts, of which there is never one."""
    return any(part in DAMAGED for part in path.relative_to(PACKAGE).parts)


def plurals_in(path: Path) -> Iterator[str]:
    """Strings that have a value and then a plural, whatever the value."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            words = "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            for match in re.finditer("…" + COUNTED.pattern, words):
                if match[0] == words:  # the name of a thing, such as "train texts"
                    continue
                yield f"{path.name}:{node.lineno}: {words[max(0, match.start() - 15) :]}"
