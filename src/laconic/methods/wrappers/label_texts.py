"""Extra texts: train any method on the labels' own texts too. Prediction does not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from laconic.data.dataset import Dataset
from laconic.data.label_texts import with_label_texts
from laconic.errors import ConfigError
from laconic.methods.config import MethodConfig
from laconic.methods.result import Trained
from laconic.training.run import Run


def train_over(
    train_base: Callable[[Dataset, Any, Run], Trained], data: Dataset, config: MethodConfig, run: Run
) -> Trained:
    """Train with label texts added to the training texts, after the method has cut off its validation split."""
    extra = config.extra_texts
    assert extra is not None
    if extra.share and config.batch_size == 1:
        raise ConfigError("batch_size must be at least 2 for extra_texts.share to be a fraction of it, but is 1")
    return train_base(replace(data, extend=partial(with_label_texts, extra)), config, run)
