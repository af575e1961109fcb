"""Batches against all labels: as FlatRanker does it, and roughly first and then exactly."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from benchmarks._gpu_case import LENGTH, NUM_IDS, TEXTS, Case, agreement, attempt, batches, drawn, in_batches, made_of
from laconic.methods import inceptionxml
from laconic.models.rankers import FlatRanker
from laconic.predict.gpu import optimise_ranker


def all_labels(case: Case) -> dict[str, Any]:
    """Time answers from token ids on the host to labels on the host."""
    with case.device:
        encoder, classifier = inceptionxml.build(inceptionxml.Config(length=LENGTH), NUM_IDS, case.labels)
    ranker = drawn(FlatRanker(encoder, classifier))
    quick, asked, found = optimise_ranker(ranker), batches(case.batch), dict[str, Any]()
    for precision in ("high", "highest"):  # and it stays at the last
        torch.set_float32_matmul_precision(precision)
        name = f"FlatRanker, float32 products: {precision}"
        found[name] = attempt(name, lambda: in_batches(case, ranker, asked, max(4, case.times // 5)), case.device)
    found["quickened"] = attempt("quickened", lambda: in_batches(case, quick, asked, case.times), case.device)
    name = "share of the best labels that are float32's"
    found[name] = attempt(name, lambda: agreement(case, ranker, quick, asked), case.device)
    for size in (1, 16, 64, 256):
        some, name = batches(size, min(64 * size, TEXTS)), f"quickened, batches of {size}"
        found[name] = attempt(name, partial(in_batches, case, quick, some, case.times), case.device)
    return found | made_of(quick)
