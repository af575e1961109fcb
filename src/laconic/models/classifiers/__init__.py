"""Classifiers: one row of weights per label, from free parameters, hash buckets or label texts."""

from torch import nn

from laconic.data.shards import Shard
from laconic.models.classifiers.base import Classifier
from laconic.models.classifiers.label_text import LabelText
from laconic.models.classifiers.linear import HashedClassifier, LinearClassifier
from laconic.models.classifiers.normalised import fold, normalise

CLASSIFIERS: dict[str, type[Classifier]] = {
    "linear": LinearClassifier,
    "hashed": HashedClassifier,
    "label text": LabelText,
}

__all__ = [
    "CLASSIFIERS",
    "Classifier",
    "HashedClassifier",
    "LabelText",
    "LinearClassifier",
    "fold",
    "normalise",
    "shards_of",
]


def shards_of(module: nn.Module) -> dict[str, Shard]:
    """Return the shard of each tensor of a module's state that has rows of labels spread over several processes."""
    found = {}
    for name, part in module.named_modules():
        if isinstance(part, LinearClassifier | LabelText) and part.shard.ranks.world > 1:
            own = [tensor for tensor in ("weight", "refinement", "bias") if getattr(part, tensor, None) is not None]
            found.update({f"{name}.{tensor}".removeprefix("."): part.shard for tensor in own})
    return found
