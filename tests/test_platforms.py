"""Which systems are supported is said in one way everywhere, and another system is refused in plain words."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_windows_is_refused_before_anything_is_trained():
    code = "import sys; sys.platform = 'win32'; import laconic"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "laconic does not run on Windows" in run.stderr


def test_no_dependency_pretends_that_windows_is_supported():
    extras = PROJECT["optional-dependencies"].values()
    needed = [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]
    assert not [one for one in needed if "Windows" in one or "win32" in one]
    assert "Operating System :: POSIX :: Linux" in PROJECT["classifiers"]


def test_the_page_of_installing_says_where_it_runs():
    page = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
    told = page.partition("## Where it runs")[2].partition("\n## ")[0]
    assert all(system in told for system in ("Linux", "macOS", "Windows"))
