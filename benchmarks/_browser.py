"""A served model, and a browser of the system's to look at it: for the page's tests and its pictures.

python -m benchmarks._browser says which browser would be taken.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from urllib.error import URLError
from urllib.request import urlopen

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60  # seconds for a server to come up: its first start may compile


def chromium() -> str:
    """Where it is. The variable CHROMIUM names one that is somewhere else."""
    named = os.environ.get("CHROMIUM", "")
    found = next(filter(None, map(shutil.which, [named] if named else NAMES)), None)
    if found is None:
        missing = f"CHROMIUM is {named}, which cannot be run" if named else "there is no Chromium here"
        sys.exit(f"{missing}: install Debian's package chromium, or name a browser, CHROMIUM=/path/to/chrome")
    return found


@contextmanager
def served(model: Path, *options: str, port: int | None = None) -> Iterator[str]:
    """The address at which `laconic serve` answers for as long as this lasts."""
    port = port or free_port()
    command = [sys.executable, "-m", "laconic", "serve", str(model), "--port", str(port), "--drain", "0", *options]
    with TemporaryFile("w+") as told, subprocess.Popen(command, stdout=told, stderr=told) as server:
        try:
            _wait(server, port)
            yield f"http://127.0.0.1:{port}"
        except _NotServingError:
            told.seek(0)
            sys.exit(f"laconic serve {model} does not answer:\n{told.read()}")
        finally:
            server.send_signal(signal.SIGTERM)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class _NotServingError(Exception):
    pass


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < until:
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz"):
                return
        except URLError:
            time.sleep(0.1)
    raise _NotServingError


if __name__ == "__main__":
    print(chromium())
