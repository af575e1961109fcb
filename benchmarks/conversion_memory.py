"""Memory of `laconic convert`: one file in one process, and the same texts in eight files by one and two processes.

    python -m benchmarks.conversion_memory

Titles are mixed from those of debian-related, with three of 20,000 labels each. Memory is that of all processes
together, and does not depend on what else runs.
"""

from __future__ import annotations

import resource
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from benchmarks.bulk_speed import LACONIC, kilobytes, processes_below, write_titles
from benchmarks.common import save

SIZES, FILES, LABELS = (100_000, 400_000), 8, 20_000


def main() -> None:
    found = {}
    for count in SIZES:
        with TemporaryDirectory() as folder:
            found[f"{count} texts"] = conversions(Path(folder), count)
    save("conversion_memory", found)


def conversions(place: Path, count: int) -> dict[str, Any]:
    write_titles([place / "many" / f"{number}.parquet" for number in range(FILES)], count, labels=LABELS)
    pq.write_table(pq.read_table(place / "many"), place / "one.parquet")
    convert = [*LACONIC, "convert"]
    found: dict[str, Any] = {"one file": measured([*convert, place / "one.parquet", place / "0"])}
    for workers in (1, 2):
        command = [*convert, place / "many", place / f"{workers}", "--workers", workers]
        found[f"{workers} workers"] = measured(command)
    written = [{path.name: path.read_bytes() for path in (place / f"{number}").iterdir()} for number in range(3)]
    return found | {"equal to the byte": written == written[:1] * 3}


def measured(command: list[Any]) -> dict[str, float]:
    """Run a command; return its processor seconds, and the most memory that its processes had together."""
    before, most = resource.getrusage(resource.RUSAGE_CHILDREN), 0.0
    with subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, sum(kilobytes(pid).get("Pss", 0) for pid in processes_below(process.pid)))
            time.sleep(0.1)
    assert process.returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor seconds": round(used, 1), "megabytes": round(most / 1000)}


if __name__ == "__main__":
    main()
