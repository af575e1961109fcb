"""Rank labels by trees of linear classifiers."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.kernels.csr import Lists, in_threads
from laconic.models.label_trees.buffers import StoredForest
from laconic.models.label_trees.forest import Forest, Ways, ways_of
from laconic.models.label_trees.rows import Reading, features_of, of_length_one
from laconic.models.label_trees.search import Room, make_room, rank_texts, score_texts
from laconic.models.rankers import Ranker
from laconic.models.shortlisters.nearest import words_of
from laconic.types import NO_LABEL, Inputs, Ranking, Tokens


class TreesRanker(Ranker):
    """Trees of labels that are searched for a text's features."""

    def __init__(self, trees: StoredForest, reading: Reading, *, beam: int) -> None:
        super().__init__()
        self.beam = beam  # nodes that are searched on each level
        self.read(trees, reading)
        self.num_labels = self.ways.child_of.shape[1]

    def read(self, trees: StoredForest, reading: Reading) -> None:
        """Go by these trees, whose features are numbered as the reading says."""
        self.trees, self.features = trees, reading
        for name, count in reading._asdict().items():
            self.register_buffer(name, torch.tensor(count))
        for name in ("forest", "ways"):
            self.__dict__.pop(name, None)  # what was derived from other trees

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        queries, trees = self._queries(inputs), (self.forest, self.ways)
        labels = np.full((len(queries.starts) - 1, k), NO_LABEL, dtype=np.int64)
        scores = np.zeros(labels.shape, dtype=np.float32)

        def work(first: int, last: int) -> None:
            room = self._room()
            rank_texts(trees, queries, self.beam, (first, last), room, (labels, scores))

        in_threads(len(labels), work)
        return Ranking(torch.from_numpy(labels), torch.from_numpy(scores))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        queries, trees, wanted = self._queries(inputs), (self.forest, self.ways), labels.numpy()
        assert wanted.max(initial=NO_LABEL) < self.num_labels
        scores = np.zeros(wanted.shape, dtype=np.float32)

        def work(first: int, last: int) -> None:
            room = self._room()
            score_texts(trees, queries, (first, last), room, (wanted, scores))

        in_threads(len(wanted), work)
        return torch.from_numpy(scores)

    def with_forest(self, forest: Forest) -> TreesRanker:
        """The same over other trees."""
        return TreesRanker(StoredForest.of(forest), self.features, beam=self.beam)

    @cached_property
    def forest(self) -> Forest:
        return self.trees.forest()

    @cached_property
    def ways(self) -> Ways:
        return ways_of(self.forest)

    def _room(self) -> Room:
        room: Room = make_room(len(self.ways.child_to), self.num_labels, len(self.forest.roots))
        return room

    def _queries(self, inputs: Inputs) -> Lists:
        if isinstance(inputs, Tokens):
            return features_of(words_of(inputs), self.features)
        return of_length_one(Lists.dense(inputs.numpy()))
