"""How quickly a GPU answers, from token ids on the host to labels on the host, at the shape of AmazonTitles-670K.

Batches are scored against all labels: as FlatRanker does it, and roughly first and then exactly, in all the ways that
are worth trying (chunks, groups, tiles), beside what reading the rows once and the product alone would take. Single
texts go through InceptionXML+'s shortlist: as ShortlistRanker does it, and as a CUDA graph. Rows are drawn at random;
how many of the best five labels agree with float32 is counted.

    python -m benchmarks.gpu_prediction
    python -m benchmarks.gpu_prediction --device cpu --labels 5000 --clusters 256 --top 20 --batch 16 --singly 20
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from benchmarks._graph_timing import attempt, graphed, milliseconds, percentiles
from benchmarks.common import save
from benchmarks.shapes import PAPER_SHAPES, make
from benchmarks.training_step import copy_bandwidth
from laconic.classifiers import LinearClassifier
from laconic.clustering import random_tree
from laconic.evaluate import on_device
from laconic.kernels.maxima import Tile, best_groups, group_maxima, group_maxima_plainly
from laconic.kernels.shortlist import Shortlist
from laconic.kernels.shortlist_scores import shortlist_scores, shortlist_scores_plainly
from laconic.methods import inceptionxml, inceptionxml_plus
from laconic.predict.gpu import quickened
from laconic.predict.gpu.clusters import ClustersRanker
from laconic.predict.gpu.encoding import quick_encoder, settled
from laconic.predict.gpu.exact import ExactRanker, RoughRows
from laconic.predict.gpu.graphs import GraphRanker
from laconic.predict.gpu.kernels import Kernels, kernels_for
from laconic.rankers import FlatRanker, Ranker, ShortlistRanker
from laconic.types import FIRST_WORD, PAD, Ranking, Tokens

LENGTH, TEXTS = 32, 4096
CHUNKS = (1 << 13, 1 << 15, 1 << 17)
TILES = {
    "128 × 256 × 64": Tile(),
    "128 × 256 × 64, 4 stages": Tile(stages=4),
    "128 × 256 × 32, 4 stages": Tile(depth=32, stages=4),
    "256 × 128 × 64, 16 warps": Tile(texts=256, labels=128, warps=16),
    "128 × 128 × 64": Tile(labels=128),
    "64 × 256 × 64, 4 warps": Tile(texts=64, warps=4, stages=4),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    device: torch.device
    labels: int
    clusters: int
    top: int  # clusters opened
    batch: int
    singly: int  # texts that are answered one by one
    times: int  # batches that are timed
    k: int = 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--labels", type=int, default=670_091)
    parser.add_argument("--clusters", type=int, default=65_536)
    parser.add_argument("--top", type=int, default=800)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--singly", type=int, default=3000)
    parser.add_argument("--times", type=int, default=30)
    options = vars(parser.parse_args())
    if options["device"] == "cuda" and not torch.cuda.is_available():
        print("no GPU here, left out")
        return
    case = Case(**options | {"device": torch.device(options["device"])})
    with torch.inference_mode():
        figures = {**sizes(case), "all labels": all_labels(case), "shortlist": shortlist(case)}
    if case.device.type == "cuda":
        save("gpu_prediction", figures)
    else:
        print(json.dumps(figures, indent=2))


def sizes(case: Case) -> dict[str, Any]:
    name = torch.cuda.get_device_name() if case.device.type == "cuda" else "cpu"
    return {"device": name, "torch": torch.__version__, "labels": case.labels, "batch": case.batch, "k": case.k}


def all_labels(case: Case) -> dict[str, Any]:
    """The bar: 150,000 texts a second of a batch of 1024."""
    with case.device:
        encoder, classifier = inceptionxml.build(inceptionxml.Config(length=LENGTH), num_ids(), case.labels)
    ranker = drawn(FlatRanker(encoder, classifier)).eval()
    batches = [*in_batches(case, case.batch)]
    quick = quickened(ranker)
    for precision in ("high", "highest"):  # the last is what others are compared with
        torch.set_float32_matmul_precision(precision)
        name = f"FlatRanker, float32 products {precision}"
        eager = attempt(name, lambda: a_second(case, ranker, batches, times=max(case.times // 10, 2)))
        figures = {name: eager} if precision == "high" else {**figures, name: eager}
    return {
        **figures,
        "quickened": attempt("quickened", lambda: a_second(case, quick, batches, times=case.times)),
        "agreement of the best labels with float32": attempt("agreement", lambda: agreement(case, ranker, quick)),
        "other batches": {size: other_batch(case, quick, size) for size in (1, 16, 64, 256) if size < case.batch},
        "of 100 labels each": attempt(
            "k = 100", lambda: a_second(replace(case, k=100), quick, batches, times=case.times)
        ),
        "floors_ms": attempt("floors", lambda: floors(case, classifier)),
        "encoder_ms": encoder_times(case, ranker, batches[0]),
        "parts_ms": attempt("parts", lambda: parts(case, ranker, batches[0])),
        "variants, rows and kernels alone_ms": variants(case, ranker, batches[0]),
    }


def num_ids() -> int:
    return PAPER_SHAPES["AmazonTitles-670K"].words + FIRST_WORD


def drawn(ranker: Ranker) -> Any:
    """With weights as far apart as those of a trained one, so that texts differ in what they find."""
    generator = torch.Generator(next(ranker.parameters()).device).manual_seed(0)
    for name, parameter in ranker.named_parameters():
        if name.endswith("embedding.weight"):
            parameter.normal_(generator=generator)[PAD] = 0
        elif name.endswith("classifier.weight"):
            parameter.normal_(std=0.05, generator=generator)
        elif name.endswith("classifier.bias"):
            parameter.normal_(std=0.5, generator=generator)
    return ranker


def texts(count: int) -> Tensor:
    """Titles of the shape's lengths, on the host."""
    return make(PAPER_SHAPES["AmazonTitles-670K"], texts=count, length=LENGTH).ids


