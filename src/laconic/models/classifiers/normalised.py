"""Batch-normalise vectors before the rows of a classifier while it is trained, and fold that into rows and biases.

Vectors after a ReLU have a direction in common. Where every label is rare, what a step teaches a row is for the most
part along it, for or against all texts alike, and the loss falls fastest if the encoder shrinks its vectors: its last
ReLUs die within a hundred steps, and with them all gradients. Vectors that are centred and of fixed spread cannot be
shrunk. A trained model has no such layer: `fold` leaves rows for the vectors as the encoder makes them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from laconic.models.classifiers.linear import LinearClassifier

_CONSTANT = 1e-8  # variance; a number that varies less is the same for all texts, as that of a dead ReLU


@torch.no_grad()
def normalise(classifier: LinearClassifier, vectors: Float[Tensor, "n dim"]) -> None:
    """Put a batch normalisation before the rows, with the statistics of these vectors; no score changes by it."""
    assert isinstance(classifier.transform, nn.Identity)
    assert classifier.bias is not None
    norm = nn.BatchNorm1d(vectors.shape[1], affine=False, device=vectors.device)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean.copy_(vectors.mean(0))
    norm.running_var.copy_(vectors.var(0, correction=0))
    classifier.bias.add_(classifier.weight @ norm.running_mean)
    classifier.weight.mul_((norm.running_var + norm.eps).sqrt())
    classifier.transform = norm


@torch.no_grad()
def fold(classifier: LinearClassifier) -> None:
    """Take the batch normalisation away; rows and biases give the scores that they gave with it.

    Numbers that no text varies in lose their weights: divided by a spread of nearly 0, those would be huge.
    """
    norm = classifier.transform
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert classifier.bias is not None
    gain = (norm.running_var + norm.eps).rsqrt().where(norm.running_var > _CONSTANT, 0)
    classifier.weight.mul_(gain)
    classifier.bias.sub_(classifier.weight @ norm.running_mean)
    classifier.transform = nn.Identity()
