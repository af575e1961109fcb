"""What is asked of a GPU: weights drawn at random, titles as long as AmazonTitles-670K's, and how answers are timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from benchmarks.shapes import PAPER_SHAPES, make
from laconic.evaluation.evaluate import on_device
from laconic.models.rankers import Ranker
from laconic.predict.gpu.graphs import GraphRanker
from laconic.training.step import leave_capture
from laconic.types import FIRST_WORD, PAD, Ranking, Tokens

SHAPE, LENGTH, TEXTS = PAPER_SHAPES["AmazonTitles-670K"], 32, 4096
NUM_IDS = SHAPE.words + FIRST_WORD
Kind = TypeVar("Kind", bound=Ranker)
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Case:
    device: torch.device
    labels: int
    clusters: int
    top: int  # clusters that are opened
    batch: int
    singly: int  # texts that are answered one by one
    times: int  # batches that are timed
    k: int = 5


@torch.no_grad()
def drawn(ranker: Kind) -> Kind:
    """With weights far enough apart for texts to differ in what they find."""
    generator = torch.Generator(next(ranker.parameters()).device).manual_seed(0)
    for name, parameter in ranker.named_parameters():
        if name.endswith("embedding.weight"):
            parameter.normal_(generator=generator)[PAD] = 0
        elif name.endswith("classifier.weight"):
            parameter.normal_(std=0.05, generator=generator)
        elif name.endswith("classifier.bias"):
            parameter.normal_(std=0.5, generator=generator)
    return ranker.eval()


def batches(size: int, texts: int = TEXTS) -> list[Tokens]:
    """On the host, each cut at its longest text, as a tokeniser has them."""
    found = []
    for ids in torch.split(_titles()[:texts], size):
        cut = ids[:, : max(1, int((ids != PAD).sum(1).max()))].contiguous()
        found.append(Tokens(cut, (cut != PAD).float()))
    return found


@cache
def _titles() -> Int[Tensor, "texts length"]:
    return make(SHAPE, texts=TEXTS, length=LENGTH).ids


def answered(case: Case, ranker: Ranker, tokens: Tokens) -> Ranking:
    """From the host to the host."""
    inputs = tokens if isinstance(ranker, GraphRanker) else on_device(tokens, case.device)
    labels, scores = ranker.rank(inputs, case.k)
    return Ranking(labels.cpu(), scores.cpu())


def in_batches(case: Case, ranker: Ranker, asked: Sequence[Tokens], times: int) -> dict[str, Any]:
    """Batches that are answered one after another: the median."""
    seconds = _seconds(case, ranker, asked, times)
    sizes = [len(tokens.ids) for tokens in islice(cycle(asked), times)]
    rates = [size / one for size, one in zip(sizes, seconds, strict=True)]
    return {
        "texts_a_second": round(statistics.median(rates)),
        "batch_ms": round(1000 * statistics.median(seconds), 3),
    }


def one_by_one(case: Case, ranker: Ranker, times: int) -> dict[str, Any]:
    cuts = statistics.quantiles(_seconds(case, ranker, batches(1, min(times, TEXTS)), times), n=100)
    return {"p50_ms": round(1000 * cuts[49], 4), "p99_ms": round(1000 * cuts[98], 4), "texts_timed": times}


def agreement(case: Case, ranker: Ranker, quick: Ranker, asked: Sequence[Tokens]) -> float:
    """The share of one's best labels that the other has too, both with convolutions in full precision."""
    same = total = 0
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for tokens in asked:
            one, other = answered(case, ranker, tokens).labels, answered(case, quick, tokens).labels
            same += int((one[:, :, None] == other[:, None]).any(2).sum())
            total += one.numel()
    return same / total


def made_of(quick: Ranker) -> dict[str, Any]:
    """What answered: a quick way that could not run would not be seen in its times."""
    assert isinstance(quick, GraphRanker)
    return {"answered by": type(quick.quick).__name__, "shapes captured": [list(shape) for shape in quick.captured]}


def attempt(what: str, run: Callable[[], Result], device: torch.device) -> Result | str:
    """Return what came of it, and print it at once; a failure must not cost a run all that comes after."""
    result: Result | str
    try:
        result = run()
    except Exception as error:  # noqa: BLE001 - whatever a compiler or a driver may raise
        result = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if device.type == "cuda":
            leave_capture(device)
    print(f"{what}: {result}", flush=True)
    return result


def _seconds(case: Case, ranker: Ranker, asked: Sequence[Tokens], times: int) -> list[float]:
    of_shapes = {len(bin(tokens.ids.shape[1] - 1)): tokens for tokens in asked}
    for tokens in 3 * list(of_shapes.values()):  # answered, captured, and answered again
        answered(case, ranker, tokens)
    seconds = []
    for tokens in islice(cycle(asked), times):
        started = time.perf_counter()
        answered(case, ranker, tokens)
        seconds.append(time.perf_counter() - started)
    return seconds
