"""The estimator `Laconic`: fit, predict, score, save and load, with scikit-learn's conventions.

It takes and returns lists of texts and of label names; nothing is written until `save`.

    model = Laconic("inceptionxml", epochs=20).fit(texts, labels)
    GridSearchCV(model, {"learning_rate": [0.002, 0.005]}, scoring=scorer("nDCG@5")).fit(texts, labels)
"""

from laconic.estimator.laconic import Laconic
from laconic.estimator.metric import scorer

__all__ = ["Laconic", "scorer"]
