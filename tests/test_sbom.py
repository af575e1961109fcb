"""What an installation consists of: the list of a release, and the versions of the image."""

from __future__ import annotations

import re
from importlib.metadata import requires, version
from pathlib import Path

from reference.sbom import OWN, bill, canonical, components

ROOT = Path(__file__).parents[1]


def test_the_list_has_all_that_is_needed_without_extras_and_nothing_of_extras() -> None:
    listed = {one["name"]: one for one in bill(components(OWN))["components"]}
    needed = [re.split(r"[<>=!~ ;\[]", one)[0] for one in requires(OWN) or () if "extra" not in one]
    assert needed
    assert {canonical(name) for name in needed} <= listed.keys()
    assert "llvmlite" in listed, "which numba needs"
    assert "torch" not in listed
    assert listed["numpy"]["purl"] == f"pkg:pypi/numpy@{version('numpy')}"


def test_the_image_installs_a_version_of_every_dependency() -> None:
    pinned = re.findall(r"^([a-z0-9-]+)==", (ROOT / "deploy" / "requirements.txt").read_text(), re.MULTILINE)
    assert {*components(OWN)} - {OWN} <= {*pinned}
    assert "deploy/requirements.txt" in (ROOT / "Dockerfile").read_text()
