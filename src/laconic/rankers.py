"""What prediction runs: inputs in, the best labels out. Texts, names and files are other rooms' business."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from laconic.classifiers import Classifier
from laconic.encoders import Encoder
from laconic.types import NO_LABEL, Inputs, Ranking


class Ranker(nn.Module, ABC):
    """Ranks labels for inputs. `score` gives the labels of `rank` the same scores, and any other label its own."""

    num_labels: int
    num_ids: int = 0  # token ids that it knows; 0: it does not mind

    @abstractmethod
    def rank(self, inputs: Inputs, k: int) -> Ranking:
        """The best k labels of each input, best first; rows end in NO_LABEL where there are fewer than k labels."""

    @abstractmethod
    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        """The scores of the given labels."""


class FlatRanker(Ranker):
    """Scores every label. Scores are probabilities; the order is that of the logits behind them."""

    def __init__(self, encoder: Encoder, classifier: Classifier, *, chunk: int = 1 << 17) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.num_labels, self.num_ids, self.chunk = classifier.num_labels, encoder.num_ids, chunk

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        transformed = self.classifier.transform(self.encoder(inputs))
        parts = [self._best_of(transformed, first, k) for first in range(0, self.num_labels, self.chunk)]
        scores, labels = torch.cat([part.scores for part in parts], 1), torch.cat([part.labels for part in parts], 1)
        best = scores.topk(min(k, scores.shape[1]))
        missing = (0, k - best.values.shape[1])
        return Ranking(
            functional.pad(labels.gather(1, best.indices), missing, value=NO_LABEL),
            functional.pad(best.values.sigmoid(), missing),
        )

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.classifier.score(self.encoder(inputs), labels).sigmoid()

    def _best_of(self, transformed: Float[Tensor, "batch dim"], first: int, k: int) -> Ranking:
        last = min(first + self.chunk, self.num_labels)
        best = self.classifier.score_range(transformed, slice(first, last)).topk(min(k, last - first))
        return Ranking(best.indices + first, best.values)
