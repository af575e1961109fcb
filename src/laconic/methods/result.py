"""What a method gives back when it has learnt."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from laconic.models.rankers import Ranker


class Trained(NamedTuple):
    ranker: Ranker
    config: Any  # with every size that the data decided
    facts: Mapping[str, Any] = MappingProxyType({})  # for model.json: the history of the run and the like
    # The same ranker as long as it had not seen the texts that were held out; None: it has not seen them now either.
    unaware: Ranker | None = None
