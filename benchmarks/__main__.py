"""Run every benchmark, or those named on the command line, each in a process of its own; then write the pages."""

import subprocess
import sys
from pathlib import Path

LIBRARY = ("common", "figures", "pages", "tables")
NAMES = sorted(
    path.stem
    for path in Path(__file__).parent.glob("*.py")
    if not path.stem.startswith("_") and path.stem not in LIBRARY
)

for name in [*(sys.argv[1:] or NAMES), "pages"]:
    print(f"\n== {name}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
