"""The methods by name: the only registry of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.errors import ConfigError
from laconic.methods import nearest
from laconic.rankers import Ranker


@dataclass(frozen=True)
class Method:
    """What a file of methods/ offers."""

    config: type[Any]
    train: Callable[[Dataset, Any], Ranker]
    restore: Callable[[Any, Mapping[str, Tensor]], Ranker]


METHODS = {
    "nearest": Method(nearest.Config, nearest.train, nearest.restore),
}


def method_named(name: str) -> Method:
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}; known are: {', '.join(METHODS)}")
    return METHODS[name]
