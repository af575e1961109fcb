"""Data files that are damaged or written to do harm: each is read, or refused in words, with little time and memory."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, save_npz

from benchmarks.campaign.children import MOST_MEMORY, SLOWEST, outcome
from benchmarks.chaos.claims import Claim, exceptions, found_and_claimed
from benchmarks.fingerprints import planted
from laconic.data.formats.matrices import read_matrix
from laconic.data.sources import read

_HUGE = 64 * 2**20  # bytes of what is small only as long as it is compressed
_NUMBERS = ("0", "-1", "1e999", "nan", "99999999999999999999", "2147483648", "3:", ":", "1:2:3", "٣", "0x10", "1_000")
_TROUBLE = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b'""""', b"\r", b"\n\n\n", b"\\u0000", b"\xed\xa0\x80", b"\x1b[2J",
    b",,,,,,,", b"{" * 2000, b"[" * 2000, b"x" * 100_000, b"\t" * 500, b"=cmd|' /C calc'!A0", "\u2028".encode(), b"}",
)  # fmt: skip


def files(scratch: Path, cases: int) -> dict[str, Any]:
    """Read so many hostile files, each in a process of its own."""
    whole, bombs = _whole(), _bombs()
    for name, content in whole.items():  # a sound file is read, and what is compiled is compiled before the forks
        (scratch / name).write_bytes(content)
        _read_all(scratch / name)
    chance, found, complaints, slowest, largest = random.Random(1), Counter[str](), [], 0.0, 0.0
    for number in range(cases):
        if number < len(bombs):
            name, content = bombs[number][0], bombs[number][1]()
        else:
            name = chance.choice(sorted(whole))
            content = _changed(name, whole[name], chance)
        path = scratch / name
        path.write_bytes(content)
        ended = outcome(partial(_read_all, path))
        path.unlink()
        found[ended.kind] += 1
        slowest, largest = max(slowest, ended.seconds), max(largest, ended.megabytes)
        if ended.bad:
            (scratch / f"{number}-{name}").write_bytes(content)
            complaints.append(f"{number} {name}: {ended.kind}, {ended.seconds:.1f} s: {str(ended.value)[-600:]}")
            print(complaints[-1], flush=True)
    figures = {
        "files": cases,
        **found,
        "complaints": complaints[:50],
        "slowest_s": round(slowest, 2),
        "most_mb": round(largest),
    }
    return found_and_claimed(
        figures,
        Claim(
            f"{cases:,} hostile files: each is read, or refused in words", exceptions(len(complaints)), not complaints
        ),
        Claim(
            "no memory over 1 GB, nothing over 5 s",
            f"{largest:.0f} MB, {slowest:.1f} s",
            largest < MOST_MEMORY and slowest < SLOWEST,
        ),
    )


def _read_all(path: Path) -> None:
    if path.suffix in (".npz", ".npy"):
        read_matrix(path)
    else:
        read(str(path))


def _whole() -> dict[str, bytes]:
    """Return a sound file of every format."""
    texts, labels, _ = planted()
    texts, labels = texts[:60], labels[:60]
    csv = "text,labels\n" + "".join(f"{text},{'|'.join(true)}\n" for text, true in zip(texts, labels, strict=True))
    jsonl = "".join(json.dumps({"text": text, "labels": true}) + "\n" for text, true in zip(texts, labels, strict=True))
    sparse = "60 100 24\n" + "".join(f"{row % 12},{12 + row % 7} {row}:1.5 {row + 7}:0.25\n" for row in range(60))
    return {
        "data.csv": csv.encode(),
        "data.tsv": csv.replace(",", "\t").encode(),
        "data.jsonl": jsonl.encode(),
        "data.txt": sparse.encode(),
        "data.csv.gz": gzip.compress(csv.encode()),
        "data.jsonl.gz": gzip.compress(jsonl.encode()),
        "data.parquet": _parquet(texts, labels),
        "data.npz": _saved(lambda file: save_npz(file, csr_array(np.eye(60, 24, dtype=np.float32)))),
        "data.npy": _saved(lambda file: np.save(file, np.ones((60, 8), dtype=np.float32))),
    }


def _parquet(texts: list[str], labels: list[list[str]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return _saved(lambda file: pq.write_table(pa.table({"text": texts, "labels": labels}), file))


def _saved(save: Callable[[io.BytesIO], Any]) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def _zip(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _npz(header: str) -> bytes:
    """Return an archive of one array whose header promises what the file does not hold."""
    text = header.encode() + b" " * (64 - (10 + len(header)) % 64 - 1) + b"\n"
    array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
    return _zip(dict.fromkeys(("indices.npy", "indptr.npy", "data.npy", "shape.npy", "format.npy"), array))


def _bombs() -> list[tuple[str, Callable[[], bytes]]]:
    """Return files that promise or unfold to far more than they hold."""
    found: list[tuple[str, Callable[[], bytes]]] = []
    for size in (10**9, 10**12, 10**17, 2**31 - 1, -1):
        for header in (f"{size} 100 24", f"60 {size} 24", f"60 100 {size}"):
            found.append(("data.txt", lambda header=header: f"{header}\n0 1:1.0\n".encode()))
        shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({size},), }}"
        found.append(("data.npz", lambda shape=shape: _npz(shape)))
    letters = {"spaces": b" ", "quote": b'"', "word": b"x", "zeros": b"\x00", "braces": b'{"a":'}
    for letter in letters.values():
        many = partial(lambda letter: b"text,labels\nred,rose\n" + letter * (_HUGE // len(letter)), letter)
        found.append(("data.csv.gz", lambda many=many: gzip.compress(many(), 1)))
        found.append(("data.jsonl.gz", lambda many=many: gzip.compress(many(), 1)))
        found.append(("data.zip", lambda many=many: _zip({"data.csv": many()})))
        found.append(("data.csv", lambda many=many: many()))
        found.append(("data.jsonl", lambda many=many: many()))
        found.append(("data.txt", lambda many=many: many()))
    found.append(("data.zip", lambda: _zip({f"{number}.csv": b"text,labels\na,b\n" for number in range(20_000)})))
    found.append(("data.zip", lambda: _zip({"../../escaped.csv": b"text,labels\na,b\n"})))
    return found


def _changed(name: str, content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        place = chance.randrange(len(data) + 1)
        what = chance.randrange(7)
        if what == 0 and place < len(data):
            data[place] ^= 1 << chance.randrange(8)
        elif what == 1:
            del data[place : place + chance.choice([1, 10, 1000])]
        elif what == 2:
            data[place:place] = chance.choice(_TROUBLE)
        elif what == 3:
            data[place:place] = chance.choice(_NUMBERS).encode()
        elif what == 4:
            data[place:place] = chance.randbytes(chance.choice([1, 20, 500]))
        elif what == 5:
            data[place:place] = data[max(0, place - 200) : place] * chance.choice([1, 50])
        else:
            data = data[:place]
    return bytes(data)
