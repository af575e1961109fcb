"""Figures in prose: each measured one is followed by a comment that names its source, and is compared with it.

    45.66<!-- = combined_quality > npm-names-deps > combined > all: P@1 -->

A source is a file of benchmarks/results/ and the keys within it; of a mean with a deviation the mean is taken. Several
sources are joined, from left to right, by `minus`, `plus`, `times` and `over`, and may be numbers. The printed figure
has to be the value rounded to its digits. `<!-- holds: SOURCE below SOURCE -->` (or `above`) is a comparison that a
sentence makes in words. A figure that a paper prints is followed by `<!-- paper -->`, a setting by `<!-- setting -->`;
a line `<!-- settings: WHOSE -->` says that all figures up to the next empty line are settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from benchmarks.tables import NotMeasuredError, Results, Spread

COMMENT = re.compile(r"<!-- (=|holds:|paper|setting) ?(.*?) ?-->")
_SETTINGS = re.compile(r"<!-- settings: .+ -->")
_PRINTED = r"[−-]?\d[\d,]*(?:\.\d+)?|[−-]?\.\d+"
_UNITS = r"s|ms|minutes?|seconds?|hours?|MB|GB|times|points?|texts a second"
# Not numbers of versions, addresses, theorems and names (Apache-2.0, 127.0.0.1, LF-AmazonTitles-1.3M), nor exponents.
_BEFORE = r"(?<![\w.,#^/-])(?<!Theorem )"
SHOWN = re.compile(rf"{_BEFORE}({_PRINTED})(?!\d|\.\d)(?P<unit> ?(?:[%×]|(?:{_UNITS})\b))?")
_PAGE = re.compile(r"```.*?```|<!-- (?!=|holds|paper|setting|end of)([^\n]+?) -->\n.*?<!-- end of \1 -->", re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`|\]\([^)\n]*\)")
_STEP = re.compile(r" (minus|plus|times|over) ")


def complaints(page: str, results: Results) -> Iterator[str]:
    """Yield "LINE: what is wrong" of every figure outside generated blocks that is not its file's, or names none."""
    settings = False
    for number, line in enumerate(prose(page).splitlines(), start=1):
        settings = bool(line.strip()) and (settings or _SETTINGS.fullmatch(line.strip()) is not None)
        yield from (f"{number}: {one}" for one in of_line(line, results, settings=settings))


def prose(page: str) -> str:
    """Return a page without code and generated blocks, its lines where they were."""
    return _CODE.sub(lambda code: " " * len(code[0]), _PAGE.sub(lambda part: "\n" * part[0].count("\n"), page))


def of_line(line: str, results: Results, *, settings: bool = False) -> Iterator[str]:
    comments = list(COMMENT.finditer(line))
    for kind, source in ((one[1], one[2]) for one in comments if one[1] == "holds:"):
        yield from checked(kind, source, "", results)
    bare = COMMENT.sub(lambda comment: "\0" * len(comment[0]), line)
    for figure in SHOWN.finditer(bare):
        comment = next((one for one in comments if one.start() in (figure.end(), figure.end(1))), None)
        if comment is not None:
            yield from checked(comment[1], comment[2], figure[1], results)
        elif not settings and ("." in figure[1] or figure["unit"]):
            yield f"{figure[0]} names no source"
    for one in comments:
        before = bare[: one.start()]
        if one[1] == "=" and not re.search(rf"(?:{_PRINTED})(?: ?(?:[%×]|{_UNITS}))?$", before):
            yield f"{one[0]} follows no figure"


def checked(kind: str, source: str, printed: str, results: Results) -> Iterator[str]:
    """Yield what is wrong with one figure."""
    try:
        if kind == "holds:" and not holds(source, results):
            yield f"it does not hold that {source}"
        if kind == "=" and not agrees(printed, value_of(source, results)):
            yield f"{printed} is {value_of(source, results):.4f} in {source}"
    except (NotMeasuredError, ValueError) as error:
        yield f"{source}: {error}"


def agrees(printed: str, value: float) -> bool:
    """Say whether a printed figure is the value, rounded to as many digits as it has."""
    plain = printed.replace("−", "-").replace(",", "")
    digits = len(plain.partition(".")[2])
    return abs(float(plain) - value) <= 0.5 * 10.0**-digits + 1e-9


def holds(claim: str, results: Results) -> bool:
    one, word, other = re.split(r" (below|above) ", claim)
    difference = value_of(one, results) - value_of(other, results)
    return difference < 0 if word == "below" else difference > 0


def value_of(source: str, results: Results) -> float:
    """Return the value of sources that are joined from left to right."""
    first, *rest = _STEP.split(source)
    value = looked_up(first, results)
    for word, other in zip(rest[::2], rest[1::2], strict=True):
        operand = looked_up(other, results)
        match word:
            case "minus":
                value -= operand
            case "plus":
                value += operand
            case "times":
                value *= operand
            case _:
                value /= operand
    return value


def looked_up(source: str, results: Results) -> float:
    keys = source.strip().split(" > ")
    if len(keys) == 1:
        return float(keys[0])
    value: Any = results
    for key in keys:
        if isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            raise NotMeasuredError(f"the results have no {key}")
    return Spread.of(value).mean
