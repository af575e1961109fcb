"""A forest as buffers, so that it is saved and loaded like any weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from laconic.errors import ModelError
from laconic.kernels.checks import for_kernels
from laconic.kernels.csr import Lists
from laconic.models.label_trees.checks import is_sound
from laconic.models.label_trees.forest import Forest
from laconic.models.shortlisters.nearest import tensor_of

_KINDS = {
    "roots": torch.int32,
    "child_starts": torch.int64,
    "targets": torch.int32,
    "biases": torch.float32,
    "feature_starts": torch.int64,
    "nodes": torch.int32,
    "weight_starts": torch.int64,
    "weight_children": torch.int32,
    "weights": torch.float32,
}


class StoredForest(nn.Module):
    def __init__(self, parts: Sequence[Tensor]) -> None:
        super().__init__()
        for name, part in zip(_KINDS, parts, strict=True):
            self.register_buffer(name, part)

    @staticmethod
    def of(forest: Forest) -> StoredForest:
        arrays = (*forest[:-1], *forest.weights)
        return StoredForest([torch.from_numpy(np.require(array, requirements="W")) for array in arrays])

    @staticmethod
    def of_tensors(tensors: Mapping[str, Tensor], name: str) -> StoredForest:
        """The forest that is kept under that name, once it is known to be one."""
        stored = StoredForest([tensor_of(tensors, f"{name}.{part}", kind) for part, kind in _KINDS.items()])
        if not is_sound(stored.forest()):
            raise ModelError(f"the model's tensors {name}.* are no trees; the file is damaged: fetch it again")
        return stored

    def forest(self) -> Forest:
        return _forest([self.get_buffer(name).cpu().numpy() for name in _KINDS])


def _forest(arrays: Sequence[np.ndarray]) -> Forest:
    # As mapped arrays are, so that loops are compiled once for both.
    roots, child_starts, targets, biases, feature_starts, nodes, *weights = map(for_kernels, arrays)
    return Forest(roots, child_starts, targets, biases, feature_starts, nodes, Lists(*weights))
