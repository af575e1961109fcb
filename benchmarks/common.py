"""What several benchmarks need: where data lies, and where figures go."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy

from laconic.data.catalogue import BUNDLED

# Data larger than the bundled one: in the folder LACONIC_DATA, or in shared/data beside the checkout.
DATA = Path(os.environ.get("LACONIC_DATA", Path(__file__).parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parent / "results"


def data_folder(name: str) -> Path | None:
    """Where a dataset lies; None where it does not."""
    if name in BUNDLED:
        return BUNDLED[name]
    return DATA / name if (DATA / name).exists() else None


def machine() -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {numpy.__version__}"
    )


def save(name: str, figures: dict[str, Any]) -> None:
    """Prints the figures and writes them to results/NAME.json with the command that makes them."""
    path = Path(sys.argv[0])
    module = path.parent.name if path.stem == "__main__" else path.stem
    figures = {
        "command": shlex.join(["python", "-m", f"benchmarks.{module}", *sys.argv[1:]]),
        **figures,
        "machine": machine(),
    }
    text = json.dumps(figures, indent=2)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(text + "\n")
