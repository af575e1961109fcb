"""What a smaller combined model costs: weights of label trees that are dropped, tables of vectors in fewer bits.

    python -m benchmarks.size_choices MODEL DATA

MODEL was trained on DATA, whose test split judges here: cut it off the training texts to choose by it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import save
from laconic.cli.options import read_corpus
from laconic.data.evaluation_texts import evaluation_texts
from laconic.methods.restore import restore_ranker
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.label_trees.forest import Forest, pruned
from laconic.models.trees_ranker import TreesRanker
from laconic.predict.predictor import scored
from laconic.storage.model_folder import SavedModel, read_model
from laconic.training.run import device_named

_THRESHOLDS = (0.13, 0.16, 0.2, 0.25, 0.3)
_LARGE = 4000  # rows of a table that is worth fewer bits
_BLOCK = 32  # numbers that share a scale
_SHOWN = ("P@1", "P@5", "PSP@5", "tail R@10")


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.size_choices", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", type=Path)
    parser.add_argument("data")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    model, corpus = read_model(given.model), read_corpus(given.data, None, None)
    texts, found = evaluation_texts(corpus, "test"), dict[str, Any]()
    for name, variant, size in _variants(model):
        began = perf_counter()
        evaluation = scored(variant, texts, given.device)[1]
        figures = {metric: round(evaluation.metrics[metric], 2) for metric in _SHOWN}
        found[name] = {**figures, "bytes": size}
        print(f"{name:24s}", *figures.values(), f"{size / 1e6:.1f} MB, {perf_counter() - began:.0f} s", flush=True)
    save("size_choices", {given.data: found}, quietly=True)


def _variants(model: SavedModel) -> Iterator[tuple[str, SavedModel, int]]:
    """Yield the model as it is, and with smaller trees."""
    ranker = restore_ranker(model, device_named("cpu"))
    assert isinstance(ranker, FusedRanker)
    assert isinstance(ranker.trees, TreesRanker)
    own = ranker.trees
    forests = {"as it is": own.forest}
    forests |= {f"threshold {threshold}": pruned(own.forest, threshold) for threshold in _THRESHOLDS}
    for name, forest in forests.items():
        tensors = {f"trees.{key}": tensor for key, tensor in own.with_forest(forest).state_dict().items()}
        yield name, _with(model, tensors), _bytes(forest)
    for part, bits in product(("base.", "siamese."), (8, 4)):
        tables = {name: table for name, table in model.tensors.items() if name.startswith(part) and _is_table(table)}
        rounded = {name: _rounded(table, bits) for name, table in tables.items()}
        yield (
            f"{part}* in {bits} bits",
            _with(model, rounded),
            sum(table.numel() for table in tables.values()) * bits // 8,
        )


def _is_table(tensor: Tensor) -> bool:
    return tensor.ndim == 2 and tensor.is_floating_point() and len(tensor) >= _LARGE


def _rounded(table: Tensor, bits: int) -> Tensor:
    """Round numbers to integers of so many bits, with a scale for each block of a row."""
    rows, width = table.shape
    blocks = torch.nn.functional.pad(table.float(), (0, -width % _BLOCK)).reshape(rows, -1, _BLOCK)
    largest = 2 ** (bits - 1) - 1
    scales = blocks.abs().amax(2, keepdim=True).clamp_min(1e-30) / largest
    return ((blocks / scales).round() * scales).reshape(rows, -1)[:, :width].contiguous().to(table.dtype)


def _with(model: SavedModel, tensors: dict[str, Tensor]) -> SavedModel:
    return replace(model, tensors={**model.tensors, **tensors})


def _bytes(forest: Forest) -> int:
    return sum(array.nbytes for array in (*forest[:-1], *forest.weights))


if __name__ == "__main__":
    main()
