"""The stages of a run as its user sees them: a title, how long each took, and the most memory that it held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import NamedTuple

from laconic.system.machine import most_memory_held, watch_memory_anew

# Longer names come before those that they begin with. An empty title: its parts are stages of their own.
_TITLES = {
    "fusion-trees-of-all": "label trees of all texts",
    "fusion-trees": "label trees",
    "fusion-space": "",
    "fusion-siamese": "siamese",
    "fusion-encoder": "transformer",
    "fusion-evidence": "scores of held-out texts",
    "fusion-order": "order of the best labels",
    "fusion": "combining network",
    "surrogate-groups": "clusters of labels",
    "surrogate": "surrogate task",
    "shortlister-tree": "clusters of labels",
    "shortlister-space": "",
    "shortlister-siamese": "siamese",
    "vectors": "vectors of texts",
    "extreme": "label classifiers",
    "ranker": "label classifiers",
    "ranks": "ranks of true labels",
    "picks": "clusters of texts",
    "blend": "weights of scores",
    "calibration": "calibration",
    "reranker-candidates": "candidates to re-rank",
    "reranker": "re-ranker",
    "trees": "label trees",
    "member": "further models",
    "train": "training",
    "refit": "training on all texts",
}
_PARTS = {
    "negatives": "negative labels",
    "clusters": "clusters of labels",
    "warm-up": "warm-up by label texts",
    "kernels": "compiling kernels",
}


def title_of(stage: str) -> str:
    """Return what a stage is called in reports; an unknown one by its own name."""
    if stage.endswith("-amount"):  # a decision
        return ""
    name = next((one for one in _TITLES if stage == one or stage.startswith(f"{one}-")), "")
    words = stage[len(name) :].strip("-").rsplit("-", 1)
    number = f"round {int(words.pop()) + 1}" if words[-1].isdigit() else ""
    part = "-".join(words)
    title = _TITLES.get(name, "")
    if name and not title:
        return ""
    return ", ".join(filter(None, [title, _PARTS.get(part, part.replace("-", " ")), number]))


class StageFacts(NamedTuple):
    """What a finished stage took."""

    stage: str
    seconds: float
    memory: int  # bytes that the process held at most meanwhile; 0 where the system does not say
    processor: float = 0.0  # seconds that all cores together worked for the process


@contextmanager
def measured(stage: str, keep: Callable[[StageFacts], None]) -> Iterator[None]:
    """Measure what the block takes, and keep it if the block ends well."""
    watch_memory_anew()
    began, worked = perf_counter(), process_time()
    yield
    seconds, processor = round(perf_counter() - began, 2), round(process_time() - worked, 2)
    keep(StageFacts(stage, seconds, most_memory_held(), processor))
