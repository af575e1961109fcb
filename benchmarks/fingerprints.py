"""Hashes of what every method learns from planted data, to show that a change of the code changes no number.

python -m benchmarks.fingerprints --out before.json         then, with the changed code,
python -m benchmarks.fingerprints --against before.json     exits with 1 where a hash differs

Run both on one machine with one version of each library: a hash says nothing across machines.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_TEXTS, _LABELS = 400, 24
_NARROW: dict[str, Any] = {"epochs": 4, "embedding": 16, "batch_size": 32}
RECIPES: dict[str, dict[str, Any]] = {
    "nearest": {},
    "trees": {"trees": 2, "fan_out": 2, "leaf": 4, "pairs": 1024},
    "inceptionxml": _NARROW,
    "inceptionxml+": {**_NARROW, "clusters": 4, "top": 2},
    "astec": {**_NARROW, "surrogate": {"count": 4}},
    "decaf": {**_NARROW, "clusters": 4, "beam": 2},
    "xml-cnn": {**_NARROW, "length": 4},
    "mach": {**_NARROW, "members": 3, "buckets": 8},
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, settings) for method, settings in RECIPES.items()},
    "fusion": ("inceptionxml", {**_NARROW, "fusion": {"epochs": 2}}),
    "reranker": ("inceptionxml+", {**RECIPES["inceptionxml+"], "reranker": {"epochs": 2}}),
    "label texts": ("inceptionxml", {**_NARROW, "extra_texts": {}}),
    "ensemble": ("inceptionxml", {**_NARROW, "ensemble": 2}),
}


def planted() -> tuple[list[str], list[list[str]], dict[str, str]]:
    """Return texts with words that only their labels have, their labels, and the labels' own texts."""
    words = {label: [f"word{label:02}{letter * 3}" for letter in "abc"] for label in range(_LABELS)}
    texts, labels = [], []
    for row in range(_TEXTS):
        true = {row * row % _LABELS, row % 7}
        texts.append(" ".join([*(word for label in sorted(true) for word in words[label][:2]), f"common{row % 5}"]))
        labels.append([f"L{label}" for label in sorted(true)])
    return texts, labels, {f"L{label}": " ".join(own) for label, own in words.items()}


def fingerprint(variant: str) -> dict[str, str]:
    """Train one variant on one thread; hash its tensors, what is packed of it, and both's answers."""
    import torch

    from laconic import Laconic

    torch.set_num_threads(1)
    method, settings = VARIANTS[variant]
    texts, labels, label_texts = planted()
    model = Laconic(method, device="cpu", **settings).fit(texts, labels, label_texts)
    with tempfile.TemporaryDirectory() as folder:
        whole = answers(model, texts)
        model.pack(texts)
        model.save(folder)
        hashes = {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            for path in sorted(Path(folder).rglob("*"))
            if path.suffix in {".safetensors", ".txt", ".bin"}
        }
        return {**hashes, "answers": whole, "packed answers": answers(model, texts)}


def answers(model: Any, texts: list[str]) -> str:
    """Hash the labels and scores of some texts."""
    rows = [[(label, float(score)) for label, score in row] for row in model.predict(texts[:50], k=5)]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="file to write the hashes to")
    parser.add_argument("--against", type=Path, help="file of hashes to compare with")
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), help="variants to train")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(fingerprint(options.child)))
        return 0
    found = {}
    for variant in options.only:
        command = [sys.executable, "-m", "benchmarks.fingerprints", "--child", variant]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        found[variant] = json.loads(done.stdout.splitlines()[-1])
        print(f"{variant}: {len(found[variant])} hashes", flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))
    before = json.loads(options.against.read_text()) if options.against else found
    wanted = [(variant, name, value) for variant in found for name, value in before[variant].items()]
    differ = [f"{variant}: {name}" for variant, name, value in wanted if found[variant].get(name) != value]
    print("\n".join(["These differ:", *differ] if differ else ["Every hash is equal."] if options.against else []))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
