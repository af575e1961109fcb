"""The classifiers by name."""

from laconic.classifiers.base import Classifier
from laconic.classifiers.linear import LinearClassifier

CLASSIFIERS = {"linear": LinearClassifier}

__all__ = ["CLASSIFIERS", "Classifier", "LinearClassifier"]
