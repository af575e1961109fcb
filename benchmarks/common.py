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
from laconic.system.files import writing

# Data larger than the bundled one: in the folder LACONIC_DATA, or in shared/data beside the checkout or inside it.
DATA = Path(os.environ.get("LACONIC_DATA", Path(__file__).parents[2] / "shared" / "data"))
INSIDE = Path(__file__).parents[1] / "shared" / "data"
RESULTS = Path(__file__).parent / "results"


def data_folder(name: str) -> Path | None:
    """Where a dataset lies, which may be given by its folder; None where it is not there."""
    if name in BUNDLED:
        return BUNDLED[name]
    return next((path for path in (DATA / name, INSIDE / name, Path(name)) if path.is_dir()), None)


def machine() -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {numpy.__version__}"
    )


def command() -> str:
    """Return the command that is running, as one would type it on any machine: of absolute paths, the last name."""
    path = Path(sys.argv[0])
    module = path.parent.name if path.stem == "__main__" else path.stem
    words = (Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])
    return shlex.join(["python", "-m", f"benchmarks.{module}", *words])


def save(name: str, figures: dict[str, Any], *, folder: Path = RESULTS, quietly: bool = False) -> None:
    """Write figures to FOLDER/NAME.json with the command that makes them, and print them unless `quietly`."""
    figures = {
        "command": command(),
        **figures,
        "machine": machine(),
    }
    text = json.dumps(figures, indent=2, ensure_ascii=False)
    if not quietly:
        print(text)
    folder.mkdir(parents=True, exist_ok=True)
    with writing(folder / f"{name}.json") as file:
        file.write(f"{text}\n".encode())


def save_beside(name: str, part: str, figures: dict[str, Any]) -> None:
    """Save the figures of one part of a benchmark, and keep those that other runs have found of its other parts."""
    path = RESULTS / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    save(name, {**{key: value for key, value in known.items() if key not in ("command", "machine")}, part: figures})
