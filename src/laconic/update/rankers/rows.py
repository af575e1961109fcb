"""Make classifier rows for new labels from their own texts, without training.

A new label's row is the direction of its own text plus a mean of the rows of the nearest known labels: labels with
similar texts belong to similar texts. Its bias decides how often it is predicted; docs/methods.md describes it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from laconic.models.classifiers import LinearClassifier
from laconic.update.rankers.additions import Borrowed, Seen

_FIRST = 10  # best labels that count; with few labels, a tenth of them
_ALONE = 0.01  # the most that one new label may have of the positions of all new labels
_SAMPLE = 4096  # texts to estimate scores with
_SCORES = 1 << 26  # scores held at a time


@torch.no_grad()
def with_new_rows(
    classifier: LinearClassifier, labels: Seen, near: Borrowed, *, places: float = 0.8
) -> LinearClassifier:
    """Return the classifier with a row for each new label; `near` has labels in its own numbers.

    All new labels together get `places` of the first ten positions of a text, more where they are very many.
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
    fraction = min(max(places / len(rows), first / (classifier.num_labels + len(rows))), places * _ALONE)
    biases = _biases(rows, texts, best[:, first - 1], fraction)
    # A label is always among the first of its own text.
    biases = biases.maximum(_best_scores(classifier, own)[:, first - 1] - (rows * own).sum(1))
    if classifier.bias is None:  # a component along the mean text acts as the bias
        rows = rows + biases[:, None] * middle / middle.square().sum().clamp(min=1e-6)
        return with_rows(classifier, torch.cat([classifier.weight, rows]), None)
    return with_rows(classifier, torch.cat([classifier.weight, rows]), torch.cat([classifier.bias, biases]))


def with_rows(
    classifier: LinearClassifier, rows: Float[Tensor, "labels dim"], biases: Float[Tensor, "labels"] | None
) -> LinearClassifier:
    """Return a classifier with these rows and the transform of another."""
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
    """Return rows whose scores rise by this much from the mean text to the label's own."""
    return directions * (rise / directions.square().sum(1, keepdim=True).clamp(min=1e-6))


def _biases(
    rows: Float[Tensor, "new dim"], texts: Float[Tensor, "texts dim"], last: Float[Tensor, "texts"], fraction: float
) -> Float[Tensor, "new"]:
    """Return biases that put every label among the first of that fraction of texts; `last` has the scores needed."""
    place = min(round(fraction * len(texts)) + 1, len(texts))
    parts = torch.split(rows, max(1, _SCORES // len(texts)))
    return torch.cat([(last[:, None] - texts @ part.T).kthvalue(place, dim=0).values for part in parts])
