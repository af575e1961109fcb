"""The method `trees` as a packed ranker: label trees with sparse classifiers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_kind, check_numbers, check_whole, for_kernels
from laconic.kernels.csr import Lists
from laconic.models.label_trees.features import Reading, features_of, normalise_rows
from laconic.models.label_trees.forest import Forest, Paths, is_sound, paths_of
from laconic.models.label_trees.search import Workspace, make_workspace, rank_texts, score_texts
from laconic.packed.engine.pairs import Pairs, tokens_of
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
    feature_starts: np.ndarray  # int64
    nodes: np.ndarray  # int32
    weights: Pairs
    words: int  # this and the next two are as models/label_trees/features.py has them
    ids: int
    pairs: int
    beam: int

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            check_array(getattr(self, name), f"trees' {name}", kind, (None,))
        check_kind(self.weights, "trees' weights", Pairs)
        check_whole(self.beam, "beam", 1)
        for name in Reading._fields:
            check_whole(getattr(self, name), f"number of {name}", 0)
        if not self._reading.is_sound():
            raise ModelError("the packed model's words and pairs do not fit together; pack it again")
        if not is_sound(self.forest):
            raise ModelError("the packed model's trees do not lead to every label; pack it again")

    @staticmethod
    def of(forest: Forest, reading: Reading, beam: int) -> Trees:
        own = {name: getattr(forest, name) for name in _KINDS}
        return Trees(**own, **reading._asdict(), weights=Pairs.of(forest.weights), beam=beam)

    @property
    def num_labels(self) -> int:
        return int(self._ways.child_of.shape[1])

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        labels, scores = found = Ranked.empty(size_of(inputs), k)
        trees, span = (self.forest, self._ways), (0, len(labels))
        rank_texts(
            trees,
            self._queries(inputs),
            min(self.beam, len(self.child_starts)),
            span,
            self._scratch(),
            (labels, scores),
        )
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
        roots, child_starts, targets, biases, feature_starts, nodes = (
            for_kernels(getattr(self, name)) for name in _KINDS
        )
        return Forest(roots, child_starts, targets, biases, feature_starts, nodes, self.weights.lists)

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
        return PerThread(partial(make_workspace, len(self._ways.child_to), self.num_labels, len(self.roots)))


_KINDS = {
    "roots": np.int32,
    "child_starts": np.int64,
    "targets": np.int32,
    "biases": np.float32,
    "feature_starts": np.int64,
    "nodes": np.int32,
}
