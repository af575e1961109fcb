"""Rank with CUDA graphs, which start all kernels at once: launches dominate the time of one text.

A graph is of fixed shapes, so inputs are filled up to one of a few.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from threading import Lock
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from laconic.evaluation.evaluate import on_device
from laconic.models.rankers import Ranker
from laconic.predict.gpu.attempts import Attempts
from laconic.training.step import leave_capture, warm_up
from laconic.types import PAD, Inputs, Ranking, Tokens

_MOST_TEXTS = 1024  # more at a time are answered without a graph, which would save nothing
_LEAST_WORDS = 4
_MOST_GRAPHS = 32  # whose memory is kept


class Shape(NamedTuple):
    """The shape that a graph is captured for."""

    batch: int
    length: int  # in words, or in features
    k: int


class GraphRanker(Ranker):
    """Ranks with `quick`, an equivalent of `ranker`; where that fails, with `ranker` itself.

    A shape is captured when it is asked for a second time. A failure costs its own call only time; attempts.py decides
    when it is tried again. Threads take turns, because a graph has one input buffer.
    """

    def __init__(self, ranker: Ranker, quick: Ranker, *, longest: int = 0) -> None:
        """Wrap a ranker; `longest` is the number of words of a text that are read, 0 for all."""
        super().__init__()
        self.ranker, self.quick, self.longest = ranker, quick, longest
        self.num_labels, self.num_ids = ranker.num_labels, ranker.num_ids
        self._device = next(iter(ranker.state_dict().values())).device
        self._captures = self._device.type == "cuda"
        self._quickly, self._capturing = Attempts("the quick way"), Attempts("capturing answers as a CUDA graph")
        self._graphs: dict[Shape, Graph] = {}
        self._asked = Counter[Shape]()
        self._turn = Lock()

    @torch.inference_mode()
    def rank(self, inputs: Inputs, k: int) -> Ranking:
        size = len(inputs.ids if isinstance(inputs, Tokens) else inputs)
        with self._turn, torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext():
            if not 0 < size <= _MOST_TEXTS:
                return self._eager(inputs, k)
            inputs = filled(inputs, self.longest)
            ranking = self._by_graph(inputs, k) or self._eager(inputs, k)
        return Ranking(*(part[:size] for part in ranking))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.ranker.score(inputs, labels)

    @property
    def captured(self) -> list[Shape]:
        """Return the shapes that have graphs."""
        return list(self._graphs)

    def _eager(self, inputs: Inputs, k: int) -> Ranking:
        inputs = on_device(inputs, self._device)
        if self.quick is self.ranker or not self._quickly.due():
            return self.ranker.rank(inputs, k)
        try:
            ranking = self.quick.rank(inputs, k)
        except Exception as error:  # noqa: BLE001 - a compiler or a driver may refuse what the ranker can do without
            ranking = self.ranker.rank(inputs, k)  # which raises where the inputs are to blame
            self._quickly.failed(error)
        else:
            self._quickly.succeeded()
        return ranking

    def _by_graph(self, inputs: Inputs, k: int) -> Ranking | None:
        """Rank with a graph; return None if there is no graph for this shape."""
        batch, length = (inputs.ids if isinstance(inputs, Tokens) else inputs).shape
        shape = Shape(batch, length, k)
        self._asked[shape] += 1
        wanted = self._captures and self._asked[shape] > 1 and len(self._graphs) < _MOST_GRAPHS
        fresh = shape not in self._graphs
        if fresh and not (wanted and self._capturing.due()):
            return None
        try:
            ranking = (self._captured(shape, inputs) if fresh else self._graphs[shape])(inputs)
        except Exception as error:  # noqa: BLE001 - whatever a driver may raise, eager answers may still come
            self._graphs.pop(shape, None)
            self._capturing.failed(error)
            return None
        if fresh:
            self._capturing.succeeded()
        return ranking

    def _captured(self, shape: Shape, inputs: Inputs) -> Graph:
        other = next(iter(self._graphs.values()), None)
        ranker = self.ranker if self._quickly.given_up else self.quick
        try:
            graph = Graph(ranker, on_device(inputs, self._device), shape.k, other)
        except BaseException:
            leave_capture(self._device)
            raise
        self._graphs[shape] = graph
        return graph


class Graph:
    """A captured ranking of inputs of one shape. All graphs of a ranker share their memory and run in turn."""

    def __init__(self, ranker: Ranker, inputs: Inputs, k: int, other: Graph | None) -> None:
        self.inputs = Tokens(*(part.clone() for part in inputs)) if isinstance(inputs, Tokens) else inputs.clone()
        warm_up(lambda: ranker.rank(self.inputs, k))
        self.graph = torch.cuda.CUDAGraph()
        pool = None if other is None else other.graph.pool()
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.ranking = ranker.rank(self.inputs, k)

    def __call__(self, inputs: Inputs) -> Ranking:
        if isinstance(self.inputs, Tokens):
            for own, part in zip(self.inputs, inputs, strict=True):
                own.copy_(part, non_blocking=True)
        else:
            assert isinstance(inputs, Tensor)
            self.inputs.copy_(inputs, non_blocking=True)
        self.graph.replay()
        return Ranking(*(part.clone() for part in self.ranking))


def filled(inputs: Inputs, longest: int) -> Tokens | Tensor:
    """Pad inputs to a power of two of texts and of words; words that are never read are cut off."""
    if not isinstance(inputs, Tokens):
        return functional.pad(inputs, (0, 0, 0, _power_of_two(len(inputs)) - len(inputs)))
    size, words = inputs.ids.shape
    length = max(_power_of_two(words), _LEAST_WORDS)
    # What is missing may be less than nothing: then it is cut off.
    missing = (0, (min(length, longest) if longest else length) - words, 0, _power_of_two(size) - size)
    return Tokens(functional.pad(inputs.ids, missing, value=PAD), functional.pad(inputs.weights, missing))


def _power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below the number."""
    return 1 << max(number - 1, 0).bit_length()
