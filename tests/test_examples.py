"""Every example runs, and says something."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.variants import some_slow

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"), key=lambda path: (path.name != "quickstart.py", path.name))


def test_there_are_examples():
    assert "quickstart.py" in [path.name for path in EXAMPLES]


@pytest.mark.parametrize("path", some_slow(EXAMPLES), ids=lambda path: path.name)
def test_an_example_runs(path, tmp_path):
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"
