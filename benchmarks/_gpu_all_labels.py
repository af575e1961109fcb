"""Batches against all labels: plainly, quickly, in every way that is worth trying, and beside what bounds them all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks._gpu_case import LENGTH, NUM_IDS, TEXTS, Case, agreement, batches, drawn, in_batches, made_of
from benchmarks._graph_timing import Run, attempt, graphed, milliseconds
from benchmarks.training_step import copy_bandwidth
from laconic.evaluation.evaluate import on_device
from laconic.kernels.triton.maxima import Tile, best_groups, group_maxima, group_maxima_plainly
from laconic.kernels.triton.shortlist import Shortlist
from laconic.kernels.triton.shortlist_scores import shortlist_scores_plainly
from laconic.methods import inceptionxml
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Identity
from laconic.models.rankers import FlatRanker
from laconic.predict.gpu import optimise
from laconic.predict.gpu.encoders import optimise_encoder
from laconic.predict.gpu.exact import ExactRanker, RoughRows
from laconic.predict.gpu.kernels import Kernels, kernels_for

CHUNKS = (1 << 13, 1 << 15, 1 << 17)
TILES = {
    "128 × 256 × 64": Tile(),
    "128 × 256 × 64, 4 stages": Tile(stages=4),
    "128 × 256 × 32, 4 stages": Tile(depth=32, stages=4),
    "256 × 128 × 64, 16 warps": Tile(texts=256, labels=128, warps=16),
    "128 × 128 × 64": Tile(labels=128),
    "64 × 256 × 64, 4 warps, 4 stages": Tile(texts=64, warps=4, stages=4),
}


def all_labels(case: Case) -> dict[str, Any]:
    with case.device:
        encoder, classifier = inceptionxml.build(inceptionxml.Config(length=LENGTH), NUM_IDS, case.labels)
    ranker, asked = drawn(FlatRanker(encoder, classifier)), batches(case.batch)
    rough, inputs = RoughRows(classifier), on_device(asked[0], case.device)
    vectors = optimise_encoder(encoder)(inputs)
    return {
        **answers(case, ranker),
        "floors_ms": attempt("floors", lambda: floors(case, rough), case.device),
        "encoder_ms": encoder_parts(case, ranker, inputs),
        "parts_ms": attempt("parts", lambda: parts(case, classifier, rough, vectors), case.device),
        "ways_ms": ways(case, classifier, rough, vectors),
    }


def answers(case: Case, ranker: FlatRanker) -> dict[str, Any]:
    """From token ids on the host to labels on the host."""
    quick, asked, found = optimise(ranker), batches(case.batch), dict[str, Any]()
    for precision in ("high", "highest"):  # and it stays at the last
        torch.set_float32_matmul_precision(precision)
        name = f"FlatRanker, float32 products: {precision}"
        found[name] = attempt(name, lambda: in_batches(case, ranker, asked, max(4, case.times // 5)), case.device)
    found["optimise"] = attempt("optimise", lambda: in_batches(case, quick, asked, case.times), case.device)
    name = "share of the best labels that are float32's"
    found[name] = attempt(name, lambda: agreement(case, ranker, quick, asked), case.device)
    for size in (1, 16, 64, 256):
        some, name = batches(size, min(64 * size, TEXTS)), f"optimise, batches of {size}"
        found[name] = attempt(name, partial(in_batches, case, quick, some, case.times), case.device)
    return found | made_of(quick)


def floors(case: Case, rough: RoughRows) -> dict[str, Any]:
    """What no way can be quicker than: the rows read once, and multiplied."""
    vectors = torch.ones((case.batch, rough.rows.shape[1]), device=case.device).bfloat16()
    chunks = [part.T for part in torch.split(rough.rows, 1 << 17)]
    product = milliseconds(graphed(lambda: [vectors @ chunk for chunk in chunks], case.device), case.device, case.times)
    found = {
        "the product alone": product,
        "its_teraflops_a_second": round(2e-9 * case.batch * rough.rows.numel() / product),
    }
    if case.device.type != "cuda":
        return found
    bandwidth = copy_bandwidth()
    once = round(1e3 * rough.rows.nbytes / bandwidth, 3)
    return found | {"rows read once": once, "copy_terabytes_a_second": round(bandwidth / 1e12, 2)}


def encoder_parts(case: Case, ranker: FlatRanker, inputs: Any) -> dict[str, Any]:
    quick, device = optimise_encoder(ranker.encoder), case.device
    runs: dict[str, Callable[[], Run]] = {
        "as it is": lambda: lambda: ranker.encoder(inputs),
        "folded": lambda: lambda: quick(inputs),
        "folded, as a graph": lambda: graphed(lambda: quick(inputs), device),
    }
    return {name: _time(case, f"encoder {name}", run) for name, run in runs.items()}


def parts(case: Case, classifier: LinearClassifier, rough: RoughRows, vectors: Tensor) -> dict[str, Any]:
    """Of the usual way, each as a graph of its own."""
    way = ExactRanker(Identity(vectors.shape[1]), classifier, rough, kernels_for(case.device))
    transformed, count = classifier.transform(vectors), case.k + way.spare
    maxima = way.kernels.maxima(rough.vectors(transformed), rough.rows, way.group)
    shortlist = Shortlist(best_groups(maxima, count), way.starts, way.group)
    own = (transformed, classifier.weight, classifier.bias, shortlist)
    runs: dict[str, Run] = {
        "transform": lambda: rough.vectors(classifier.transform(vectors)),
        "largest of each group": lambda: way.kernels.maxima(rough.vectors(transformed), rough.rows, way.group),
        "best groups": lambda: best_groups(maxima, count),
        "best groups by one top-k": lambda: maxima.topk(count, sorted=False),
        "scores of their labels": lambda: way.kernels.scores(*own),
        "scores of their labels, plainly": lambda: shortlist_scores_plainly(*own),
    }
    return {name: _time(case, name, partial(graphed, run, case.device)) for name, run in runs.items()}


def ways(
    case: Case, classifier: LinearClassifier, rough: RoughRows, vectors: Float[Tensor, "batch dim"]
) -> dict[str, Any]:
    """From vectors to labels, each as a graph."""
    found = {}
    for group in (32, 64, 128):
        for name, kernels in kinds(case).items():
            way = ExactRanker(Identity(vectors.shape[1]), classifier, rough, kernels, group=group)
            name = f"{name}, groups of {group}"
            found[name] = _time(case, name, partial(graphed, partial(way.rank, vectors, case.k), case.device))
    return found


def kinds(case: Case) -> dict[str, Kernels]:
    usual = kernels_for(case.device)
    plain = {f"plain, chunks of {chunk}": partial(group_maxima_plainly, chunk=chunk) for chunk in CHUNKS}
    tiled = {f"tiles of {name}": partial(group_maxima, tile=tile) for name, tile in TILES.items()}
    chosen = {**plain, **tiled} if case.device.type == "cuda" else plain
    return {name: usual._replace(maxima=maxima) for name, maxima in chosen.items()}


def _time(case: Case, name: str, prepare: Callable[[], Run]) -> float | str:
    return attempt(name, lambda: milliseconds(prepare(), case.device, case.times), case.device)
