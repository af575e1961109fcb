"""Add labels whose own texts share words with a text to any shortlister's candidates.

A label that training has hardly seen has no centroid worth the name; what it is called still says what it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from laconic.errors import ModelError
from laconic.models.shortlisters.base import Shortlister, join_rankings, pad_ranking
from laconic.models.shortlisters.nearest import tensor_of
from laconic.models.shortlisters.selection import largest
from laconic.types import NO_LABEL, Inputs, Ranking, Tokens

_AT_ONCE = 1 << 26  # cosines and word weights that are held at a time
WEIGHT = 1e-3  # of a cosine among the scores of the other shortlister: after all that it names itself


class WithLabelTexts(Shortlister):
    """Reserves `count` positions of another's shortlist for labels nearest by the cosine of words.

    Weights of texts and of label texts have length 1 per row.
    """

    starts: Tensor
    words: Tensor
    weights: Tensor

    def __init__(
        self,
        others: Shortlister,
        count: int,
        num_ids: int,
        starts: Int[Tensor, "bounds"],
        words: Int[Tensor, "pairs"],
        weights: Float[Tensor, "pairs"],
    ) -> None:
        super().__init__()
        self.others, self.count, self.num_ids = others, count, num_ids
        self.num_labels, self.size = others.num_labels, others.size
        self.register_buffer("starts", starts)
        self.register_buffer("words", words)
        self.register_buffer("weights", weights)

    @staticmethod
    def of(others: Shortlister, count: int, label_inputs: csr_array, device: torch.device) -> WithLabelTexts:
        """Build from a row of weighted words for each label."""
        rows = label_inputs.copy()
        rows.sum_duplicates()
        starts, words = (torch.from_numpy(part.astype(np.int64)) for part in (rows.indptr, rows.indices))
        weights = torch.from_numpy(rows.data.astype(np.float32))
        return WithLabelTexts(others, count, rows.shape[1], starts, words, weights).to(device)

    @staticmethod
    def of_tensors(
        tensors: Mapping[str, Tensor], name: str, others: Shortlister, count: int, num_ids: int
    ) -> WithLabelTexts:
        """Read the tensors stored under that name and check that no index points outside."""
        starts, words = (tensor_of(tensors, f"{name}.{part}", torch.int64) for part in ("starts", "words"))
        weights = tensor_of(tensors, f"{name}.weights", torch.float32)
        fit = (
            starts.ndim == words.ndim == weights.ndim == 1
            and (len(starts), len(weights)) == (others.num_labels + 1, len(words))
            and (int(starts[0]), int(starts[-1])) == (0, len(words))
            and bool((starts.diff() >= 0).all())
            and bool(((words >= 0) & (words < num_ids)).all())
        )
        if not fit:
            raise ModelError(f"the model's tensors {name!r} do not fit together; its folder is damaged: fetch it again")
        return WithLabelTexts(others, count, num_ids, starts, words, weights)

    def over(self, others: Shortlister) -> WithLabelTexts:
        """Return the shortlister over another one."""
        return WithLabelTexts(others, self.count, self.num_ids, self.starts, self.words, self.weights)

    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        assert isinstance(inputs, Tokens)
        count = min(self.count, size - 1)
        listed = self.others(inputs, vectors, size - count)
        rows = max(1, _AT_ONCE // max(self.num_labels, self.num_ids))
        parts = zip(*(torch.split(part, rows) for part in (inputs.ids, inputs.weights, listed.labels)), strict=True)
        further = [self._further(Tokens(ids, weights), there, count) for ids, weights, there in parts]
        return join_rankings([listed, join_rankings(further)], 1)

    def _further(self, tokens: Tokens, there: Int[Tensor, "batch n"], count: int) -> Ranking:
        cosines = self.cosines(tokens)
        cosines.scatter_(1, there.clamp(min=0), 0.0)  # a place without a label takes label 0 out, which is one of many
        best = largest(cosines, min(count, self.num_labels))
        none = best.scores <= 0
        labels, scores = best.labels.masked_fill(none, NO_LABEL), WEIGHT * best.scores.masked_fill(none, 0)
        return pad_ranking(Ranking(labels, scores), count)

    def cosines(self, tokens: Tokens) -> Float[Tensor, "batch labels"]:
        """Return the cosines of every text's words with every label's."""
        texts = tokens.weights.new_zeros(len(tokens.ids), self.num_ids)
        texts.scatter_add_(1, tokens.ids.long(), tokens.weights)
        # A label's row is the sum of its words' rows of the turned table: a sparse product.
        by_label = functional.embedding_bag(
            self.words, texts.T.contiguous(), self.starts[:-1], mode="sum", per_sample_weights=self.weights
        )
        return by_label.T.contiguous()
