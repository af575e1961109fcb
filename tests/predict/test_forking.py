"""A process that is forked after torch has started its threads has none of them, and answers all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORKS = """
import os, torch
from laconic.predict.predictor import Predictor  # which makes forks safe

torch.set_num_threads(2)
numbers = torch.ones(1000, 1000)
numbers.exp().sum()  # starts the threads
child = os.fork()
if not child:
    numbers.exp().sum()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely: macOS' own libraries do not allow it")
def test_torch_computes_in_a_forked_process() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "7", done.stderr
