"""Tries a changed model in a process of its own: opens it, verifies every byte, and asks it once.

A model that never answers, or that takes more memory than there is, ends that process and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from laconic.errors import ModelError, UserError
from laconic.predict.load import Speed
from laconic.serve.version import opened

# Returns the version of a model that passes, and raises for one that does not; ends when the function returns true.
Trial: TypeAlias = Callable[[Path, Speed, Callable[[], bool]], str]
_MODULE = "laconic.serve.trial"  # what the process runs
_OFTEN = 0.2  # seconds between looks at whether the trial is still wanted


class GivenUp(Exception):  # noqa: N818 - nothing went wrong
    """The trial was ended before it had a result."""


def try_in_own_process(model: Path, speed: Speed, unwanted: Callable[[], bool], *, seconds: float = 300) -> str:
    """Return the version of a model that passes within this time."""
    asked = json.dumps({"model": str(model), "speed": asdict(speed), "seconds": seconds})
    command = [sys.executable, "-P", "-m", _MODULE, asked]
    places = os.pathsep.join(filter(None, sys.path))  # modules are found where this process finds them
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": places}
    ) as process:
        try:
            said, complaint = _said(process, unwanted)
        finally:
            process.kill()
    if process.returncode:
        raise ModelError(f"{model}: {_why(process.returncode, complaint, seconds)}")
    result = json.loads(said)
    if "error" in result:
        raise ModelError(result["error"])
    return str(result["version"])


def _said(process: subprocess.Popen[bytes], unwanted: Callable[[], bool]) -> tuple[bytes, bytes]:
    while not unwanted():
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=_OFTEN)
    raise GivenUp


def _why(code: int, complaint: bytes, seconds: float) -> str:
    if code == -signal.SIGALRM:
        return f"it did not open and answer a text within {seconds:g} seconds"
    if code < 0:
        return f"the process that tried it was ended by signal {-code} ({signal.strsignal(-code)})"
    last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
    return f"the process that tried it ended with exit code {code} ({last})"


def main(asked: dict[str, Any]) -> dict[str, str]:
    """Try a model; a signal ends this process if that takes too long."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
    with suppress(OSError):  # where memory runs out, Linux ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        version = opened(Path(asked["model"]), Speed(**asked["speed"]), verify=True)
    except (UserError, OSError) as error:
        return {"error": str(error)}
    return {"version": version.name}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))))
