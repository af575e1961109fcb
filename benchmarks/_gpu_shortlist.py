"""Texts one by one through InceptionXML+'s shortlist: as the ranker does it, and as a CUDA graph."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from benchmarks._gpu_case import (
    LENGTH,
    NUM_IDS,
    TEXTS,
    Case,
    agreement,
    batches,
    drawn,
    in_batches,
    made_of,
    one_by_one,
)
from benchmarks._graph_timing import Run, attempt, graphed, milliseconds
from laconic.evaluation.evaluate import on_device
from laconic.kernels.triton.shortlist import Shortlist
from laconic.methods import inceptionxml_plus
from laconic.models.clustering import random_tree
from laconic.predict.gpu import optimise
from laconic.predict.gpu.clusters import ClustersRanker
from laconic.predict.gpu.graphs import GraphRanker, filled

_EAGERLY = 500  # texts are enough where each takes milliseconds
_RUN = 16  # rows of clusters that a program would score


def shortlist(case: Case) -> dict[str, Any]:
    config = inceptionxml_plus.Config(length=LENGTH, clusters=case.clusters, top=case.top)
    with case.device:
        ranker = inceptionxml_plus.build(config, NUM_IDS, random_tree(case.labels, case.clusters, 0))
    ranker, device = drawn(ranker.to(case.device)), case.device
    quick = optimise(ranker)
    assert isinstance(quick, GraphRanker)
    asked = batches(case.batch)
    few = min(case.singly, _EAGERLY)
    found: dict[str, Any] = {
        "as it is": attempt("shortlist as it is", lambda: one_by_one(case, ranker, few), device),
        "quick, without graphs": attempt("quick", lambda: one_by_one(case, quick.quick, few), device),
        "optimise": attempt("optimise", lambda: one_by_one(case, quick, case.singly), device),
        "share of the best labels that agree": attempt(
            "agreement", lambda: agreement(case, ranker, quick, batches(1, min(TEXTS, 200))), device
        ),
        "parts_ms": attempt("parts", lambda: parts(case, quick.quick), device),
    }
    for name, one in {"batches as it is": ranker, "batches optimise": quick}.items():
        found[name] = attempt(name, partial(in_batches, case, one, asked, max(4, case.times // 3)), device)
    return found | made_of(quick)


def parts(case: Case, way: Any) -> dict[str, Any]:
    """Of one text of 8 words, each with all that comes before it, as graphs: what the device alone takes."""
    assert isinstance(way, ClustersRanker)
    one = filled(next(tokens for tokens in batches(1) if 4 < tokens.ids.shape[1] <= 8), LENGTH)
    tokens, (encoder, clusters) = on_device(one, case.device), (way.ranker.encoder, way.ranker.clusters)
    meta, bounds = clusters.classifier, torch.arange(0, case.clusters + 1, _RUN, device=case.device)
    own = (meta.weight, meta.bias, Shortlist(torch.arange(len(bounds) - 1, device=case.device)[None], bounds, _RUN))
    runs: dict[str, Run] = {
        "encoder": lambda: encoder(tokens),
        "and scores of clusters": lambda: clusters.classifier.score_all(encoder(tokens)),
        "or those as runs of rows": lambda: way.kernels.scores(meta.transform(encoder(tokens)), *own),
        "and the best of them": lambda: clusters.classifier.score_all(encoder(tokens)).topk(case.top, sorted=False),
        "and scores of labels, and the best": lambda: way.rank(tokens, case.k),
    }
    return {name: attempt(name, partial(_time, run, case), case.device) for name, run in runs.items()}


def _time(run: Run, case: Case) -> float:
    return milliseconds(graphed(run, case.device), case.device, 200)
