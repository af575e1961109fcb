"""The kernels that the first training on a machine compiles, and whether an earlier training has compiled them.

Compiled kernels are kept on disk (kernels/cache.py). Beside them lies an empty file for each of the names here, so that
estimates and budgets know what is still to be compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from laconic.kernels.cache import is_marked, mark
from laconic.methods.registry import METHODS

COMPILED_BESIDE = (
    "inceptionxml",
    "inceptionxml+",
)  # what is chosen where there is a GPU: see predict/kernel_process.py
CORES_TO_COMPILE_BESIDE = 4  # with fewer, the training has use for all
MEMORY_TO_COMPILE = 1200 << 20  # bytes that the process holds
MEMORY_LEFT = 2 << 30  # bytes that must be free beside it and the training
_MEMBER = re.compile(r"^(member-\d+\.)+")  # of an ensemble
_KINDS = {"fusion-evidence": "evidence", "fusion-order": "order", "packing": "packing"}
_TREES, _TRAINING = ("trees-kernels", "trees", "fusion-trees"), ("train-warm-up", "train")  # stages


class Kernels(NamedTuple):
    """Kernels that are compiled together."""

    kind: str
    name: str


def kernels_of(method: str, stage: str, *, gpu: bool) -> Kernels | None:
    """Return the kernels that a stage compiles; None for one that compiles next to nothing."""
    stage = _MEMBER.sub("", stage)
    if stage in _TREES:
        return Kernels("label trees", "label trees")  # the same for every method
    if stage in _TRAINING:
        return Kernels("training", f"training of {method} on a GPU") if gpu else None
    kind = _KINDS.get(stage)
    return Kernels(kind, f"{kind} of {method}") if kind else None


def uncompiled_kernels(*, gpu: bool) -> frozenset[str]:
    """Return the names of the kernels that no training here has compiled."""
    stages = (*_TREES, *_TRAINING, *_KINDS)
    every = {kernels.name for name in METHODS for stage in stages if (kernels := kernels_of(name, stage, gpu=gpu))}
    return frozenset(name for name in every if not is_marked(name))


def remember_kernels(method: str, stages: Iterable[str], *, gpu: bool) -> None:
    """Note that these stages of a training have ended, so that the next training finds their kernels compiled."""
    for name in {kernels.name for stage in stages if (kernels := kernels_of(method, stage, gpu=gpu))}:
        mark(name)
