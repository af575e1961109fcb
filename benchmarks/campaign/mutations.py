"""Damage to a folder: by chance (bits, pages, lengths, files), and by somebody who knows the formats."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Mutation: TypeAlias = Callable[[Path, random.Random], str]  # damages a folder and says how
_PAGE = 4096
_HEADER = 8  # bytes that hold the length of the header of .safetensors
_LEAVES: tuple[Any, ...] = (
    *(0, 1, -1, 2**31 - 1, 2**31, 2**63, 10**18, -(10**18), 1e308, float("nan"), float("inf"), 0.5),
    *(None, True, False, "", "x" * 100, "\x1b[31m", "../../etc/passwd", "F64", "U8", [], {}, [[]], [0] * 100, {"": 0}),
)


def blind(folder: Path, chance: random.Random) -> str:
    """Damage a file as disks and copies do."""
    path = _some_file(folder, chance)
    content = bytearray(path.read_bytes())
    kind = chance.choice(["bit", "bytes", "page", "cut", "longer", "gone", "swapped", "empty"] if content else ["gone"])
    place = chance.randrange(len(content)) if content else 0
    before = bytes(content)
    if kind == "bit":
        content[place] ^= 1 << chance.randrange(8)
    elif kind == "bytes":
        for _ in range(chance.randint(1, 8)):
            content[chance.randrange(len(content))] = chance.randrange(256)
    elif kind == "page":
        place -= place % _PAGE
        content[place : place + _PAGE] = bytes(len(content[place : place + _PAGE]))
    elif kind == "cut":
        del content[place:]
    elif kind == "longer":
        content += chance.randbytes(chance.randint(1, 100))
    elif kind == "empty":
        content.clear()
    elif kind == "swapped":
        other = _some_file(folder, chance)
        content = bytearray(other.read_bytes())
    if kind == "gone":
        path.unlink()
    elif bytes(content) == before:
        return ""  # chance changed nothing
    else:
        path.write_bytes(content)
    return f"{path.name}: {kind}"


def informed(folder: Path, chance: random.Random) -> str:
    """Change values of a file as somebody does who knows its format."""
    path = _some_file(folder, chance)
    if path.suffix == ".json":
        return f"{path.name}: {_change_json_file(path, chance)}"
    if path.suffix == ".safetensors":
        change = chance.choice([_change_header, _change_numbers])
        return f"{path.name}: {change(path, chance)}"
    if path.suffix == ".jsonl":
        lines = path.read_text().splitlines()
        lines.insert(chance.randint(0, len(lines)), chance.choice(["{}", "3", "", "[", "null", '{"epoch": 1e999}']))
        path.write_text("\n".join(lines) + "\n")
        return f"{path.name}: a line"
    return blind(folder, chance)


def copied(folder: Path, place: Path) -> Path:
    """Return a copy of a folder, in place of an earlier one."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    return place


def _some_file(folder: Path, chance: random.Random) -> Path:
    return chance.choice(sorted(path for path in folder.rglob("*") if path.is_file()))


def _change_json_file(path: Path, chance: random.Random) -> str:
    try:
        value = json.loads(path.read_text())
    except ValueError:
        return "left"
    said = _change_leaf(value, chance)
    path.write_text(json.dumps(value))
    return said


def _change_leaf(value: Any, chance: random.Random) -> str:
    """Replace, remove or add a value somewhere inside; the deeper, the likelier."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return "left"
        key = chance.choice(keys)
        inner = value[key]
        if not (isinstance(inner, dict | list) and inner and chance.random() < 0.9):
            break
        value = inner
    new = chance.choice(_LEAVES)
    what = chance.choice(["replaced", "replaced", "replaced", "removed", "nested", "repeated"])
    if what == "removed":
        del value[key]
    elif what == "nested":
        for _ in range(chance.choice([1, 30, 900])):
            inner = [inner] if chance.random() < 0.5 else {"of": inner}
        value[key] = inner
    elif what == "repeated" and isinstance(value, list):
        value.extend([inner] * chance.choice([1, 10, 3000]))
    else:
        value[key] = new
    return f"{key!r} {what} {new!r:.30}"


def _change_header(path: Path, chance: random.Random) -> str:
    content = path.read_bytes()
    length = int.from_bytes(content[:_HEADER], "little")
    header = json.loads(content[_HEADER : _HEADER + length])
    said = _change_leaf(header, chance)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(_HEADER, "little") + text + content[_HEADER + length :])
    return f"header, {said}"


def _change_numbers(path: Path, chance: random.Random) -> str:
    """Overwrite words of the data with numbers that mean trouble as integers or floats."""
    content = bytearray(path.read_bytes())
    start = _HEADER + int.from_bytes(content[:_HEADER], "little")
    trouble = [b"\xff" * 8, b"\xff\xff\xff\x7f" * 2, bytes(8), b"\x00\x00\xc0\x7f" * 2, b"\x00\x00\x80\x7f" * 2]
    for _ in range(chance.choice([1, 1, 4, 64])):
        if len(content) - start > 8:
            place = start + chance.randrange(0, len(content) - start - 8, 4)
            content[place : place + 8] = chance.choice(trouble)
    path.write_bytes(content)
    return "numbers"
