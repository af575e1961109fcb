"""Every kind of ranker has an implementation of each operation on rankers, or a reason for having none."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import pytest

import laconic
from laconic.analysis.sweep import setting_of
from laconic.export.rankers import pack_part
from laconic.models.rankers import Ranker
from laconic.predict.gpu import optimise_ranker
from laconic.update import rankers as update

# Operations, each a function that dispatches on the class of a ranker.
OPERATIONS = {
    "packed": pack_part,
    "optimised for a GPU": optimise_ranker,
    "labels added": update.with_labels,
    "labels removed": update.without_labels,
    "fine-tuned": update.fine_tune_ranker,
    "swept": setting_of,
}
_ON_CPU = "it runs on a CPU only"
_AS_IT_IS = "no faster version is written; the ranker itself runs on the GPU"
_NO_SETTING = "no setting of its methods can be changed after training"
ABSENT = {
    ("NearestRanker", "optimised for a GPU"): _ON_CPU,
    ("TreesRanker", "optimised for a GPU"): _ON_CPU,
    ("BucketsRanker", "optimised for a GPU"): _AS_IT_IS,
    ("CandidatesRanker", "optimised for a GPU"): _AS_IT_IS,
    ("FlatRanker", "swept"): _NO_SETTING,
    ("SiameseRanker", "swept"): _NO_SETTING,
    ("BucketsRanker", "swept"): _NO_SETTING,
    ("NearestRanker", "swept"): "not offered; --set changes neighbours, power and label_text",
    ("TreesRanker", "swept"): "not offered; --set changes its beam",
}
# Rankers around another one that exist while something is computed and are never stored.
TEMPORARY = {"ExactRanker", "ClustersRanker", "GraphRanker", "RankerAmong", "SharedBase", "_WithoutItself"}


def subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


@pytest.fixture(scope="module")
def rankers() -> dict[str, type]:
    pytest.importorskip("triton")  # every module is imported
    others = (
        "laconic.analysis.peers",
        "laconic.integrations",
        "laconic.trackers",
        "laconic.mlflow",
        "laconic.__main__",
    )
    # These need other libraries, or run.
    for module in walk_packages(laconic.__path__, "laconic."):
        if not module.name.startswith(others):
            import_module(module.name)
    return {one.__name__: one for one in subclasses(Ranker) if one.__module__.startswith("laconic.")}


def test_every_ranker_has_every_operation_or_a_reason(rankers: dict[str, type]) -> None:
    missing = {
        (name, operation)
        for name, kind in rankers.items()
        for operation, function in OPERATIONS.items()
        if name not in TEMPORARY and function.dispatch(kind) is function.dispatch(object)
    }
    assert missing == set(ABSENT)


def test_reasons_are_of_rankers_that_there_are(rankers: dict[str, type]) -> None:
    assert {name for name, _ in ABSENT} | TEMPORARY <= set(rankers)
