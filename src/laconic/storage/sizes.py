"""Sizes of the parts of a model folder or a packed one, read from the headers of its files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

_RANKER = "ranker."  # begins the names of all that is learnt
_DEPTH = 2  # words of a part's name: base.encoder, trees.weights
_SMALL = 0.01  # of the whole; smaller parts are summed up
OTHERS = "others"


def bytes_of_parts(folder: Path) -> dict[str, int]:
    """Return the bytes of each part of a folder whose files were checked, the largest first, small ones last as one.

    Folders inside it are not counted.
    """
    sizes: Counter[str] = Counter()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        parts = _tensor_bytes(path) if path.suffix == ".safetensors" else Counter[str]()
        sizes += parts
        sizes[path.name] += path.stat().st_size - parts.total()
    least = _SMALL * sizes.total()
    shown = {name: size for name, size in sizes.most_common() if size >= least}
    return shown | {OTHERS: sizes.total() - sum(shown.values())}


def _tensor_bytes(path: Path) -> Counter[str]:
    """Return the bytes of the parts that a file's tensors belong to."""
    sizes: Counter[str] = Counter()
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            part = name.partition(":")[0].removeprefix(_RANKER)  # what follows says how an array is written
            sizes[".".join(part.split(".")[:_DEPTH])] += last - first
    return sizes
