"""Weights of labels in training: what `class_weight` means where a text has several labels.

A weight multiplies the part of the loss, or the votes, that true pairs of a text and the label have. Pairs that are not
true keep the weight 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from laconic.errors import ConfigError

BALANCED = "balanced"
ClassWeight: TypeAlias = str | Mapping[str, float] | None


def label_weights(
    wanted: ClassWeight, names: Sequence[str], counts: Int[np.ndarray, "labels"]
) -> Float[np.ndarray, "labels"] | None:
    """Return the weight of each label; None: all weigh the same.

    `counts` are the labels' training texts. "balanced" gives all labels that have texts the same weight in sum: where a
    text has one label, it is what scikit-learn's `compute_class_weight` returns.
    """
    if wanted is None:
        return None
    if isinstance(wanted, Mapping):
        return _named_weights(wanted, names)
    if wanted != BALANCED:
        raise ConfigError(f"class_weight must be None, {BALANCED!r} or a dict of label names, but is {wanted!r:.80}")
    used = counts > 0
    return np.where(used, counts.sum() / (max(1, used.sum()) * np.maximum(counts, 1)), 1.0).astype(np.float32)


def _named_weights(wanted: Mapping[Any, Any], names: Sequence[str]) -> Float[np.ndarray, "labels"]:
    """Return the weights of a dict; labels that it does not name have the weight 1."""
    weights, number = np.ones(len(names), dtype=np.float32), {name: at for at, name in enumerate(names)}
    for given, weight in wanted.items():
        name = str(given)  # 7 is the label "7"
        if name not in number:
            near = get_close_matches(name, names, 1) if len(name) < 100 else []
            meant = f"; did you mean {near[0]!r}?" if near else "; name labels of the training texts"
            raise ConfigError(f"class_weight has a weight for {name!r}, which is no label{meant}")
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not 0 < weight < np.inf:
            raise ConfigError(f"class_weight[{name!r}] must be a number above 0, but is {weight!r}")
        weights[number[name]] = weight
    return weights
