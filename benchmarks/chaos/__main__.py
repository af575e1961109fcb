"""What the service must survive, measured on this machine: all of it, or the experiments that are named.

    python -m benchmarks.chaos --model build/debian-laptop
    python -m benchmarks.chaos load slow --model MODEL --seconds 30

The service has one core, those who ask have another.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.chaos.claims import broken, table
from benchmarks.chaos.equal import equal
from benchmarks.chaos.hostile import hostile
from benchmarks.chaos.load import load, proxied, shown
from benchmarks.chaos.slow import slow
from benchmarks.chaos.soak import soak
from benchmarks.chaos.stop import stop
from benchmarks.chaos.swap import swap
from benchmarks.chaos.trial import Sizes, Trial
from benchmarks.common import data_folder, save_beside
from laconic.data.sources import read
from laconic.packed.folder import is_packed

NAME = "chaos"
EXPERIMENTS: dict[str, Callable[[Trial], dict[str, Any]]] = {
    "load": load,
    "proxied": proxied,
    "hostile": hostile,
    "slow": slow,
    "stop": stop,
    "swap": swap,
    "equal": equal,
    "soak": soak,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="EXPERIMENT", help=f"by default all: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--model", type=Path, required=True, help="a packed model, or a model folder that has one")
    parser.add_argument("--data", default="debian-related", help="whose test texts are asked")
    for field in fields(Sizes):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    options = parser.parse_args()
    if unknown := set(options.names) - EXPERIMENTS.keys():
        parser.error(f"there is no {sorted(unknown)[0]!r}; there are {', '.join(EXPERIMENTS)}")
    found = _found(
        options.names or [name for name in EXPERIMENTS if name != "proxied" or which("haproxy")],
        _packed(options.model),
        options,
    )
    print(table(found))
    sys.exit(1 if broken(found) else 0)


def _found(names: list[str], model: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    sizes = Sizes(**{field.name: getattr(options, field.name) for field in fields(Sizes)})
    texts = list(read(str(data_folder(options.data) or options.data)).split("test").texts or ())
    found = {}
    for name in names:
        print(f"== {name}", flush=True)
        with TemporaryDirectory(prefix="laconic-chaos-") as scratch:
            found[name] = EXPERIMENTS[name](Trial(model=model, texts=texts, sizes=sizes, folder=Path(scratch)))
        save_beside(NAME, name, found[name])
        if name in ("load", "proxied"):
            print(shown(found[name]))
    return found


def _packed(folder: Path) -> Path:
    for one in (folder, folder / "packed"):
        if one.is_dir() and is_packed(one):
            return one
    sys.exit(f"{folder}: there is no packed model; `laconic train debian-related --preset laptop --out {folder}`")


if __name__ == "__main__":
    main()
