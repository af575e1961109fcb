"""Numbers of things in messages: 1 text, 2 texts, 10,000 texts."""

from __future__ import annotations


def counted(number: int, thing: str, things: str = "") -> str:
    """Return the number with the noun in its singular or plural, such as "1 text" and "1,200 texts"."""
    return f"{number:,} {plural(number, thing, things)}"


def plural(number: int, thing: str, things: str = "") -> str:
    """Return the word that goes with the number; `things` is the plural where it is not the singular with an s."""
    return thing if number == 1 else things or f"{thing}s"
