"""Bulk prediction on a cluster of Ray on this machine: rates, memory, equality with `laconic predict`, and kills.

A small model (`nearest`, every twelfth text of debian-related) answers titles that are mixed from those of the data.

    python -m benchmarks.bulk_speed [PART ...]      rates, memory and kills; long, if it is named
    python -m benchmarks.bulk_speed long=200000     fewer texts than 20 million

Rates want two idle cores; the others do not depend on what else runs. Reading and writing 20 million texts takes
about 3 GB below TMPDIR.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import save_beside
from laconic.bulk.labeller import Question, check_question
from laconic.data.sources import read

TEXTS, FILES, KILLS, LONG, FEW = 200_000, 40, 5, 20_000_000, 65_536
UNIT = 16_384  # texts of a part
IN_FILE = 500_000  # texts of a file among many, which is written by as many at a time as a part has
TICKS = os.sysconf("SC_CLK_TCK")
LACONIC = [sys.executable, "-m", "laconic"]


def main(parts: list[str]) -> None:
    with TemporaryDirectory() as folder:
        place = Path(folder)
        model = small_model(place)
        check_question(model, Question())  # as the command does: kernels are compiled here, and not by the first actor
        known = {"rates": rates, "memory": memory, "kills": kills}
        for part in parts or known:
            name, _, count = part.partition("=")
            found = long(place, model, int(count or LONG)) if name == "long" else known[name](place, model)
            save_beside("bulk_speed", name, found)


def small_model(place: Path) -> Path:
    corpus = read("debian-related").split("train")
    names = read("debian-related").labels.names
    with (place / "train.jsonl").open("w") as file:
        for row in range(0, len(corpus), 12):
            start, end = corpus.labels.indptr[row : row + 2]
            labels = [names[label] for label in corpus.labels.indices[start:end]]
            file.write(json.dumps({"text": (corpus.texts or [])[row], "labels": labels}) + "\n")
    run([*LACONIC, "train", place / "train.jsonl", "--method", "nearest", "--out", place / "model", "--quiet"])
    return place / "model" / "packed"


def write_titles(paths: list[Path], count: int, labels: int = 0) -> None:
    """Write titles that are the beginning of one title and the end of another, some at a time.

    With a number of labels, each title gets three of them.
    """
    generator = random.Random(1)
    words = [text.split() for split in read("debian-related").splits.values() for text in split.texts or ()]

    def title() -> str:
        one, other = generator.choice(words), generator.choice(words)
        return " ".join(one[: generator.randint(1, len(one))] + other[generator.randint(0, len(other) - 1) :])

    for path in paths:
        path.parent.mkdir(exist_ok=True)
        left = count // len(paths)
        schema = pa.schema({"title": pa.string()} | ({"labels": pa.list_(pa.string())} if labels else {}))
        with pq.ParquetWriter(path, schema) as file:
            while left:
                some = min(left, UNIT)
                columns: dict[str, Any] = {"title": [title() for _ in range(some)]}
                if labels:
                    numbers = [sorted(generator.sample(range(labels), 3)) for _ in range(some)]
                    columns["labels"] = [[f"label {number}" for number in own] for own in numbers]
                file.write_table(pa.table(columns, schema=schema))
                left -= some


def rates(place: Path, model: Path) -> dict[str, Any]:
    """Measure `laconic predict` with one thread, and one and two actors, on the same texts one after the other."""
    write_titles([place / "titles.parquet"], TEXTS)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    out = place / "direct.parquet"
    run([*LACONIC, "predict", model, place / "titles.parquet", "--threads", 1, "--out", out])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, Any] = {"texts": TEXTS, "load before": round(os.getloadavg()[0], 1)}
    found["laconic predict --threads 1"] = {
        "seconds": round(time.perf_counter() - started, 1),
        "processor seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
    }
    for workers in (1, 2):
        found[f"{workers} actors"] = on_ray(place, model, place / f"out-{workers}", workers)
    found["load after"] = round(os.getloadavg()[0], 1)
    found["rows that differ from laconic predict"] = differing(place / "direct.parquet", place / "out-2")
    return found


def memory(place: Path, model: Path) -> dict[str, Any]:
    """Measure the memory of one actor and of two."""
    write_titles([place / "few.parquet"], FEW)
    kinds = "own megabytes of an actor", "proportional megabytes of an actor", "proportional megabytes of all processes"
    found: dict[str, Any] = {"texts": FEW}
    for workers in (1, 2):
        measured = on_ray(place, model, place / f"memory-{workers}", workers, "few.parquet")
        found[f"{workers} actors"] = {kind: measured[kind] for kind in kinds}
    return found


def on_ray(place: Path, model: Path, out: Path, workers: int, titles: str = "titles.parquet") -> dict[str, Any]:
    """Answer titles on a new cluster in this process; what its actors took is read from /proc."""
    from laconic.bulk.job import Job
    from laconic.bulk.ray_cluster import connected
    from laconic.bulk.ray_engine import answer_job
    from laconic.bulk.units import files_in, units_of

    job = Job(folder=out, model=model, question=Question(), units=units_of(files_in([place / titles]), texts=UNIT))
    begun = time.perf_counter()
    with connected(store=256 << 20), watched("ray::UnitActor") as actors:
        start = time.perf_counter() - begun
        first: list[float] = []
        totals = answer_job(job, workers=workers, on_part=lambda part: first.append(time.perf_counter()))
        ended = time.perf_counter()
    used = [one["processor seconds"] for one in actors.values()]
    return {
        "texts": totals.rows,
        "seconds of Ray's start": round(start, 1),
        "seconds": round(ended - begun - start, 1),
        "texts per second from the first part on": round((totals.rows - UNIT) / (ended - first[0])),
        "processor seconds of actors": [round(one, 1) for one in used],
        "core hours for a billion texts": round(sum(used) / totals.rows * 1e9 / 3600, 1),
        "own megabytes of an actor": max(one["own"] for one in actors.values()),
        "proportional megabytes of an actor": max(one["proportional"] for one in actors.values()),
        "proportional megabytes of all processes": max(one["all"] for one in actors.values()),
    }


@contextmanager
def watched(title: str) -> Iterator[dict[int, dict[str, float]]]:
    """Follow the processes of that title: their largest memory, and the processor time that they took."""
    found: dict[int, dict[str, float]] = {}
    ended = Event()

    def watch() -> None:
        while not ended.wait(0.5):
            below = processes_below(os.getpid())
            whole = sum(kilobytes(pid).get("Pss", 0) for pid in below)
            for pid in (pid for pid in below if below[pid].startswith(title)):
                one, now = found.setdefault(pid, {}), kilobytes(pid)
                own = now.get("Private_Clean", 0) + now.get("Private_Dirty", 0)
                for name, value in (("own", own), ("proportional", now.get("Pss", 0)), ("all", whole)):
                    one[name] = max(one.get(name, 0), round(value / 1000))
                one["processor seconds"] = max(one.get("processor seconds", 0), processor_seconds(pid))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def processes_below(root: int) -> dict[int, str]:
    """Return the titles of processes that a process has started, itself or by others."""
    parents, titles = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            titles[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ")
        except OSError:  # it has ended
            continue

    def is_below(pid: int) -> bool:
        return pid == root or (pid in parents and is_below(parents[pid]))

    return {pid: title for pid, title in titles.items() if is_below(pid)}


def kilobytes(pid: int) -> dict[str, float]:
    """Return the kilobytes of a process by kind; nothing if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return {name: float(value.split()[0]) * 1.024 for name, _, value in (line.partition(":") for line in lines)}


def processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def differing(direct: Path, folder: Path) -> int:
    """Count the rows whose labels or scores are not those of `laconic predict`, in order."""
    expected, found = pq.read_table(direct).to_pylist(), pq.read_table(folder).to_pylist()
    assert len(expected) == len(found)

    def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
        names = [f"label_{place}" for place in range(1, 6)], [f"score_{place}" for place in range(1, 6)]
        answers = [[one[name] for name in kind if one[name] is not None] for kind in names]
        return [one["text"], *answers] == [other["title"], other["labels"], other["scores"]]

    return sum(not same(*both) for both in zip(expected, found, strict=True))


def kills(place: Path, model: Path) -> dict[str, Any]:
    """Kill actors, and the driver, in the middle of a run; compare what is there in the end with an unbroken run."""
    write_titles([place / "many" / f"{number:02}.parquet" for number in range(FILES)], TEXTS)
    command = [*LACONIC, "predict", model, place / "many", "--engine", "ray", "--out"]
    run([*command, place / "whole"])
    killed = {"actors": 0, "drivers": 0}
    with subprocess.Popen([*map(str, command), str(place / "actors")]) as driver:
        while driver.poll() is None:
            time.sleep(0.05)
            done = len(list((place / "actors").glob("*.parquet")))
            living = [pid for pid, title in processes_below(driver.pid).items() if title.startswith("ray::UnitActor")]
            if living and killed["actors"] < KILLS and done > 6 * killed["actors"]:
                os.kill(living[-1], signal.SIGKILL)
                killed["actors"] += 1
    for number in range(KILLS):
        with subprocess.Popen([*map(str, command), str(place / "drivers")]) as driver:
            while driver.poll() is None and len(list((place / "drivers").glob("*.parquet"))) <= 6 * (number + 1):
                time.sleep(0.05)
            killed["drivers"] += driver.poll() is None
            driver.kill()
    run([*command, place / "drivers"])
    whole = hashes(place / "whole")
    return {
        "texts": TEXTS,
        "parts": len(whole),
        "killed": killed,
        "equal after kills": {name: hashes(place / name) == whole for name in killed},
    }


def hashes(folder: Path) -> dict[str, str]:
    assert (folder / "_SUCCESS").exists()
    written = json.loads((folder / "_manifest.json").read_text())["written"]
    assert {one["part"] for one in written} == {path.name for path in folder.glob("*.parquet")}
    return {one["part"]: one["sha256"] for one in written}


def long(place: Path, model: Path, count: int) -> dict[str, Any]:
    """Answer very many titles, each mixed anew, with two actors; all of them are never in memory."""
    before = round(os.getloadavg()[0], 1)
    files = max(1, count // IN_FILE)
    write_titles([place / "long" / f"{number:02}.parquet" for number in range(files)], count)
    return {"load before": before} | on_ray(place, model, place / "out-long", 2, "long")


def run(command: list[Any]) -> None:
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1:])
