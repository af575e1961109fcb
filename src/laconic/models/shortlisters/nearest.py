"""Nearest rows by cosine, sparse or dense, as modules that are saved with a model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array, hstack
from torch import Tensor, nn

from laconic.data.vocabulary import bags
from laconic.errors import ModelError
from laconic.kernels.csr import Lists, search
from laconic.types import PAD, Inputs, Ranking, Tokens


class StoredLists(nn.Module):
    """Sparse lists as buffers, saved and loaded like any weights."""

    starts: Tensor
    numbers: Tensor
    values: Tensor

    def __init__(self, lists: Lists) -> None:
        super().__init__()
        for name, array in lists._asdict().items():
            self.register_buffer(name, torch.from_numpy(array))

    @staticmethod
    def of_tensors(tensors: Mapping[str, Tensor], name: str, *, below: int) -> StoredLists:
        """Read the lists stored under that name and check that their numbers are below that."""
        kinds = {"starts": torch.int64, "numbers": torch.int32, "values": torch.float32}
        parts = (tensor_of(tensors, f"{name}.{part}", kind).numpy() for part, kind in kinds.items())
        return StoredLists(Lists(*parts).checked(name, below))

    def lists(self) -> Lists:
        return Lists(self.starts.cpu().numpy(), self.numbers.cpu().numpy(), self.values.cpu().numpy())


class NearestBags(nn.Module):
    """Finds the rows of a sparse matrix nearest to a bag of words. Rows and queries have length 1."""

    def __init__(self, index: StoredLists, num_rows: int) -> None:
        super().__init__()
        self.index, self.num_rows = index, num_rows

    @staticmethod
    def of(rows: csr_array) -> NearestBags:
        return NearestBags(StoredLists(Lists.inverted(bags(rows))), rows.shape[0])

    def extended(self, rows: csr_array) -> NearestBags:
        """Append further rows."""
        lists = self.index.lists()
        own = csr_array((lists.values, lists.numbers, lists.starts), shape=(len(lists.starts) - 1, self.num_rows))
        joined = hstack([own, bags(rows).T], format="csr")
        return NearestBags(StoredLists(Lists.of(joined)), joined.shape[1])

    def nearest(self, inputs: Inputs, k: int) -> Ranking:
        rows, scores = search(self.index.lists(), queries_of(inputs), self.num_rows, k)
        return Ranking(torch.from_numpy(rows), torch.from_numpy(scores))


class NearestVectors(nn.Module):
    """Finds the nearest dense rows by computing every cosine."""

    vectors: Tensor

    def __init__(self, vectors: Float[Tensor, "rows dim"]) -> None:
        super().__init__()
        self.register_buffer("vectors", vectors)

    @staticmethod
    def of(rows: Float[np.ndarray, "rows dim"]) -> NearestVectors:
        return NearestVectors(nn.functional.normalize(torch.from_numpy(rows), dim=1))

    def extended(self, rows: Float[np.ndarray, "rows dim"]) -> NearestVectors:
        """Append further rows."""
        return NearestVectors(torch.cat([self.vectors, NearestVectors.of(rows).vectors]))

    def nearest(self, inputs: Inputs, k: int) -> Ranking:
        assert isinstance(inputs, Tensor)
        queries = nn.functional.normalize(inputs, dim=1)
        best = [(part @ self.vectors.T).topk(min(k, len(self.vectors))) for part in torch.split(queries, 256)]
        return Ranking(torch.cat([part.indices for part in best]), torch.cat([part.values for part in best]))


def tensor_of(tensors: Mapping[str, Tensor], name: str, *kinds: torch.dtype) -> Tensor:
    """Return a model's tensor of that name and one of these dtypes, or refuse the model."""
    if name not in tensors:
        raise ModelError(f"the model has no tensor {name!r}; its folder is incomplete: fetch it again")
    if tensors[name].dtype not in kinds:
        wanted = " or ".join(map(str, kinds))
        raise ModelError(f"the model's tensor {name!r} must be {wanted}, but is {tensors[name].dtype}; fetch it again")
    return tensors[name]


def queries_of(inputs: Inputs) -> Lists:
    """Return tokens as bags; dense inputs have no words."""
    words = words_of(inputs)
    num_ids = int(words.numbers.max(initial=-1)) + 1
    shape = len(words.starts) - 1, num_ids
    return Lists.of(bags(csr_array((words.values, words.numbers, words.starts), shape=shape)))


def words_of(inputs: Inputs) -> Lists:
    """Return tokens in reading order."""
    if not isinstance(inputs, Tokens):
        return Lists.of(csr_array((len(inputs), 0), dtype=np.float32))
    there = (inputs.ids != PAD).cpu().numpy()
    starts = np.concatenate([[0], there.sum(axis=1).cumsum()])
    return Lists(starts, inputs.ids.cpu().numpy()[there].astype(np.int32), inputs.weights.cpu().numpy()[there])
