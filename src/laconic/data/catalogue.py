"""What is known of public datasets by their names, and the one that comes with the package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from laconic.errors import ConfigError

BUNDLED = {"debian-related": Path(__file__).with_name("bundled") / "debian-related"}


@dataclass(frozen=True, kw_only=True)
class Propensity:
    """The two constants of Jain et al. (2016), by family of datasets; the defaults are those of any other dataset."""

    a: float = 0.55
    b: float = 1.5

    def __post_init__(self) -> None:
        if not (isfinite(self.a) and self.a >= 0):
            raise ConfigError(f"propensity constant a must be 0 or more, but is {self.a}")
        if not (isfinite(self.b) and self.b > 0):
            raise ConfigError(f"propensity constant b must be more than 0, but is {self.b}")


def propensity_of(name: str) -> Propensity:
    """The constants of a dataset's family, by the name of its folder or file; any other dataset has the usual ones."""
    folded = re.sub(r"[^a-z0-9]", "", name.lower())
    if "amazon" in folded:
        return Propensity(a=0.6, b=2.6)
    if re.search(r"wiki(pedia|titles)", folded):  # WikiSeeAlsoTitles is not one of them
        return Propensity(a=0.5, b=0.4)
    return Propensity()
