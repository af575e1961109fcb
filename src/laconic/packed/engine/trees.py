"""The method `trees` as a packed ranker: label trees with sparse classifiers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_numbers, check_whole
from laconic.kernels.csr import Lists
from laconic.kernels.held import Held, hold
from laconic.kernels.jit import compiled
from laconic.models.label_trees.features import Reading, features_of, fill_features, normalise_rows
from laconic.models.label_trees.forest import Forest, Paths, arrays_of, forest_of, is_sound, paths_of, workspace_sizes
from laconic.models.label_trees.older import OlderForest, from_older
from laconic.models.label_trees.rows import no_blocks
from laconic.models.label_trees.search import Workspace, make_workspace, rank_texts, score_texts
from laconic.packed.engine.pairs import Pairs, are_readable, contiguous, refuse_unreadable, tokens_of
from laconic.packed.engine.parts import PerThread
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.texts import Inputs, Ranked, Texts, size_of
from laconic.types import NO_LABEL


@dataclass(frozen=True, kw_only=True, eq=False)
class Trees(PackedRanker):
    """The packed form of a TreesRanker."""

    roots: np.ndarray  # int32; these and the next are as models/label_trees/forest.py has them
    child_starts: np.ndarray  # int64
    targets: np.ndarray  # int32
    biases: np.ndarray  # float32
    feature_starts: np.ndarray  # int32 or, where that is too small, int64
    nodes: np.ndarray  # uint16 or, where that takes less with all that belongs to it, int32
    weights: np.ndarray | Pairs  # int8; version 0.2 had positions and float32 weights, and not the next three
    scales: np.ndarray | None = None  # float32
    weight_blocks: np.ndarray | None = None  # int32 or int64; version 0.2 had none
    weight_starts: np.ndarray | None = None  # uint16, int32 or int64
    weight_steps: np.ndarray | None = None  # uint8
    words: int  # this and the next two are as models/label_trees/features.py has them
    ids: int
    pairs: int
    beam: int

    def __post_init__(self) -> None:
        if isinstance(self.weights, Pairs):
            self._check_kinds(name for name in OlderForest._fields if not name.startswith("weight"))
            self._read_older(self.weights)
        elif self.weight_blocks is None:
            object.__setattr__(self, "weight_blocks", no_blocks(len(self.nodes)))
        self._check_kinds(_KINDS)
        check_whole(self.beam, "beam", 1)
        for name in Reading._fields:
            check_whole(getattr(self, name), f"number of {name}", 0)
        if not self._reading.is_sound():
            raise ModelError("the packed model's words and pairs do not fit together; pack it again")
        if not is_sound(self.forest):
            raise ModelError("the packed model's trees do not lead to every label; pack it again")

    def _check_kinds(self, names: Iterable[str]) -> None:
        for name in names:
            check_array(getattr(self, name), f"trees' {name}", _KINDS[name], (None,))

    def _read_older(self, weights: Pairs) -> None:
        own = {name: getattr(self, name) for name in OlderForest._fields if name in _KINDS}
        lists = {"weight_starts": weights.starts, "weight_children": weights.numbers, "weights": weights.values}
        forest = from_older(OlderForest(**own | lists), "trees")
        if forest is None:
            raise ModelError("the packed model's trees do not lead to every label; pack it again")
        for name, array in _arrays(forest).items():
            object.__setattr__(self, name, array)

    @staticmethod
    def of(forest: Forest, reading: Reading, beam: int) -> Trees:
        return Trees(**_arrays(forest), **reading._asdict(), beam=beam)

    @property
    def num_labels(self) -> int:
        return int(self._ways.child_of.shape[1])

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        labels, scores = found = Ranked.empty(size_of(inputs), k)
        beam = min(self.beam, len(self.child_starts))
        if not isinstance(inputs, Texts):
            trees = self.forest, self._ways
            rank_texts(trees, self._queries(inputs), beam, (0, len(labels)), self._scratch(), (labels, scores))
        elif not _rank_tokens(self._held(), *contiguous(inputs), beam, labels, scores):
            refuse_unreadable()
        return found

    def score(self, inputs: Inputs, labels: Int[np.ndarray, "texts n"]) -> Float[np.ndarray, "texts n"]:
        check_numbers(labels, "labels to be scored", NO_LABEL, self.num_labels)
        scores = np.zeros(labels.shape, dtype=np.float32)
        trees, span = (self.forest, self._ways), (0, len(labels))
        score_texts(trees, self._queries(inputs), span, self._scratch(), (np.ascontiguousarray(labels), scores))
        return scores

    def with_beam(self, beam: int) -> Trees:
        return replace(self, beam=min(beam, len(self.child_starts)))

    def exact(self) -> Trees:
        return self.with_beam(len(self.child_starts))

    @cached_property
    def forest(self) -> Forest:
        return forest_of([getattr(self, name) for name in _KINDS])

    @cached_property
    def _ways(self) -> Paths:
        return paths_of(self.forest)

    @property
    def _reading(self) -> Reading:
        return Reading(self.words, self.ids, self.pairs)

    def _queries(self, inputs: Inputs) -> Lists:
        if not isinstance(inputs, Texts):
            return normalise_rows(Lists.dense(inputs))
        return features_of(tokens_of(inputs), self._reading)

    @cached_property
    def _scratch(self) -> PerThread[Workspace]:
        return PerThread(partial(make_workspace, *workspace_sizes(self.forest, self._ways)))

    @cached_property
    def _held(self) -> PerThread[Held]:
        trees, reading, scratch = (self.forest, self._ways), self._reading, self._scratch
        return PerThread(lambda: hold((trees, reading, scratch())))  # without this ranker, which would never be freed


@compiled
def _rank_tokens(held, ids, weights, starts, beam, labels, scores):  # type: ignore[no-untyped-def]
    """Write the best labels of texts; return False, with nothing written, if the texts cannot be read."""
    (trees, reading, workspace), tokens, into = held.value, Lists(starts, ids, weights), (labels, scores)
    if not are_readable(tokens):
        return False
    size = len(tokens.numbers) * (2 if reading.pairs else 1)
    found = Lists(np.zeros(len(tokens.starts), np.int64), np.empty(size, np.int32), np.empty(size, np.float32))
    count = fill_features(tokens, reading, found)
    queries = Lists(found.starts, found.numbers[:count], found.values[:count])
    rank_texts(trees, queries, beam, (0, len(into[0])), workspace, into)
    return True


def _arrays(forest: Forest) -> dict[str, Any]:
    return dict(zip(_KINDS, arrays_of(forest), strict=True))


_BOUNDS: tuple[type[Any], ...] = (np.int32, np.int64)
_KINDS: dict[str, type[Any] | tuple[type[Any], ...]] = {
    "roots": np.int32,
    "child_starts": np.int64,
    "targets": np.int32,
    "biases": np.float32,
    "scales": np.float32,
    "feature_starts": _BOUNDS,
    "nodes": (np.int32, np.uint16),
    "weight_blocks": _BOUNDS,
    "weight_starts": (*_BOUNDS, np.uint16),
    "weight_steps": np.uint8,
    "weights": np.int8,
}
