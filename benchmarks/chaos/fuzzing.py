"""schemathesis over the service's own description: requests made up from it, answers held against it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.chaos.connections import HOST

_LONGEST = 10  # seconds for an answer
# A service that is too busy may say so. That a question is answered cannot be told from the description alone: it may
# hold names that no label has.
_CONFIG = """
[checks]
positive_data_acceptance.enabled = false
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503]
"""


class Fuzzed(NamedTuple):
    cases: int
    failures: list[str]  # kinds of them, with how often
    said: str


def fuzzed(port: int, token: str, examples: int, folder: Path) -> Fuzzed:
    """So many requests for every path; what schemathesis leaves behind is in the folder."""
    (folder / "schemathesis.toml").write_text(_CONFIG)
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"http://{HOST}:{port}/openapi.json"]
    options = [
        "--max-examples",
        str(examples),
        "--request-timeout",
        str(_LONGEST),
        "--no-color",
        "--continue-on-failure",
    ]
    header = ["-H", f"Authorization: Bearer {token}"]
    done = subprocess.run([*command, *options, *header], capture_output=True, text=True, cwd=folder)
    said = done.stdout + done.stderr
    cases = re.search(r"(\d+) generated", said)
    failures = re.findall(r"^ +\S+ (.+: \d+)$", said.partition("Failures:\n")[2], re.MULTILINE)
    if done.returncode and not failures:
        failures = [f"it ended with {done.returncode}: {said[-500:]}"]
    return Fuzzed(int(cases[1]) if cases else 0, failures, said)
