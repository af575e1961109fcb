"""What it takes to serve a packed folder: times, memory, pages that processes share, rows that are scored."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from laconic.analysis.latency import OwnProcess, Trial
from laconic.packed.engine.search import Searched
from laconic.packed.folder import open_packed
from laconic.packed.tokenizer import Reader
from laconic.system.machine import usable_cores

BATCH = 10_000  # texts that are answered together
COUNTED = 200  # texts whose rows are counted
_PAGES = ("Rss", "Pss", "Shared_Clean", "Private_Clean", "Private_Dirty")


def served(folder: Path, texts: Sequence[str], singly: int) -> dict[str, Any]:
    """A text at a time in processes of one core, two of them with the same folder; many texts on all cores."""
    trial = Trial(folder=str(folder), texts=list(texts), singly=singly)
    with one_core():
        _first_answer(folder, texts[0])  # kernels are compiled now, if they were not before
        opening = _first_answer(folder, texts[0])
        with OwnProcess() as one, OwnProcess() as other:
            first, second = one.ask(trial), other.ask(trial)
            pages = shared_pages(other.pid, folder)
    with OwnProcess() as all_cores:
        together = all_cores.ask(Trial(folder=str(folder), texts=list(islice(cycle(texts), BATCH)), singly=1))
    assert first.private is not None
    return {
        "p50_ms": round(first.p50, 3),
        "p99_ms": round(first.p99, 3),
        "p50_ms_of_a_second_process": round(second.p50, 3),
        "texts_timed": first.singly,
        "texts_a_second_on_one_core": round(first.texts_a_second),
        f"texts_a_second_on_{usable_cores()}_cores": round(together.texts_a_second),
        "private_megabytes": round(first.private / 1e6, 1),
        "mapped_files_megabytes": round(sum(path.stat().st_size for path in folder.iterdir()) / 1e6, 1),
        "seconds_of_imports": opening["imports"],
        "seconds_to_the_first_answer_after_imports": opening["first_answer"],
        "second_process_megabytes": pages,
    }


@contextmanager
def one_core() -> Iterator[None]:
    """This process and those that it starts."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def shared_pages(pid: int, folder: Path) -> dict[str, dict[str, float]]:
    """A process's memory in megabytes: all of it, and what of it is mapped from the folder."""
    of_folder, inside = dict.fromkeys(_PAGES, 0), False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = f" {folder}/" in line
        elif inside:
            _add(line, of_folder)
    whole = dict.fromkeys(_PAGES, 0)
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        _add(line, whole)
    return {"whole": _megabytes(whole), "mapped_from_the_folder": _megabytes(of_folder)}


def rows_scored(folder: Path, texts: Sequence[str]) -> dict[str, float]:
    """Estimate by plain numpy how many labels the engine scores for each of these texts, and how many are different.

    Clusters and groups are chosen by all of their bits here, where the engine reads the upper ones first.
    """
    model = open_packed(folder)
    assert isinstance(model.ranker, Searched)
    assert model.vocabulary is not None
    ranker, read = model.ranker, Reader(model.splitter, model.vocabulary).read(texts)
    sizes, touched = np.diff(ranker.starts), np.zeros(ranker.clusters.size, dtype=bool)
    counts, rows = [], [part and (part.coarse, part.scales, part.biases) for part in (ranker.groups, ranker.clusters)]
    for vector in ranker.vectors(read).for_clusters:
        opened = _opened(ranker, vector, *rows)
        touched[opened] = True
        counts.append(int(ranker.starts[0] + sizes[opened].sum()))
    return {
        "fewest": min(counts),
        "mean": round(float(np.mean(counts)), 1),
        "texts": len(texts),
        "different_rows_together": int(sizes[touched].sum()),
    }


def _opened(
    ranker: Searched, vector: np.ndarray, groups: tuple[np.ndarray, ...] | None, clusters: tuple[np.ndarray, ...]
) -> Int[np.ndarray, "clusters"]:
    """The best clusters among those of the best groups; of either, bytes, scales and biases are given."""
    near = np.arange(ranker.clusters.size)
    if groups is not None:
        coarse, scales, biases = groups
        best = _best(coarse @ vector * scales + biases, ranker.open_groups)
        near = np.concatenate([np.arange(*ranker.group_starts[group : group + 2]) for group in best])
    coarse, scales, biases = clusters
    return near[_best(coarse[near] @ vector * scales[near] + biases[near], ranker.beam)]


def _best(scores: np.ndarray, count: int) -> Int[np.ndarray, "n"]:
    return np.argsort(-scores, kind="stable")[:count]


def _add(line: str, kilobytes: dict[str, int]) -> None:
    name, _, value = line.partition(":")
    if name in kilobytes:
        kilobytes[name] += int(value.split()[0])


def _first_answer(folder: Path, text: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks._first_answer", str(folder), text]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def _megabytes(kilobytes: dict[str, int]) -> dict[str, float]:
    return {name: round(value * 1024 / 1e6, 1) for name, value in kilobytes.items()}
