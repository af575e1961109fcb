"""Walking a graph against taking every cosine, on two threads: time to build, time to search, and what is missed.

Vectors lie around planted centres and have few dimensions of their own, as those of trained encoders do: a walk over
independent ones takes several times as long. Both graphs of a shortlist are measured, with the settings and the number
of neighbours that are the defaults. Core seconds are those of both threads together: on a machine that has other
things to do they are what to go by.

    python -m benchmarks.graph_search [COUNT ...]      36306 131072 670091, unless others are given
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import faiss
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from benchmarks.common import save
from laconic.models.shortlisters.graph import Graph
from laconic.models.shortlisters.labels import Nearness
from laconic.models.shortlisters.selection import largest
from laconic.types import Ranking

COUNTS = (36_306, 131_072, 670_091)
DIM, THREADS, BATCH, ALONE = 128, 2, 1024, 100
OWN_DIM, EACH, SPREAD = 24, 50, 0.7  # of the planted vectors: dimensions, how many around a centre, and how far


def main() -> None:
    torch.set_num_threads(THREADS)
    faiss.omp_set_num_threads(THREADS)
    usual, found = Nearness(), []
    for count in map(int, sys.argv[1:] or COUNTS):
        rows, queries = planted(count), planted(count, seed=1)[:BATCH]
        centre = (usual.centroids, usual.centre_links, usual.centre_build_width, usual.centre_search_width)
        text = (usual.neighbours, usual.text_links, usual.text_build_width, usual.text_search_width)
        for kind, settings in (("label centres", centre), ("texts", text)):
            found.append({"vectors": count, "as": kind, **measure(rows, queries, *settings)})
            save("graph_search", {"dim": DIM, "threads": THREADS, "texts": BATCH, "found": found})


def planted(count: int, seed: int = 0) -> Float[Tensor, "count dim"]:
    """Centres and the way from their dimensions to ours are the same for every seed."""
    always, chance = torch.Generator().manual_seed(7), torch.Generator().manual_seed(seed)
    outward = torch.randn(OWN_DIM, DIM, generator=always)
    centres = torch.randn(count // EACH, OWN_DIM, generator=always)
    own = centres[torch.randint(len(centres), (count,), generator=chance)]
    points = own + SPREAD * torch.randn(count, OWN_DIM, generator=chance)
    return functional.normalize((points @ outward).relu(), dim=1)


def measure(
    rows: Float[Tensor, "count dim"],
    queries: Float[Tensor, "batch dim"],
    k: int,
    links: int,
    build_width: int,
    search_width: int,
) -> dict[str, Any]:
    def walk(units: Float[Tensor, "some dim"]) -> Ranking:
        return graph.nearest(units, rows, k, search_width)

    def take_all(units: Float[Tensor, "some dim"]) -> Ranking:
        return joined([largest(part @ rows.T, k) for part in units.split((1 << 26) // len(rows))])

    graph, building = timed(lambda: Graph.of(rows, links, build_width))
    take_all(queries[:8])  # compiles
    by_graph, walking = timed(lambda: walk(queries))
    exact, taking = timed(lambda: take_all(queries))
    _, walking_alone = timed(lambda: [walk(query) for query in queries[:ALONE, None]])
    _, taking_alone = timed(lambda: [take_all(query) for query in queries[:ALONE, None]])
    return {
        "k": k,
        "links": links,
        "build_width": build_width,
        "search_width": search_width,
        "recall": round(sum(shares(by_graph, exact)) / len(queries), 4),
        "graph_megabytes": round(sum(part.nbytes for part in graph.state_dict().values()) / 2**20),
        "build": {"seconds": round(building.seconds, 1), "core_seconds": round(building.core_seconds, 1)},
        "a_text": {"graph": walking.per(BATCH), "exact": taking.per(BATCH)},
        "a_text_alone": {"graph": walking_alone.per(ALONE), "exact": taking_alone.per(ALONE)},
    }


class Spent(NamedTuple):
    seconds: float
    core_seconds: float

    def per(self, texts: int) -> dict[str, float]:
        return {
            "ms": round(1000 * self.seconds / texts, 3),
            "core_ms": round(1000 * self.core_seconds / texts, 3),
        }


def timed(work: Callable[[], Any]) -> tuple[Any, Spent]:
    started, core_started = time.perf_counter(), time.process_time()
    result = work()
    return result, Spent(time.perf_counter() - started, time.process_time() - core_started)


def joined(parts: list[Ranking]) -> Ranking:
    return Ranking(torch.cat([part.labels for part in parts]), torch.cat([part.scores for part in parts]))


def shares(found: Ranking, exact: Ranking) -> Iterator[float]:
    for mine, others in zip(found.labels.tolist(), exact.labels.tolist(), strict=True):
        yield len(set(mine) & set(others)) / len(others)


if __name__ == "__main__":
    main()
