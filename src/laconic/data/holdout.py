"""Choose the texts held out of training by a rule on their hashes, which the model keeps.

The model keeps the rule. Whoever evaluates it on the file later gets the texts that were held out, in whatever order
they are by then and whatever was added. Equal texts are on the same side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt64

from laconic.data.hashes import mixed
from laconic.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Holdout:
    """Hold out the texts whose hashes, mixed with the seed, are below a bound."""

    fraction: float
    seed: int
    below: int
    group: str = ""  # the column of the groups that were held out whole; empty: each text by itself

    @classmethod
    def of(cls, hashes: UInt64[np.ndarray, "texts"], fraction: float, seed: int = 0, group: str = "") -> Holdout | None:
        """Hold out about this fraction of texts, at least one; None where no text would be left on either side."""
        if not 0 < fraction < 1:
            raise ConfigError(f"the fraction of texts to hold out must be above 0 and below 1, but is {fraction}")
        order = np.sort(mixed(hashes, seed))
        above = order[order > order[:1]]  # there may be many equal texts
        if not len(above):
            return None
        bound = max(order[min(max(round(fraction * len(order)), 1), len(order) - 1)], above[0])
        return cls(fraction=fraction, seed=seed, below=int(bound), group=group)

    def held_out(self, hashes: UInt64[np.ndarray, "texts"]) -> Bool[np.ndarray, "texts"]:
        """Return which of the texts with these hashes are held out."""
        return mixed(hashes, self.seed) < np.uint64(self.below)

    def facts(self) -> dict[str, Any]:
        """Return the rule for JSON. The bound is a string: not every reader keeps all digits of 64-bit numbers."""
        own = {"fraction": self.fraction, "seed": self.seed, "below": f"{self.below:016x}"}
        return own | ({"group": self.group} if self.group else {})

    @staticmethod
    def of_facts(facts: Mapping[str, Any]) -> Holdout | None:
        """Read the rule from a model's facts; None where there is none."""
        match facts.get("data"):
            case {"holdout": {"fraction": float(fraction), "seed": int(seed), "below": str(bound), **more}} if (
                seed >= 0
            ):
                try:
                    below = int(bound, 16)
                except ValueError:
                    return None
                group = str(more.get("group", ""))
                return Holdout(fraction=fraction, seed=seed, below=below, group=group) if 0 <= below < 2**64 else None
        return None


def group_in_facts(facts: Mapping[str, Any]) -> str:
    """Return the column of the groups that a model's test texts were held out by; empty where there were none."""
    rule = Holdout.of_facts(facts)
    return "" if rule is None else rule.group
