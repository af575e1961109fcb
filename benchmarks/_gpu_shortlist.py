"""Texts one by one through InceptionXML+'s shortlist: as the ranker does it, and as a CUDA graph."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks._gpu_case import (
    LENGTH,
    NUM_IDS,
    TEXTS,
    Case,
    agreement,
    attempt,
    batches,
    drawn,
    in_batches,
    made_of,
    one_by_one,
)
from laconic.methods import inceptionxml_plus
from laconic.models.clustering import random_tree
from laconic.predict.gpu import optimise_ranker
from laconic.predict.gpu.graphs import GraphRanker

_EAGERLY = 500  # texts are enough where each takes milliseconds


def shortlist(case: Case) -> dict[str, Any]:
    config = inceptionxml_plus.Config(length=LENGTH, clusters=case.clusters, top=case.top)
    with case.device:
        ranker = inceptionxml_plus.build(config, NUM_IDS, random_tree(case.labels, case.clusters, 0))
    ranker, device = drawn(ranker.to(case.device)), case.device
    quick = optimise_ranker(ranker)
    assert isinstance(quick, GraphRanker)
    asked = batches(case.batch)
    few = min(case.singly, _EAGERLY)
    found: dict[str, Any] = {
        "as it is": attempt("shortlist as it is", lambda: one_by_one(case, ranker, few), device),
        "quick, without graphs": attempt("quick", lambda: one_by_one(case, quick.quick, few), device),
        "quickened": attempt("quickened", lambda: one_by_one(case, quick, case.singly), device),
        "share of the best labels that agree": attempt(
            "agreement", lambda: agreement(case, ranker, quick, batches(1, min(TEXTS, 200))), device
        ),
    }
    for name, one in {"batches as it is": ranker, "batches quickened": quick}.items():
        found[name] = attempt(name, partial(in_batches, case, one, asked, max(4, case.times // 3)), device)
    return found | made_of(quick)
