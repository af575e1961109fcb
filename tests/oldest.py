"""Print the lowest version of each dependency that pyproject.toml allows, as constraints for pip: make test-oldest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS = ("train", "track")  # what the package itself imports
ELSEWHERE = ("torch",)  # constraints.txt pins it: older builds for the CPU are on no index


def lowest() -> list[str]:
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *(one for extra in EXTRAS for one in extras[extra])]
    bounds = (re.fullmatch(r"([\w-]+)>=([\w.]+)", one) for one in wanted)
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound and bound[1] not in ELSEWHERE]


if __name__ == "__main__":
    print(*lowest(), sep="\n")  # noqa: T201 - make reads what is printed
