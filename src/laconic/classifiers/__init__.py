"""The classifiers by name."""

from laconic.classifiers.base import Classifier
from laconic.classifiers.hashed import HashedClassifier
from laconic.classifiers.label_text import LabelText
from laconic.classifiers.linear import LinearClassifier

CLASSIFIERS: dict[str, type[Classifier]] = {
    "linear": LinearClassifier,
    "hashed": HashedClassifier,
    "label text": LabelText,
}

__all__ = ["CLASSIFIERS", "Classifier", "HashedClassifier", "LabelText", "LinearClassifier"]
