"""Classifiers: one row of weights per label, from free parameters, hash buckets or label texts."""

from laconic.models.classifiers.base import Classifier
from laconic.models.classifiers.label_text import LabelText
from laconic.models.classifiers.linear import HashedClassifier, LinearClassifier

CLASSIFIERS: dict[str, type[Classifier]] = {
    "linear": LinearClassifier,
    "hashed": HashedClassifier,
    "label text": LabelText,
}

__all__ = ["CLASSIFIERS", "Classifier", "HashedClassifier", "LabelText", "LinearClassifier"]