def in_batches(case: Case, size: int, count: int = TEXTS) -> Iterator[Tokens]:
    """Cut at the longest text of each, as texts come from a tokeniser."""
    for ids in torch.split(texts(count), size):
        length = max(1, int((ids != PAD).sum(1).max()))
        cut = ids[:, :length].contiguous()
        yield Tokens(cut, (cut != PAD).float())


def a_second(case: Case, ranker: Ranker, batches: list[Tokens], *, times: int) -> dict[str, Any]:
    """Texts, answered one batch after another."""
    for batch in (*batches, *batches, *batches):  # every shape is asked for, captured, and asked again
        answered(case, ranker, batch)
    seconds = []
    for batch in islice(cycle(batches), times):
        started = time.perf_counter()
        answered(case, ranker, batch)
        seconds.append((time.perf_counter() - started) / len(batch.ids))
    seconds.sort()
    middle = seconds[len(seconds) // 2]
    return {"texts_a_second": round(1 / middle), "batch_ms": round(1000 * middle * len(batches[0].ids), 3)}


def answered(case: Case, ranker: Ranker, tokens: Tokens) -> Ranking:
    """On the host."""
    inputs = tokens if isinstance(ranker, GraphRanker) else on_device(tokens, case.device)
    labels, scores = ranker.rank(inputs, case.k)
    return Ranking(labels.cpu(), scores.cpu())


def agreement(case: Case, ranker: Ranker, quick: Ranker) -> float:
    shares = []
    for batch in in_batches(case, case.batch):
        one, other = answered(case, ranker, batch).labels, answered(case, quick, batch).labels
        shares.append((one[:, :, None] == other[:, None]).any(2).float().mean())
    return round(float(torch.stack(shares).mean()), 6)


def other_batch(case: Case, quick: Ranker, size: int) -> Any:
    batches = [*in_batches(case, size, count=4 * size)]
    return attempt(f"batches of {size}", lambda: a_second(case, quick, batches, times=case.times))


def floors(case: Case, classifier: LinearClassifier) -> dict[str, Any]:
    """What no way can be faster than: the rows read once, and multiplied."""
    rows = RoughRows(classifier).rows
    vectors = torch.randn(case.batch, rows.shape[1], device=case.device).bfloat16()
    chunks = [part.T for part in torch.split(rows, 1 << 17)]
    product = milliseconds(
        graphed(lambda: [vectors @ chunk for chunk in chunks], case.device), case.device, case.times
    )
    found: dict[str, Any] = {"the product alone, in bfloat16, written": round(product, 3)}
    if case.device.type == "cuda":
        bandwidth = copy_bandwidth()
        found |= {
            "copy_gigabytes_a_second": round(bandwidth / 1e9),
            "rows read once": round(1000 * rows.nbytes / bandwidth, 3),
            "teraflops_a_second_of_the_product": round(2 * case.batch * rows.numel() / product / 1e9),
        }
    return found


def encoder_times(case: Case, ranker: FlatRanker, tokens: Tokens) -> dict[str, Any]:
    inputs, device = on_device(tokens, case.device), case.device
    quick = quick_encoder(ranker.encoder)
    runs: dict[str, Callable[[], Callable[[], object]]] = {
        "as it is": lambda: lambda: ranker.encoder(inputs),
        "folded": lambda: lambda: quick(inputs),
        "folded, in a graph": lambda: graphed(lambda: quick(inputs), device),
    }
    return {
        name: attempt(f"encoder, {name}", lambda run=run: round(milliseconds(run(), device, case.times), 3))  # type: ignore[misc]
        for name, run in runs.items()
    }


def exact(case: Case, ranker: FlatRanker, kernels: Kernels, rough: RoughRows, group: int) -> ExactRanker:
    classifier = settled(ranker.classifier)
    assert isinstance(classifier, LinearClassifier)
    return ExactRanker(quick_encoder(ranker.encoder), classifier, rough, kernels, group=group)


def parts(case: Case, ranker: FlatRanker, tokens: Tokens) -> dict[str, float]:
    """Of the usual way, each in a graph of its own."""
    classifier = ranker.classifier
    assert isinstance(classifier, LinearClassifier)
    rough, device = RoughRows(classifier), case.device
    kernels, way = kernels_for(device), exact(case, ranker, kernels_for(device), rough, 32)
    transformed = classifier.transform(way.encoder(on_device(tokens, device)))
    vectors = rough.vectors(transformed)
    maxima = kernels.maxima(vectors, rough.rows, way.group)
    groups = best_groups(maxima, case.k + way.spare)
    candidates = Shortlist(groups, way.starts, way.group)
    scores = kernels.scores(transformed, classifier.weight, classifier.bias, candidates)
    runs: dict[str, Callable[[], object]] = {
        "vectors": lambda: rough.vectors(classifier.transform(way.encoder(on_device(tokens, device)))),
        "largest of each group": lambda: kernels.maxima(vectors, rough.rows, way.group),
        "best groups": lambda: best_groups(maxima, case.k + way.spare),
        "best groups by one top-k": lambda: maxima.topk(case.k + way.spare, sorted=False),
        "their labels": lambda: kernels.scores(transformed, classifier.weight, classifier.bias, candidates),
        "their labels, plainly": lambda: shortlist_scores_plainly(
            transformed, classifier.weight, classifier.bias, candidates
        ),
        "best labels": lambda: scores.topk(case.k),
    }
    del runs["vectors"]  # token ids come from the host there, which a graph cannot have; encoder_ms has its time
    return {name: round(milliseconds(graphed(run, device), device, case.times), 4) for name, run in runs.items()}
