"""Run the campaign, or the parts of it that are named.

python -m benchmarks.campaign
python -m benchmarks.campaign folders --folders 500 --methods nearest trees
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", MKL_NUM_THREADS="1")  # pools do not outlive forks

from benchmarks.campaign.folders import folders
from benchmarks.campaign.hostile_files import files
from benchmarks.campaign.kills import kills
from benchmarks.chaos.claims import broken, table
from benchmarks.common import save_beside
from benchmarks.fingerprints import VARIANTS

PARTS = ("kills", "folders", "files")
MEMORY = Path("/dev/shm")  # a file system in memory: what is measured is not the disk


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"by default all: {', '.join(PARTS)}")
    parser.add_argument("--methods", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--folders", type=int, default=5000)
    parser.add_argument("--files", type=int, default=2000)
    options = parser.parse_args()
    if unknown := set(options.parts) - {*PARTS}:
        parser.error(f"there is no {sorted(unknown)[0]!r}; there are {', '.join(PARTS)}")
    found = {}
    for part in options.parts or PARTS:
        print(f"== {part}", flush=True)
        with TemporaryDirectory(prefix="laconic-campaign-", dir=MEMORY if MEMORY.is_dir() else None) as scratch:
            found[part] = _found(part, Path(scratch), options)
        save_beside("campaign", part, found[part])
    print(table(found))
    sys.exit(1 if broken(found) else 0)


def _found(part: str, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    if part == "kills":
        return kills(scratch, options.kills, options.methods)
    if part == "folders":
        return folders(scratch, options.folders, options.methods)
    return files(scratch, options.files)


if __name__ == "__main__":
    main()
