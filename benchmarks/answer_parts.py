"""How long a packed combined model takes for a text, from raw text to label names, and each of its parts of that.

Texts of the test split are asked one at a time on one core. Parts are timed in a run of their own, since watching them
takes time as well.

    laconic train yso-titles --out build/yso
    python -m benchmarks.answer_parts build/yso/packed yso-titles --on "one core of an H200's host"
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.common import save_beside
from laconic.data.sources import read
from laconic.packed.engine import fusion
from laconic.packed.engine import search as searching
from laconic.packed.engine.fusion import Fused
from laconic.packed.engine.neighbours import Gatherer
from laconic.packed.engine.search import Searched
from laconic.packed.engine.trees import Trees
from laconic.packed.tokenizer import Reader
from laconic.predict.packed_predictor import PackedPredictor
from laconic.system.files import bytes_in

_WARM = 200  # texts
_PARTS: tuple[tuple[str, Any, str], ...] = (
    ("words", Reader, "read"),
    ("vectors", Searched, "vectors"),
    ("search", searching, "search"),
    ("search", searching, "propose"),
    ("scores of all candidates", Searched, "score_candidates"),
    ("label trees", Trees, "rank"),
    ("nearest texts and evidence", Gatherer, "__call__"),
    ("lists", fusion, "list_best"),
    ("lists", fusion, "forget_unlisted"),
    ("lists", fusion, "score_all"),
    ("combining and order", fusion, "rank_evidence"),
    ("combined model", Fused, "rank"),
)


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.answer_parts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", type=Path, help="a packed folder")
    parser.add_argument("data", help="what it was trained on")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--on", required=True, help="the machine, in a few words")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    predictor = PackedPredictor.open(given.model)
    texts = list(read(given.data).sampled("test", given.texts).split("test").texts)
    for text in texts[:_WARM]:
        predictor.predict([text])
    alone = [seconds_of(predictor, text) for text in texts]
    with watched() as parts:
        for text in texts:
            predictor.predict([text])
    figures = {f"p{one}": _milliseconds(np.percentile(alone, one)) for one in (50, 90, 99)}
    figures["parts"] = {name: _milliseconds(float(np.sum(found)) / len(texts)) for name, found in parts.items()}
    figures |= {"texts": len(texts), "packed_bytes": bytes_in(given.model), "on": given.on}
    save_beside("answer_parts", Path(given.data).name, figures)


def seconds_of(predictor: PackedPredictor, text: str) -> float:
    began = time.perf_counter()
    predictor.predict([text])
    return time.perf_counter() - began


@contextmanager
def watched() -> Iterator[dict[str, list[float]]]:
    """Collect the seconds of every part while the block runs."""
    found: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as patches:
        for name, owner, function in _PARTS:
            patches.enter_context(mock.patch.object(owner, function, _timed(getattr(owner, function), found[name])))
        yield found


def _timed(function: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    @wraps(function)
    def timed(*given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            seconds.append(time.perf_counter() - began)

    return timed


def _milliseconds(seconds: float) -> float:
    return round(float(seconds) * 1e3, 4)


if __name__ == "__main__":
    main()
