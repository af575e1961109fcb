"""Facts about public datasets by name, and the path of the dataset that comes with the package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from laconic.errors import ConfigError

BUNDLED = {"debian-related": Path(__file__).with_name("bundled") / "debian-related"}


@dataclass(frozen=True, kw_only=True)
class Propensity:
    """Constants A and B of Jain et al. (2016) by family of datasets; the defaults are those of any other dataset."""

    a: float = 0.55
    b: float = 1.5

    def __post_init__(self) -> None:
        if not (isfinite(self.a) and self.a >= 0):
            raise ConfigError(f"propensity constant a must be 0 or more, but is {self.a}")
        if not (isfinite(self.b) and self.b > 0):
            raise ConfigError(f"propensity constant b must be more than 0, but is {self.b}")


# Families of datasets by a part of their names, without case, dashes and underscores.
_FAMILIES = {
    r"amazon": Propensity(a=0.6, b=2.6),
    r"wiki(pedia|titles|lshtc|500k)": Propensity(a=0.5, b=0.4),
    r"wikiseealso|wiki10|eurlex|delicious|rcv1|mediamill|bibtex|debianrelated": Propensity(),
}
_PARTS = {"train", "trn", "test", "tst", "valid", "validation", "dev"}  # a file of such a name is known by its folder


def propensity_of(source: str) -> Propensity:
    """Return the constants for data at that path, by its name; those of most datasets where the name is not known."""
    return known_propensity(source) or Propensity()


def known_propensity(source: str) -> Propensity | None:
    """Return the constants of the dataset that has the name of this folder or file; None: the name is not known."""
    path = Path(source)
    names = [path.name, path.resolve().name]  # a link may have any name, and "." has none
    if path.name.partition(".")[0].lower() in _PARTS:
        names.append(path.resolve().parent.name)
    found = (
        constants
        for name in names
        for pattern, constants in _FAMILIES.items()
        if re.search(pattern, re.sub(r"[^a-z0-9]", "", name.lower()))
    )
    return next(found, None)
