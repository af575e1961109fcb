"""The process of a trial whose model never answers."""

from __future__ import annotations

import json
import sys
from threading import Event

from laconic.serve import trial


def never(*arguments: object, **options: object) -> None:
    """Wait without end."""
    Event().wait()


if __name__ == "__main__":
    trial.opened = never  # type: ignore[assignment]  # in place of what opens a model
    trial.main(json.loads(sys.argv[1]))
