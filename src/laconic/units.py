"""Format and parse counts with nouns, sizes in bytes, and durations."""

from __future__ import annotations

import re

from laconic.errors import ConfigError


def counted(number: int, thing: str, things: str = "") -> str:
    """Return the number with the noun in its singular or plural, such as "1 text" and "1,200 texts"."""
    return f"{number:,} {plural(number, thing, things)}"


def plural(number: int, thing: str, things: str = "") -> str:
    """Return the word that goes with the number; `things` is the plural where it is not the singular with an s."""
    return thing if number == 1 else things or f"{thing}s"


def human_bytes(number: int) -> str:
    for unit, size in (("B", 1), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if number < 999.95 * size:  # what would be written as 1000.0 belongs to the next unit
            return f"{number / size:.{0 if unit == 'B' else 1}f} {unit}"
    return f"{number / 1e12:,.1f} TB"


def bytes_of(size: str) -> int:
    """Parse a size such as 16MB or 2.5 GB; a kB is 1000 bytes, a KiB 1024."""
    number = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?", size.strip().lower(), re.ASCII)
    if not number or len(number[1]) > 18:
        raise ConfigError(f"a size must look like 16MB, 500MB or 2GB, but is {size!r}")
    step = 1024.0 if number[3] else 1000.0
    return round(float(number[1]) * step ** " kmgt".index(number[2] or " "))


def seconds_of(budget: str) -> float:
    """Parse a duration such as "90s", "5m" or "1.5h"; a number alone is in minutes."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)", budget.strip().lower())
    if not found or not float(found[1]):
        raise ConfigError(f"a budget must be a time above 0, such as 90s, 5m or 1.5h, but is {budget!r}")
    return float(found[1]) * {"s": 1, "m": 60, "": 60, "h": 3600}[found[2]]


def human_seconds(seconds: float) -> str:
    """Format a duration in integers: estimates are no finer."""
    if seconds < 1:
        return "less than a second"
    for unit, size, most in (("second", 1, 90), ("minute", 60, 90), ("hour", 3600, 36)):
        if seconds < most * size:
            return _about(seconds / size, unit)
    return _about(seconds / 86400, "day")


def _about(number: float, unit: str) -> str:
    whole = round(number)
    return f"about {whole:,} {unit}" + ("" if whole == 1 else "s")
