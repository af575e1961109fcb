"""Show control characters of texts, labels and file names as escapes: a terminal would obey them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

# All but tab and newline; with them the signs that reverse the order of what follows, and the lone surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    r"""Return the text with control characters written as Python writes them, such as \x1b."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


class SafeConsole(Console):
    """A console on which only its own styles are control sequences."""

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        for segment in super().render(*arguments, **options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))
