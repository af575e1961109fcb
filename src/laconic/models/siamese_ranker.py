"""Rank labels by the cosine of a text and the labels' own texts, in a learnt space."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.nn import functional

from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Encoder
from laconic.models.rankers import FlatRanker


class SiameseRanker(FlatRanker):
    """A flat ranker whose label rows are the vectors of label texts, divided by the temperature of training.

    All biases are equal: the negative of a usual text's log of the sum of all labels' exponentiated scores, so that a
    score is about the probability of the label among all.
    """

    def __init__(self, encoder: Encoder, classifier: LinearClassifier, *, chunk: int = 1 << 17) -> None:
        super().__init__(encoder, classifier, chunk=chunk)

    @property
    def space(self) -> Encoder:
        """Return the encoder of texts and label texts."""
        return self.encoder

    @property
    def labels(self) -> LinearClassifier:
        """Return the labels' rows and biases."""
        assert isinstance(self.classifier, LinearClassifier)
        return self.classifier

    @staticmethod
    @torch.no_grad()
    def of(
        encoder: Encoder, vectors: Float[Tensor, "labels dim"], temperature: float, texts: Float[Tensor, "n dim"]
    ) -> SiameseRanker:
        """Return the ranker of labels with these vectors; `texts` are vectors of usual texts.

        Rows are rounded to half precision, so that a model folder needs half of the room for them.
        """
        with torch.device("meta"):  # no random rows, which would take seconds for many labels
            classifier = LinearClassifier(encoder.dim, len(vectors))
        classifier.weight, classifier.bias = (
            nn.Parameter((vectors / temperature).half().float()),
            nn.Parameter(vectors.new_zeros(len(vectors))),
        )
        sums = [(part @ classifier.weight.T).logsumexp(1) for part in torch.split(texts, 256)]
        classifier.bias.fill_(-float(torch.cat(sums).mean()) if sums else 0.0)
        return SiameseRanker(encoder, classifier).eval()


def label_vectors(
    of_label_texts: Float[Tensor, "labels dim"],
    has_text: Bool[np.ndarray, "labels"],
    of_texts: Float[Tensor, "texts dim"],
    labels: csr_array,
) -> Float[Tensor, "labels dim"]:
    """Return the vectors of labels: of their own texts or, without one, the mean direction of the texts that have them.

    A label with neither has zeros.
    """
    missing = np.flatnonzero(~has_text)
    texts_of = csr_array((labels[:, missing] != 0).T, dtype=np.float32)
    means = torch.from_numpy(texts_of @ of_texts.cpu().numpy()).to(of_label_texts)
    vectors = of_label_texts.clone()
    vectors[torch.from_numpy(missing).to(vectors.device)] = functional.normalize(means, dim=1)
    return vectors
