"""The result of training a method."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from laconic.methods.config import MethodConfig
from laconic.models.rankers import Ranker


class Trained(NamedTuple):
    """A trained ranker with its settings and facts."""

    ranker: Ranker
    """The trained ranker."""
    config: MethodConfig
    """The settings, with every value that the data decided."""
    facts: Mapping[str, Any] = MappingProxyType({})
    """What goes into model.json, such as the history of the run."""
    calibration_ranker: Ranker | None = None
    """A ranker that has not seen the held-out texts, to calibrate with. None: `ranker` has not seen them either."""
