"""Make mutated data files of every format, for campaigns that read thousands of them."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
from scipy.sparse import csr_array, save_npz


class HostileFile(NamedTuple):
    """A file to be read, and how it was made."""

    name: str  # its ending says the format
    content: bytes
    made: str


def _parquet() -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": ["red rose", "blue sea"], "labels": ["a;b", "c"]}), file)
    return file.getvalue()


def _npz() -> bytes:
    file = io.BytesIO()
    save_npz(file, csr_array(np.eye(4, dtype=np.float32)))
    return file.getvalue()


SOUND: dict[str, bytes] = {
    "texts.csv": b'text,labels,id\nred rose,a;b,1\n"blue, sea",c,2\n',
    "texts.tsv": b"text\tlabels\nred rose\ta\nblue sea\tb\n",
    "texts.jsonl": b"".join(json.dumps({"text": f"text {n}", "labels": ["a", n]}).encode() + b"\n" for n in range(5)),
    "texts.txt": b"2 5 3\n0,1 0:1.5 4:2\n2 1:0.25\n",
    "texts.parquet": _parquet(),
    "trn_X_Y.txt": b"2 3\n0:1 2:0.5\n1:1\n",
    "trn_X_Y.npz": _npz(),
}
_NUMBERS = [b"-1", b"0", b"2147483647", b"4294967296", b"99999999999999999", b"1e400", b"nan"]
_SIGNS = [b"\x00", b'"', b"\n", b"\xff", b"{", b"[" * 5000, b"\x1b[2J", b",", b":", b"\t", b"\xed\xa0\x80"]


def _flip(data: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _cut(data: bytearray, chance: random.Random) -> bytes:
    return bytes(data[: chance.randrange(len(data))])


def _insert(data: bytearray, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return bytes(data[:at]) + chance.choice(_SIGNS) * chance.choice([1, 1, 100]) + bytes(data[at:])


def _repeat(data: bytearray, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return bytes(data[:at]) + bytes(data[at : at + 40]) * chance.choice([2, 1000, 100_000]) + bytes(data[at:])


def _number(data: bytearray, chance: random.Random) -> bytes:
    digits = [at for at, byte in enumerate(data) if 48 <= byte < 58] or [0]
    at = chance.choice(digits)
    return bytes(data[:at]) + chance.choice(_NUMBERS) + bytes(data[at + 1 :])


MUTATIONS: dict[str, Callable[[bytearray, random.Random], bytes]] = {
    "flip": _flip,
    "cut": _cut,
    "insert": _insert,
    "repeat": _repeat,
    "number": _number,
}


def hostile_files(count: int, seed: int = 0) -> Iterator[HostileFile]:
    """Yield mutated files; the same seed gives the same ones."""
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        name = chance.choice(sorted(SOUND))
        content, made = SOUND[name], []
        for _ in range(chance.choice([1, 1, 2, 3])):
            kind = chance.choice(sorted(MUTATIONS))
            content, made = MUTATIONS[kind](bytearray(content or b"\n"), chance), [*made, kind]
        if chance.random() < 0.2:
            content, made = gzip.compress(content, mtime=0), [*made, "gzip"]
            if chance.random() < 0.5:
                content, made = _flip(bytearray(content), chance), [*made, "flip"]
        yield HostileFile(name, content, f"{number}: {name}, {', '.join(made)}")
