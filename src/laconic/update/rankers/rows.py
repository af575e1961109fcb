"""Rows for labels that no training has seen, from what they say of themselves.

A new label's row is the direction of its own text and what the rows of the nearest known labels say: labels with like
texts go with like texts. Its bias decides how often it is answered; docs/labels.md has what was tried.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from laconic.models.classifiers import LinearClassifier
from laconic.update.rankers.additions import Borrowed, Seen

_FIRST = 10  # places of an answer that count; of few labels, a tenth of them
_ALONE = 0.01  # of what all new labels may have of these places, the most that one may
_SAMPLE = 4096  # texts by which scores are known
_SCORES = 1 << 26  # that are held at a time


@torch.no_grad()
def with_new_rows(
    classifier: LinearClassifier, labels: Seen, near: Borrowed, *, places: float = 0.8
) -> LinearClassifier:
    """The classifier with a row more for each new label; `near` is in its own numbers.

    All new labels together have so many of the first ten places of a text, more where their number makes that unfair.
    """
    if not len(labels.new):
        return classifier
    texts = labels.known[labels.known.any(1)]
    texts = classifier.transform(texts[:: -(-len(texts) // _SAMPLE)] if len(texts) else labels.new)
    best = _best_scores(classifier, texts)
    middle, own = texts.mean(0), classifier.transform(labels.new)
    rise = float((best[:, 0] - best[:, -1]).median())
    rows = _along(own - middle, rise) + near.mean(classifier.weight)
    first = min(max(classifier.num_labels // 10, 1), _FIRST)
    share = min(max(places / len(rows), first / (classifier.num_labels + len(rows))), places * _ALONE)
    biases = _biases(rows, texts, best[:, first - 1], share)
    # Whatever other texts do, a label is among the first of its own.
    biases = biases.maximum(_best_scores(classifier, own)[:, first - 1] - (rows * own).sum(1))
    if classifier.bias is None:  # what all texts have in common takes its part
        rows = rows + biases[:, None] * middle / middle.square().sum().clamp(min=1e-6)
        return with_rows(classifier, torch.cat([classifier.weight, rows]), None)
    return with_rows(classifier, torch.cat([classifier.weight, rows]), torch.cat([classifier.bias, biases]))


def with_rows(
    classifier: LinearClassifier, rows: Float[Tensor, "labels dim"], biases: Float[Tensor, "labels"] | None
) -> LinearClassifier:
    """The same transform before other rows."""
    with torch.device("meta"):  # its own start would be thrown away
        other = LinearClassifier(rows.shape[1], len(rows), transform=classifier.transform, bias=biases is not None)
    other.weight = nn.Parameter(rows.detach())
    other.bias = None if biases is None else nn.Parameter(biases.detach())
    return other.train(classifier.training)


def _best_scores(classifier: LinearClassifier, texts: Float[Tensor, "texts dim"]) -> Float[Tensor, "texts k"]:
    every, places = slice(0, classifier.num_labels), min(_FIRST, classifier.num_labels)
    parts = torch.split(texts, max(1, _SCORES // classifier.num_labels))
    return torch.cat([classifier.score_range(part, every).topk(places).values for part in parts])


def _along(directions: Float[Tensor, "new dim"], rise: float) -> Float[Tensor, "new dim"]:
    """Rows that rise so much from the mean text to the label's own."""
    return directions * (rise / directions.square().sum(1, keepdim=True).clamp(min=1e-6))


def _biases(
    rows: Float[Tensor, "new dim"], texts: Float[Tensor, "texts dim"], last: Float[Tensor, "texts"], share: float
) -> Float[Tensor, "new"]:
    """Such that every label is among the first of that share of texts; `last` is what it takes for each."""
    place = min(round(share * len(texts)) + 1, len(texts))
    parts = torch.split(rows, max(1, _SCORES // len(texts)))
    return torch.cat([(last[:, None] - texts @ part.T).kthvalue(place, dim=0).values for part in parts])
