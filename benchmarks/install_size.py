"""Size on disk of each installation: environments are made in a temporary folder, installed into and measured.

python -m benchmarks.install_size
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from benchmarks.common import save

ROOT = Path(__file__).parents[1]
INSTALLATIONS = {"laconic-xmc": ".", "laconic-xmc[train]": ".[train]"}
PARTS = ("llvmlite", "numba", "torch", "scipy", "pyarrow")


def main() -> None:
    save("install_size", {"megabytes of site-packages": {name: size(what) for name, what in INSTALLATIONS.items()}})


def size(what: str) -> dict[str, float]:
    """Install into a new environment; return the megabytes of all of it and of its largest parts."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
        before = megabytes(packages := next(Path(folder).glob("lib/python*/site-packages")))
        if "train" in what:  # the pin finds the build for CPUs
            subprocess.run([*pip, next(line for line in lines() if line.startswith("torch=="))], cwd=ROOT, check=True)
        subprocess.run([*pip, what], cwd=ROOT, check=True)
        parts = {name: megabytes(packages / name) for name in PARTS if (packages / name).exists()}
        return {"all": round(megabytes(packages) - before, 1), **{name: round(one, 1) for name, one in parts.items()}}


def lines() -> list[str]:
    return (ROOT / "constraints.txt").read_text().splitlines()


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    sys.exit(main())
