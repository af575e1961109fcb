"""Exact ranking over all labels in batches: approximate scores choose candidates, which are scored again exactly.

Rough scores are products in bfloat16, and all that is kept of them is the largest of each group of neighbouring labels.
The labels of the best groups are then scored by the classifier's own rows. A label is lost only where roundings bring
more than `spare` groups before its own that do not belong there. One such rounding is at most 2⁻⁸ of the lengths of row
and vector multiplied, and far less unless all numbers of a row are rounded the same way.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from laconic.kernels.triton.maxima import best_groups, group_maxima, places_in
from laconic.kernels.triton.shortlist import Shortlist
from laconic.kernels.triton.shortlist_scores import shortlist_scores
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Encoder
from laconic.models.rankers import Ranker
from laconic.models.shortlisters.base import pad_ranking
from laconic.types import Inputs, Ranking

_WHOLE = 2048  # labels are filled up to a multiple of it: to whole tiles, and to whole groups of groups
_DEEP = 64  # and the numbers of a row to one of this
_NEVER = -1e30  # the bias of what is no label; not -inf, which less itself is no number


class ExactRanker(Ranker):
    """Ranks exactly like a FlatRanker of the same parts."""

    starts: Tensor

    def __init__(
        self,
        encoder: Encoder,
        classifier: LinearClassifier,
        *,
        group: int = 32,
        spare: int = 4,
    ) -> None:
        super().__init__()
        self.encoder, self.classifier, self.rough = encoder, classifier, RoughRows(classifier)
        self.num_labels, self.num_ids = classifier.num_labels, encoder.num_ids
        self.group, self.spare = group, spare  # neighbours that are compared first; groups more than labels asked for
        bounds = torch.arange(0, len(self.rough.rows) + 1, group, device=self.rough.rows.device)
        self.register_buffer("starts", bounds.clamp(max=self.num_labels), persistent=False)

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        transformed = self.classifier.transform(self.encoder(inputs))
        maxima = group_maxima(self.rough.vectors(transformed), self.rough.rows, self.group)
        groups = best_groups(maxima, k + self.spare)
        shortlist = Shortlist(groups, self.starts, self.group)
        scores = shortlist_scores(transformed, self.classifier.weight, self.classifier.bias, shortlist)
        best = scores.topk(min(k, self.num_labels))
        return pad_ranking(Ranking(places_in(groups, best.indices, self.group), best.values.sigmoid()), k)

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.classifier.score(self.encoder(inputs), labels).sigmoid()


class RoughRows(nn.Module):
    """A classifier's rows in bfloat16, with their biases appended.

    The mean row is subtracted: it shifts all scores of a text equally and would cost precision.
    """

    rows: Tensor

    @torch.no_grad()
    def __init__(self, classifier: LinearClassifier) -> None:
        super().__init__()
        weight, bias = classifier.weight, classifier.biases(slice(0, classifier.num_labels))
        labels, self.dim = weight.shape
        size = _whole(labels, _WHOLE), _whole(self.dim + 2, _DEEP)
        rows = torch.zeros(size, dtype=torch.bfloat16, device=weight.device)
        torch.sub(weight, weight.mean(0), out=rows[:labels, : self.dim])
        # In two parts, high and low, because 8 bits of a bias are too few.
        rows[:labels, self.dim] = bias - bias.mean()
        rows[:labels, self.dim + 1] = bias - bias.mean() - rows[:labels, self.dim]
        rows[labels:, self.dim] = _NEVER
        self.register_buffer("rows", rows, persistent=False)

    def vectors(self, transformed: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch width"]:
        """Return text vectors in the layout of the rows."""
        with_ones = functional.pad(transformed.bfloat16(), (0, 2), value=1.0)
        return functional.pad(with_ones, (0, self.rows.shape[1] - self.dim - 2))


def _whole(size: int, unit: int) -> int:
    return -(-size // unit) * unit
