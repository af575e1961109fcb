"""Choose the scoring kernels: Triton's on a GPU that has it, otherwise their reference implementations."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from laconic.kernels.triton.maxima import group_maxima, group_maxima_reference
from laconic.kernels.triton.shortlist import Shortlist
from laconic.kernels.triton.shortlist_scores import shortlist_scores, shortlist_scores_reference

Maxima: TypeAlias = Callable[[Tensor, Tensor, int], Tensor]
Scores: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Shortlist], Tensor]


class Kernels(NamedTuple):
    """The two kernels that rankers on a GPU score with."""

    maxima: Maxima  # of groups of labels, roughly
    scores: Scores  # of the labels of picked clusters


PLAIN = Kernels(group_maxima_reference, shortlist_scores_reference)
TRITON = Kernels(group_maxima, shortlist_scores)


def kernels_for(device: torch.device) -> Kernels:
    return TRITON if device.type == "cuda" and find_spec("triton") else PLAIN
