"""Measure how long opening a packed model of a gigabyte takes: its content verified for the first time, and remembered.

    python -m benchmarks.opening

The files are in the page cache, as they are after copying; the rate is that of computing, not of a disk.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import save
from benchmarks.fingerprints import planted
from laconic import Laconic
from laconic.packed.folder import FORMAT, open_packed
from laconic.storage.manifest import MANIFEST, PACKED_MODEL, check_hashes, write_manifest

_ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=10**9)
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = f"{scratch}/cache"
        folder = _packed(Path(scratch), options.bytes)
        time.sleep(3)  # until its files are no longer new
        size = sum(path.stat().st_size for path in folder.iterdir())
        first, again = [], []
        for _ in range(_ROUNDS):
            for path in Path(scratch, "cache", "laconic", "verified").glob("*"):
                path.unlink()
            first.append(_seconds(lambda: open_packed(folder)))
            again.append(_seconds(lambda: open_packed(folder)))
        sizes_alone = min(_seconds(lambda: open_packed(folder, verify=False)) for _ in range(_ROUNDS))
        thorough = _seconds(lambda: check_hashes(folder, kind=PACKED_MODEL))
        one_core = _seconds(lambda: hashlib.file_digest((folder / "padding").open("rb"), "sha256"))
    save(
        "opening",
        {
            "megabytes": size / 1e6,
            "first_s": min(first),
            "first_gb_per_s": size / 1e9 / min(first),
            "again_s": min(again),
            "sizes_alone_s": sizes_alone,
            "all_hashes_s": thorough,
            "sha256_on_one_core_gb_per_s": options.bytes / 1e9 / one_core,
        },
    )


def _packed(scratch: Path, size: int) -> Path:
    """Pack a small model, and put a large file of it beside."""
    texts, labels, _ = planted()
    model = Laconic("nearest").fit(texts, labels)
    model.pack(texts)
    model.save(scratch / "model")
    folder = scratch / "model" / "packed"
    piece = os.urandom(10**6)
    with (folder / "padding").open("wb") as file:
        for _ in range(size // len(piece)):
            file.write(piece)
    (folder / MANIFEST).unlink()
    write_manifest(folder, format=FORMAT, kind=PACKED_MODEL)
    return folder


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
