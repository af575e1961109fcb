"""Extra texts: any method that trains may learn from the labels' own texts too. How it answers stays as it is.

As a part of other methods they are a group of their settings, `extra_texts`, and change nothing else of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

from laconic.data.dataset import Dataset
from laconic.data.label_texts import ExtraTexts, with_label_texts
from laconic.errors import ConfigError
from laconic.methods.common import config_with
from laconic.methods.result import Trained
from laconic.training.run import Run


def config_over(kind: type[Any]) -> type[Any]:
    """The config of a method that learns from labels' texts too: its own, with a group of settings for them."""
    if not {"epochs", "reranker"} & {each.name for each in fields(kind)}:
        raise ConfigError("extra_texts are for methods that train; this one does not, and reads label texts as it is")
    return config_with(kind, "extra_texts", ExtraTexts())


def train_over(train_base: Callable[[Dataset, Any, Run], Trained], data: Dataset, config: Any, run: Run) -> Trained:
    """The texts join what is left to learn from once a validation split is cut off, wherever the method does that."""
    if config.extra_texts.share and getattr(config, "batch_size", 0) == 1:
        raise ConfigError("batch_size must be at least 2 for extra_texts.share to be a share of it, but is 1")
    return train_base(replace(data, extend=partial(with_label_texts, config.extra_texts)), config, run)
