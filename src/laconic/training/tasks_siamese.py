"""The task that trains one encoder for texts and label texts."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from laconic.models.encoders import Encoder, SpellingEncoder, TransformerEncoder
from laconic.training.tasks import Task
from laconic.types import NO_LABEL, Batch, Inputs, Tokens

_NEVER = -1e4  # the logit of a label that is not compared


class Contrast(Task):
    """A softmax over the labels of a batch, for each of some true labels drawn of a text.

    A text is compared with the labels drawn for all texts of the batch and with some of all texts' hard negatives
    (NGAME). Its other true labels, and labels that are neither true nor false, are not compared. Labels without a text
    do not take part. `frequency` is the log of each label's fraction of all pairs: `correction` times it is added to a
    label's logit in training, which moves scores from frequent labels to rare ones. The encoder's vectors must have a
    length of 1: their inner products are compared.
    """

    label_ids: Tensor
    label_weights: Tensor
    has_text: Tensor
    frequency: Tensor

    def __init__(
        self,
        encoder: Encoder,
        label_texts: Tokens,
        frequency: Float[Tensor, "labels"],
        *,
        temperature: float,
        correction: float = 0.0,
        positives: int = 1,
        hard: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder, self.dropout = encoder, nn.Dropout(dropout)
        # Few epochs and large batches: but for a transformer, compiling takes longer than it saves.
        self.compiles = any(isinstance(part, TransformerEncoder) for part in self.modules())
        tables = [name for name, part in self.named_modules() if isinstance(part, nn.Embedding)]
        self.tables = frozenset(f"{name}.weight" for name in tables)
        self.temperature, self.correction, self.positives, self.hard = temperature, correction, positives, hard
        self.register_buffer("label_ids", label_texts.ids, persistent=False)
        self.register_buffer("label_weights", label_texts.weights, persistent=False)
        self.register_buffer("has_text", (label_texts.weights != 0).any(1), persistent=False)
        self.register_buffer("frequency", frequency, persistent=False)

    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        assert isinstance(batch.inputs, Tokens)
        drawn = self._draw(batch.positives, self.positives)
        hard = [] if batch.negatives is None or not self.hard else [self._draw(batch.negatives, self.hard)]
        # Sorted, so that a label's first column can be searched for; NO_LABEL comes first.
        labels = torch.cat([drawn, *hard], dim=1).flatten().sort().values
        known = labels.clamp(min=0)
        texts, others = self._encode_both(batch.inputs, self._texts_of(known), progress)
        again = functional.pad(labels[1:] == labels[:-1], (1, 0))
        compared = (labels != NO_LABEL) & ~again & self.has_text[known]
        column = torch.where(compared, self.correction * self.frequency[known], _NEVER)
        # One more column, which is never compared, for labels that the batch does not have.
        others, column = functional.pad(others, (0, 0, 0, 1)), functional.pad(column, (0, 1), value=_NEVER)
        logits = torch.addmm(column, texts / self.temperature, others.T)
        apart = batch.positives if batch.left_out is None else torch.cat([batch.positives, batch.left_out], dim=1)
        against = logits.scatter(1, _columns(labels, apart), _NEVER).logsumexp(1, keepdim=True)
        there = (drawn != NO_LABEL) & self.has_text[drawn.clamp(min=0)]
        losses = functional.softplus(against - logits.gather(1, _columns(labels, drawn))) * there
        of_texts = losses.sum(1) / self.positives
        loss: Tensor = (of_texts if batch.weights is None else of_texts * batch.weights).mean()
        return loss

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch dim"]:
        assert isinstance(inputs, Tokens)
        vectors: Tensor = self.encoder(Tokens(inputs.ids, self.dropout(inputs.weights)))
        return vectors[None]

    def _encode_both(
        self, texts: Tokens, others: Tokens, progress: Float[Tensor, ""]
    ) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "n dim"]]:
        if not isinstance(self.encoder, SpellingEncoder):
            (first,), (second,) = self.encode(texts, progress), self.encode(others, progress)
            return first, second
        # The n-grams of words are the same for both, and take most of the time.
        wide = max(texts.ids.shape[1], others.ids.shape[1])
        ids, weights = zip(*((_widened(part, wide) for part in tokens) for tokens in (texts, others)), strict=True)
        (both,) = self.encode(Tokens(torch.cat(ids), torch.cat(weights)), progress)
        return both[: len(texts.ids)], both[len(texts.ids) :]

    def _draw(self, labels: Int[Tensor, "batch n"], count: int) -> Int[Tensor, "batch count"]:
        """Draw labels of each row; NO_LABEL where a row has none."""
        have = (labels != NO_LABEL).sum(1, keepdim=True)
        place = (torch.rand(len(labels), count, device=labels.device) * have).long()
        return labels.gather(1, place.clamp(max=labels.shape[1] - 1))

    def _texts_of(self, labels: Int[Tensor, "n"]) -> Tokens:
        return Tokens(self.label_ids[labels], self.label_weights[labels])


def _widened(rows: Tensor, wide: int) -> Tensor:
    """Return rows with columns of 0 at their end, which is PAD and a weight of 0."""
    return functional.pad(rows, (0, wide - rows.shape[1]))


def _columns(labels: Int[Tensor, "n"], lists: Int[Tensor, "batch p"]) -> Int[Tensor, "batch p"]:
    """Return the first place of each label of the lists among the sorted labels; n where it is not there."""
    place = torch.searchsorted(labels, lists.contiguous())
    found = (labels[place.clamp(max=len(labels) - 1)] == lists) & (lists != NO_LABEL)
    return torch.where(found, place, len(labels))
