"""The classifiers by name."""

from laconic.classifiers.base import Classifier
from laconic.classifiers.hashed import HashedClassifier
from laconic.classifiers.linear import LinearClassifier

CLASSIFIERS: dict[str, type[Classifier]] = {"linear": LinearClassifier, "hashed": HashedClassifier}

__all__ = ["CLASSIFIERS", "Classifier", "HashedClassifier", "LinearClassifier"]
