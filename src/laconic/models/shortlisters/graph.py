"""Approximate search on a CPU: faiss's HNSW, kept as plain numbers.

faiss's own files are not safe to open from strangers, so a model keeps the links of the graph as tensors, and every
number is looked at before faiss sees it: its search looks at no bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.errors import ConfigError, ModelError, install_hint
from laconic.models.shortlisters.nearest import tensor_of
from laconic.types import Ranking

INSTALL = install_hint("ann")
MOST_LINKS = 1024


def can_walk() -> bool:
    """Whether faiss is installed."""
    return find_spec("faiss") is not None


class Graph(nn.Module):
    """Links between vectors that others keep. The same vectors give the same graph, whatever the number of threads.

    A vector has `levels` floors; its neighbours on each follow one another, -1 where there are fewer than fit.
    """

    levels: Tensor
    neighbours: Tensor
    entry: Tensor

    def __init__(self, levels: Int[Tensor, "rows"], neighbours: Int[Tensor, "slots"], entry: Int[Tensor, "1"]) -> None:
        super().__init__()
        self.register_buffer("levels", levels)
        self.register_buffer("neighbours", neighbours)
        self.register_buffer("entry", entry)
        self._index: Any = None  # faiss's copy of links and vectors, from the first search on

    @staticmethod
    def of(rows: Float[Tensor, "rows dim"], links: int, build_width: int) -> Graph:
        """HNSW's M and efConstruction."""
        faiss, vectors = _faiss(), np.ascontiguousarray(rows.detach().cpu().numpy())
        return _grown(_empty(faiss, vectors.shape[1], links), vectors, build_width)

    @staticmethod
    def kept_in(tensors: Mapping[str, Tensor], name: str, num_rows: int) -> Graph | None:
        """The graph of that name, once no walk in it can leave it; None where there is none."""
        if not any(tensor.startswith(f"{name}.") for tensor in tensors):
            return None
        kinds = {"levels": torch.int32, "neighbours": torch.int32, "entry": torch.int64}
        levels, neighbours, entry = (tensor_of(tensors, f"{name}.{part}", kind) for part, kind in kinds.items())
        if not _sound(levels.numpy(), neighbours.numpy(), entry.numpy(), num_rows):
            raise ModelError(f"the model's tensors {name}.* do not fit together; its folder is damaged: fetch it again")
        return Graph(levels, neighbours, entry)

    def extended(self, rows: Float[Tensor, "rows dim"], build_width: int) -> Graph:
        """The graph with the vectors that follow those it knows; their links, and those of the old, are chosen anew."""
        known = len(self.levels)
        return _grown(
            self._opened(rows[:known]), np.ascontiguousarray(rows[known:].detach().cpu().numpy()), build_width
        )

    def nearest(
        self, units: Float[Tensor, "batch dim"], rows: Float[Tensor, "rows dim"], k: int, width: int
    ) -> Ranking:
        """The k rows of largest inner product that a walk finds, best first; lines end in -1 where it finds fewer."""
        if self._index is None:
            self._index = self._opened(rows)
        how = _faiss().SearchParametersHNSW(efSearch=width)
        scores, found = self._index.search(np.ascontiguousarray(units.detach().numpy()), k, params=how)
        return Ranking(torch.from_numpy(found), torch.from_numpy(scores).masked_fill(torch.from_numpy(found < 0), 0))

    def _opened(self, rows: Float[Tensor, "rows dim"]) -> Any:
        faiss, levels, neighbours = _faiss(), self.levels.numpy(), self.neighbours.numpy()
        offsets = _offsets(levels, _links(levels, neighbours))
        index = _empty(faiss, rows.shape[1], _links(levels, neighbours))
        index.storage.add(np.ascontiguousarray(rows.detach().numpy()))
        index.ntotal = len(rows)
        faiss.copy_array_to_vector(levels, index.hnsw.levels)
        faiss.copy_array_to_vector(offsets.astype(np.uint64), index.hnsw.offsets)
        faiss.copy_array_to_vector(neighbours, index.hnsw.neighbors)
        index.hnsw.entry_point, index.hnsw.max_level = int(self.entry), int(levels.max()) - 1
        return index


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise ConfigError(
            f"shortlist.search=graph needs faiss: {INSTALL}; shortlist.search=exact does without"
        ) from None
    return faiss


def _grown(index: Any, vectors: Float[np.ndarray, "rows dim"], build_width: int) -> Graph:
    faiss = _faiss()
    index.hnsw.efConstruction = build_width
    if len(vectors):
        index.add(vectors)  # in one go: faiss's graphs depend on how vectors are divided, not on threads
    levels, neighbours = (faiss.vector_to_array(part) for part in (index.hnsw.levels, index.hnsw.neighbors))
    graph = Graph(*map(torch.from_numpy, (levels, neighbours, np.array([index.hnsw.entry_point]))))
    graph._index = index
    return graph


def _empty(faiss: Any, dim: int, links: int) -> Any:
    return faiss.IndexHNSWFlat(dim, links, faiss.METRIC_INNER_PRODUCT)


def _links(levels: Int[np.ndarray, "rows"], neighbours: Int[np.ndarray, "slots"]) -> int:
    """Links of a vector to others of one floor: there is room for twice as many on the first."""
    return len(neighbours) // int((levels.astype(np.int64) + 1).sum())


def _offsets(levels: Int[np.ndarray, "rows"], links: int) -> Int[np.ndarray, "rows+1"]:
    return np.concatenate([[0], ((levels.astype(np.int64) + 1) * links).cumsum()])


def most_levels(links: int) -> int:
    """Floors that faiss has for so many links: those which one of a thousand million vectors would reach."""
    return next(floor for floor in range(64) if links**-floor * (1 - 1 / links) < 1e-9)


def _sound(levels: np.ndarray, neighbours: np.ndarray, entry: np.ndarray, num_rows: int) -> bool:
    """Whether every link leads to a vector that is there, on the floor on which it is followed."""
    if (levels.shape, neighbours.ndim, entry.shape) != ((num_rows,), 1, (1,)) or not num_rows or levels.min() < 1:
        return False
    links = _links(levels, neighbours)
    if not 2 <= links <= MOST_LINKS or levels.max() > most_levels(links):
        return False
    offsets = _offsets(levels, links)
    if offsets[-1] != len(neighbours) or neighbours.min() < -1 or neighbours.max() >= num_rows:
        return False
    for floor in range(1, levels.max()):
        starts = offsets[:-1][levels > floor] + (floor + 1) * links
        found = neighbours[starts[:, None] + np.arange(links)]
        if (levels[found[found >= 0]] <= floor).any():
            return False
    return bool(0 <= entry[0] < num_rows and levels[entry[0]] == levels.max())
