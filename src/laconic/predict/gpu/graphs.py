"""Rank with CUDA graphs, which start all kernels at once: launches dominate the time of one text.

A graph is of fixed shapes, so inputs are filled up to one of a few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from threading import Lock
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
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
    on_gpu: bool = False  # where inputs are, and answers are wanted


class GraphRanker(Ranker):
    """Ranks with `quick`, an equivalent of `ranker`; where that fails, with `ranker` itself.

    A shape is captured when it is asked for a second time. A failure costs its own call only time; attempts.py decides
    when it is tried again. Threads take turns, because a graph has one input buffer.
    """

    takes_host_inputs = True

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
        """Rank; answers are where the inputs were, on the host or on the GPU."""
        size = len(_first(inputs))
        with self._turn, torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext():
            if not 0 < size <= _MOST_TEXTS:
                return self._eager(inputs, k)
            ranking = self._by_graph(inputs, k)
            if ranking is None:
                ranking = self._eager(filled(inputs, self.longest), k)
        return Ranking(*(part[:size] for part in ranking))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.ranker.score(inputs, labels)

    @property
    def captured(self) -> list[Shape]:
        """Return the shapes that have graphs."""
        return list(self._graphs)

    def _eager(self, inputs: Inputs, k: int) -> Ranking:
        return Ranking(*(part.to(_first(inputs).device) for part in self._ranked(on_device(inputs, self._device), k)))

    def _ranked(self, inputs: Inputs, k: int) -> Ranking:
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
        shape = Shape(*filled_shape(inputs, self.longest), k, _first(inputs).is_cuda)
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
            graph = Graph(ranker, on_device(filled(inputs, self.longest), self._device), shape, other)
        except BaseException:
            leave_capture(self._device)
            raise
        self._graphs[shape] = graph
        return graph


class Graph:
    """A captured ranking of inputs of one shape. All graphs of a ranker share their memory and run in turn.

    Where inputs come from the host, their way to the GPU and that of the answers back are in the graph: the GPU itself
    reads and writes pinned memory of the host.
    """

    def __init__(self, ranker: Ranker, inputs: Inputs, shape: Shape, other: Graph | None) -> None:
        self.on_gpu = shape.on_gpu
        self.inputs = Tokens(*(part.clone() for part in inputs)) if isinstance(inputs, Tokens) else inputs.clone()
        self.asked = [] if self.on_gpu else [_pinned(part) for part in _parts(self.inputs)]
        warm_up(lambda: ranker.rank(self.inputs, shape.k))
        self.answered = [] if self.on_gpu else [_pinned(part) for part in ranker.rank(self.inputs, shape.k)]
        self.graph = torch.cuda.CUDAGraph()
        pool = None if other is None else other.graph.pool()
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            for part, staged in zip(_parts(self.inputs), self.asked, strict=not self.on_gpu):
                part.copy_(staged, non_blocking=True)
            self.ranking = ranker.rank(self.inputs, shape.k)
            for staged, part in zip(self.answered, self.ranking, strict=not self.on_gpu):
                staged.copy_(part, non_blocking=True)

    def __call__(self, inputs: Inputs) -> Ranking:
        """Rank inputs of this shape or smaller; answers are where the inputs were."""
        for into, part in zip(_parts(self.inputs) if self.on_gpu else self.asked, _parts(inputs), strict=True):
            words = min(part.shape[1], into.shape[1])
            if part.shape != into.shape:
                into.zero_()  # PAD, and the weight of no word
            into[: len(part), :words].copy_(part[:, :words], non_blocking=True)
        self.graph.replay()
        if self.on_gpu:
            return Ranking(*(part.clone() for part in self.ranking))
        torch.cuda.current_stream().synchronize()
        return Ranking(*(part.clone() for part in self.answered))


def _pinned(like: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    return torch.empty_like(like, device="cpu", pin_memory=True)


def filled(inputs: Inputs, longest: int) -> Tokens | Tensor:
    """Pad inputs to a power of two of texts and of words; words that are never read are cut off."""
    (batch, length), (size, words) = filled_shape(inputs, longest), _first(inputs).shape
    missing = (0, length - words, 0, batch - size)  # what is missing may be less than nothing: then it is cut off
    if not isinstance(inputs, Tokens):
        return functional.pad(inputs, missing)
    return Tokens(functional.pad(inputs.ids, missing, value=PAD), functional.pad(inputs.weights, missing))


def filled_shape(inputs: Inputs, longest: int) -> tuple[int, int]:
    """Return how many texts, and of how many words or features each, the inputs have once they are filled up."""
    size, words = _first(inputs).shape
    if not isinstance(inputs, Tokens):
        return _power_of_two(size), words
    length = max(_power_of_two(words), _LEAST_WORDS)
    return _power_of_two(size), min(length, longest) if longest else length


def _parts(inputs: Inputs) -> Sequence[Tensor]:
    return inputs if isinstance(inputs, Tokens) else [inputs]


def _first(inputs: Inputs) -> Shaped[Tensor, "batch n"]:
    return inputs.ids if isinstance(inputs, Tokens) else inputs


def _power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below the number."""
    return 1 << max(number - 1, 0).bit_length()
