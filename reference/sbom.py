"""Write what an installation consists of: a CycloneDX list of components, or pinned requirements.

python -m reference.sbom > build/sbom.json
python -m reference.sbom --requirements > requirements.txt
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement

OWN = "laconic-xmc"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", action="append", default=[], help="an extra whose packages belong to it, too")
    parser.add_argument("--requirements", action="store_true", help="pinned requirements instead of CycloneDX's JSON")
    options = parser.parse_args()
    found = components(OWN, frozenset(options.extra))
    sys.stdout.write(requirements(found) if options.requirements else json.dumps(bill(found), indent=2) + "\n")


def components(name: str, extras: frozenset[str] = frozenset()) -> dict[str, Distribution]:
    """Return a distribution and all that it needs, by name; what is not installed here is not needed here."""
    found: dict[str, Distribution] = {}
    waiting = [(name, extras)]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        key = (canonical(name), extras)
        if key in seen:
            continue
        seen.add(key)
        try:
            found[key[0]] = distribution(name)
        except PackageNotFoundError:
            continue
        waiting += needs(found[key[0]], extras)
    return dict(sorted(found.items()))


def needs(of: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for text in of.requires or ():
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield one.name, frozenset(one.extras)


def requirements(found: dict[str, Distribution]) -> str:
    return "".join(f"{name}=={one.version}\n" for name, one in found.items() if name != OWN)


def bill(found: dict[str, Distribution]) -> dict[str, Any]:
    """Return the components as CycloneDX 1.5 has them."""
    own = found[OWN]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", **described(OWN, own)}},
        "components": [{"type": "library", **described(name, one)} for name, one in found.items() if name != OWN],
    }


def described(name: str, one: Distribution) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{one.version}"
    licence = one.metadata.get("License-Expression")
    about = {"bom-ref": purl, "name": name, "version": one.version, "purl": purl}
    return about | ({"licenses": [{"expression": licence}]} if licence else {})


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
