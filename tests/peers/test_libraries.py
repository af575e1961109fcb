"""Which peers are asked, and what a user is told who asks for others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from laconic.analysis.peers.libraries import LIBRARIES, chosen, is_installed, peer_at
from laconic.errors import ConfigError

THERE, NOT_THERE = "tests.peers.toy:TOY", "tests.peers.toy:ABSENT"
TOYS = {"toy": [THERE, "tests.peers.toy:KILLED"], "absent": [NOT_THERE]}


def test_all_are_those_that_are_installed() -> None:
    assert chosen(["all"], TOYS) == TOYS["toy"]
    assert chosen(["toy", "toy"], TOYS) == TOYS["toy"]


def test_one_that_is_named_must_be_known_and_installed() -> None:
    with pytest.raises(ConfigError, match="no peer 'tay'; known are: toy, absent, all"):
        chosen(["tay"], TOYS)
    for names in (["absent"], ["all", "absent"]):
        with pytest.raises(ConfigError, match="absent is not installed here; `pip install absent` installs it"):
            chosen(names, TOYS)
    with pytest.raises(ConfigError, match="none of absent is installed here: `pip install absent`"):
        chosen(["all"], {"absent": [NOT_THERE]})


def test_a_folder_that_happens_to_have_the_name_is_no_library(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "surely_not_installed").mkdir()
    assert not is_installed(peer_at(NOT_THERE))


def test_no_library_and_no_torch_is_imported_to_look_at_any() -> None:
    places = [place for places in LIBRARIES.values() for place in places]
    modules = {peer_at(place).module for place in places} | {"torch"}
    lines = (
        "import sys, laconic.analysis.peers.process as process",
        f"[(process.peer_at(place).how, process.peer_at(place).name) for place in {places}]",
        f"sys.exit(bool({modules} & sys.modules.keys()))",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)
