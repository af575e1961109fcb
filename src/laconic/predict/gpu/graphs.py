"""A ranker's answers as CUDA graphs: all kernels of an answer start at once, which is most of what one text costs.

A graph is of fixed shapes, so inputs are filled up to one of a few.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import nullcontext
from threading import Lock
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from laconic.evaluate import on_device
from laconic.rankers import Ranker
from laconic.step import leave_capture, rehearse
from laconic.types import PAD, Inputs, Ranking, Tokens

log = logging.getLogger(__name__)
_MOST_TEXTS = 1024  # more at a time are answered without a graph, which would save nothing
_LEAST_WORDS = 4
_MOST_GRAPHS = 32  # whose memory is kept


class Shape(NamedTuple):
    batch: int
    length: int  # in words, or in features
    k: int


class GraphRanker(Ranker):
    """Answers as `ranker` does, by `quick`, which gives the same answers; where that cannot run, by `ranker` itself.

    A shape is captured when it is asked for a second time. Threads take turns: a graph has one place for its inputs.
    """

    def __init__(self, ranker: Ranker, quick: Ranker, *, longest: int = 0) -> None:
        """`longest`: words of a text that are read at most; 0: all that there are."""
        super().__init__()
        self.ranker, self.quick, self.longest = ranker, quick, longest
        self.num_labels, self.num_ids = ranker.num_labels, ranker.num_ids
        self._device = next(iter(ranker.state_dict().values())).device
        self._capturing = self._device.type == "cuda"
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
            graph = self._graph(inputs, k)
            ranking = self._eager(inputs, k) if graph is None else graph(inputs)
        return Ranking(*(part[:size] for part in ranking))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.ranker.score(inputs, labels)

    @property
    def captured(self) -> list[Shape]:
        """What is answered by graphs by now."""
        return list(self._graphs)

    def _eager(self, inputs: Inputs, k: int) -> Ranking:
        inputs = on_device(inputs, self._device)
        try:
            return self.quick.rank(inputs, k)
        except Exception as error:  # a compiler or a driver may refuse what the ranker can do without
            if self.quick is self.ranker:
                raise
            log.warning("the quick way does not work here (%s)", _brief(error))
            self.quick = self.ranker
            return self.ranker.rank(inputs, k)

    def _graph(self, inputs: Inputs, k: int) -> Graph | None:
        """None: there is none, or none yet."""
        batch, length = (inputs.ids if isinstance(inputs, Tokens) else inputs).shape
        shape = Shape(batch, length, k)
        self._asked[shape] += 1
        again = self._asked[shape] > 1 and shape not in self._graphs
        if again and self._capturing and len(self._graphs) < _MOST_GRAPHS:
            self._capture(shape, inputs)
        return self._graphs.get(shape)

    def _capture(self, shape: Shape, inputs: Inputs) -> None:
        other = next(iter(self._graphs.values()), None)
        try:
            self._graphs[shape] = Graph(self.quick, on_device(inputs, self._device), shape.k, other)
        except Exception as error:  # noqa: BLE001 - whatever a driver may raise, eager answers still come
            log.warning("answers cannot be captured (%s)", _brief(error))
            leave_capture(self._device)
            self._capturing = False


class Graph:
    """A ranker's answers to inputs of one shape. All graphs of a ranker share their memory: they run in turn."""

    def __init__(self, ranker: Ranker, inputs: Inputs, k: int, other: Graph | None) -> None:
        self.inputs = Tokens(*(part.clone() for part in inputs)) if isinstance(inputs, Tokens) else inputs.clone()
        rehearse(lambda: ranker.rank(self.inputs, k))
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
    """Up to a power of two of texts and, unless that is more than are read, of words."""
    if not isinstance(inputs, Tokens):
        return functional.pad(inputs, (0, 0, 0, _power_of_two(len(inputs)) - len(inputs)))
    size, words = inputs.ids.shape
    length = max(_power_of_two(words), _LEAST_WORDS)
    # What is missing may be less than nothing: then it is cut off.
    missing = (0, (min(length, longest) if longest else length) - words, 0, _power_of_two(size) - size)
    return Tokens(functional.pad(inputs.ids, missing, value=PAD), functional.pad(inputs.weights, missing))


def _power_of_two(number: int) -> int:
    """The next one."""
    return 1 << max(number - 1, 0).bit_length()


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
