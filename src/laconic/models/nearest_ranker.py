"""Rank labels by the nearest training texts and by the labels' own texts."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.kernels.csr import TRACE, in_threads
from laconic.models.fusion.evidence import Channels
from laconic.models.fusion.votes import rank_votes, score_votes
from laconic.models.rankers import Ranker
from laconic.models.shortlisters.nearest import NearestBags, NearestVectors, StoredLists, queries_of
from laconic.types import NO_LABEL, Inputs, Ranking


class NearestRanker(Ranker):
    """Training texts with their labels, and the labels' own texts, both indexed by word."""

    popular: Tensor

    def __init__(
        self,
        *,
        neighbours: int,
        power: float,
        label_text: float,
        texts: NearestBags | NearestVectors,
        votes: StoredLists,
        label_texts: StoredLists,
        popular: Int[Tensor, "labels"],
    ) -> None:
        super().__init__()
        self.neighbours, self.power, self.label_text = neighbours, power, label_text
        self.num_labels = len(popular)
        self.texts, self.votes, self.label_texts = texts, votes, label_texts
        self.register_buffer("popular", popular)  # where words give out, the most frequent labels follow with score 0

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        channels, popular = self.channels(inputs), self.popular.numpy()
        labels = np.full((channels.size, k), NO_LABEL, dtype=np.int64)
        scores = np.zeros((channels.size, k), dtype=np.float32)
        in_threads(channels.size, lambda first, last: rank_votes(channels, first, last, popular, labels, scores))
        return Ranking(torch.from_numpy(labels), torch.from_numpy(scores))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        channels, wanted = self.channels(inputs), labels.numpy()
        assert wanted.max(initial=NO_LABEL) < self.num_labels
        scores = np.zeros(wanted.shape, dtype=np.float32)
        in_threads(
            channels.size, lambda first, last: score_votes(channels, first, last, len(self.popular), wanted, scores)
        )
        return torch.from_numpy(scores)

    def channels(self, inputs: Inputs) -> Channels:
        """Return the nearest texts of a batch, before votes are counted."""
        neighbours = self.texts.nearest(inputs, self.neighbours)
        return Channels(
            neighbours.labels.numpy(),
            # Opposite vectors have no say; rounding may leave a cosine a hair above 1.
            neighbours.scores.clamp(min=0).pow(self.power).numpy(),
            self.votes.lists(),
            queries_of(inputs),
            self.label_texts.lists(),
            np.float32(self.label_text),
        )


def votes_of(data: Dataset) -> csr_array:
    """Return each text's labels with their weights, scaled to at most 1, so that no sum overflows."""
    votes = csr_array(data.labels / data.labels.data.max(initial=TRACE))
    if data.label_weights is not None:
        votes.data *= data.label_weights[votes.indices] / data.label_weights.max(initial=TRACE)
    if data.weights is not None:
        votes = csr_array(votes.multiply(data.weights[:, None] / data.weights.max(initial=TRACE)))
    votes.eliminate_zeros()
    return votes
