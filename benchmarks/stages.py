"""Where time and memory of trainings go, stage by stage, as their model folders tell.

    laconic train debian-related --out build/debian
    python -m benchmarks.stages build/debian --on "H200, 16 cores"

The figures go to benchmarks/results/stages.json beside those of other folders; `python -m benchmarks.pages` draws them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.common import save_beside
from laconic.errors import ModelError
from laconic.storage.model_folder import read_facts
from laconic.system.files import bytes_in


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.stages", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("models", type=Path, nargs="+", help="model folders, trained without a stop and packed")
    parser.add_argument("--on", required=True, help="the machine that trained them, in a few words")
    given = parser.parse_args()
    for folder in given.models:
        found = stages_of(folder)
        save_beside("stages", found["data"], {**found, "on": given.on})


def stages_of(folder: Path) -> dict[str, Any]:
    """Return the stages of a training, with packing as the last one, and the sizes of its folders."""
    facts, packed = read_facts(folder), folder / "packed"
    if "stages" not in facts:
        raise ModelError(f"{folder}: the training was stopped and resumed, so its stages are not known; train it anew")
    about = json.loads((packed / "packed.json").read_text(encoding="utf-8")) if packed.exists() else {}
    stages = [dict(stage) for stage in facts["stages"]]
    if "packing_seconds" in about:
        stages.append({"stage": "packing", "seconds": about["packing_seconds"], "memory": 0})
    return {
        "data": facts["data"]["name"],
        "method": facts["method"],
        "sizes": facts["sizes"],
        "stages": stages,
        "model_bytes": bytes_in(folder),
        "packed_bytes": bytes_in(packed) if packed.exists() else 0,
    }


if __name__ == "__main__":
    main()
