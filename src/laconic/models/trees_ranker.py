"""Rank labels by trees of sparse linear classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.errors import ModelError
from laconic.kernels.csr import Lists, in_threads
from laconic.kernels.spares import Spares
from laconic.models.label_trees.features import Reading, features_of, normalise_rows
from laconic.models.label_trees.forest import Forest, Paths, arrays_of, forest_of, is_sound, paths_of, workspace_sizes
from laconic.models.label_trees.older import OlderForest, from_older
from laconic.models.label_trees.rows import no_blocks
from laconic.models.label_trees.search import Workspace, make_workspace, rank_texts, score_texts
from laconic.models.rankers import Ranker
from laconic.models.shortlisters.nearest import tensor_of, words_of
from laconic.types import NO_LABEL, Inputs, Ranking, Tokens

_BOUNDS = (torch.int32, torch.int64)
_BLOCKS = "weight_blocks"  # version 0.2 had none
_KINDS = {
    "roots": (torch.int32,),
    "child_starts": (torch.int64,),
    "targets": (torch.int32,),
    "biases": (torch.float32,),
    "scales": (torch.float32,),
    "feature_starts": _BOUNDS,
    "nodes": (torch.int32, torch.uint16),
    _BLOCKS: _BOUNDS,
    "weight_starts": (*_BOUNDS, torch.uint16),
    "weight_steps": (torch.uint8,),
    "weights": (torch.int8,),
}
_OLDER = {"weight_children": (torch.int32,), "weights": (torch.float32,)}
_OLDER_KINDS = {name: (_KINDS | _OLDER)[name] for name in OlderForest._fields}


class TreesRanker(Ranker):
    """Searches label trees for a text's features."""

    def __init__(self, trees: StoredForest, reading: Reading, *, beam: int) -> None:
        super().__init__()
        self.beam = beam  # nodes that are searched on each level
        self.read(trees, reading)
        self.num_labels = self.paths.child_of.shape[1]

    def read(self, trees: StoredForest, reading: Reading) -> None:
        """Replace the trees and the numbering of their features."""
        self.trees, self.features = trees, reading
        for name, count in reading._asdict().items():
            self.register_buffer(name, torch.tensor(count))
        for name in ("forest", "paths", "_workspaces"):
            self.__dict__.pop(name, None)  # cached properties of the trees before

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        queries, trees = self._queries(inputs), (self.forest, self.paths)
        labels = np.full((len(queries.starts) - 1, k), NO_LABEL, dtype=np.int64)
        scores = np.zeros(labels.shape, dtype=np.float32)
        found = labels, scores

        def search(*span: int) -> None:
            with self._workspaces.lent() as workspace:
                rank_texts(trees, queries, self.beam, span, workspace, found)

        in_threads(len(labels), search)
        return Ranking(torch.from_numpy(labels), torch.from_numpy(scores))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        queries, trees, wanted = self._queries(inputs), (self.forest, self.paths), labels.numpy()
        assert wanted.max(initial=NO_LABEL) < self.num_labels
        scores = np.zeros(wanted.shape, dtype=np.float32)
        found = wanted, scores

        def search(*span: int) -> None:
            with self._workspaces.lent() as workspace:
                score_texts(trees, queries, span, workspace, found)

        in_threads(len(wanted), search)
        return torch.from_numpy(scores)

    def with_forest(self, forest: Forest) -> TreesRanker:
        """Return a ranker with other trees and the same settings."""
        return TreesRanker(StoredForest.of(forest), self.features, beam=self.beam)

    @cached_property
    def forest(self) -> Forest:
        return self.trees.forest()

    @cached_property
    def paths(self) -> Paths:
        return paths_of(self.forest)

    @cached_property
    def _workspaces(self) -> Spares[Workspace]:
        return Spares(partial(make_workspace, *workspace_sizes(self.forest, self.paths)))

    def _queries(self, inputs: Inputs) -> Lists:
        if isinstance(inputs, Tokens):
            return features_of(words_of(inputs), self.features)
        return normalise_rows(Lists.dense(inputs.numpy()))


class StoredForest(nn.Module):
    """A forest as buffers, saved and loaded like any weights."""

    def __init__(self, parts: Sequence[Tensor]) -> None:
        super().__init__()
        for name, part in zip(_KINDS, parts, strict=True):
            self.register_buffer(name, part)

    @staticmethod
    def of(forest: Forest) -> StoredForest:
        return StoredForest([torch.from_numpy(np.require(array, requirements="W")) for array in arrays_of(forest)])

    @staticmethod
    def of_tensors(tensors: Mapping[str, Tensor], name: str) -> StoredForest:
        """Read the forest stored under that name and check it."""
        is_older = f"{name}.weight_children" in tensors
        if not is_older and f"{name}.{_BLOCKS}" not in tensors:
            rows = len(tensor_of(tensors, f"{name}.nodes", *_KINDS["nodes"]))
            tensors = {**tensors, f"{name}.{_BLOCKS}": torch.from_numpy(no_blocks(rows))}
        kinds = _OLDER_KINDS if is_older else _KINDS
        parts = [tensor_of(tensors, f"{name}.{part}", *kind) for part, kind in kinds.items()]
        arrays = [part.cpu().numpy() for part in parts]
        forest = from_older(OlderForest(*arrays), f"{name}.weight") if is_older else forest_of(arrays)
        if forest is None or not is_sound(forest):
            raise ModelError(f"the model's tensors {name}.* are no trees; the file is damaged: fetch it again")
        return StoredForest.of(forest) if is_older else StoredForest(parts)

    def forest(self) -> Forest:
        return forest_of([self.get_buffer(name).cpu().numpy() for name in _KINDS])
