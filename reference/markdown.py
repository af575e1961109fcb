"""Write Markdown: tables, code and text that must be shown as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CODE = re.compile(r"`[^`]*`")
_SPECIAL = re.compile(r"([\\*_<>\[\]|])")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; cells are Markdown already, without line breaks."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def plain(text: str) -> str:
    """Return text as Markdown that shows it unchanged; only `code` keeps its marks."""
    parts, last = [], 0
    for found in _CODE.finditer(text):
        parts += [_escaped(text[last : found.start()]), found[0].replace("|", "&#124;")]
        last = found.end()
    return "".join([*parts, _escaped(text[last:])])


def titled(title: str) -> str:
    """Return the beginning of a page whose title in the navigation is not that of its first heading."""
    return f"---\ntitle: {title}\n---\n"


def breakable(name: str) -> str:
    """Return a name as code that may be broken after `.` and `_`, as on a phone."""
    parts = re.sub(r"([._])", r"\1<wbr>", name)
    return f"<code>{parts}</code>"


def code(text: str) -> str:
    """Return text as code inside a line, also in a cell of a table."""
    return f"`{text}`" if "|" not in text else f"<code>{text.replace('|', '&#124;')}</code>"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
