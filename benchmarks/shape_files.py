"""Files of the shapes of the papers' datasets, so that whole commands can be tried at full size.

Texts predict their labels, labels have texts, and frequencies are Zipf's (benchmarks/shapes.py). The folder has
train.jsonl.gz, test.jsonl.gz and labels.jsonl.gz, as `laconic train` reads them.

    python -m benchmarks.shape_files AmazonTitles-670K build/amazon-670k
    python -m benchmarks.shape_files AmazonTitles-3M build/amazon-3m --scale 0.1
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.shapes import PAPER_SHAPES, DataShape, ShapedTexts, make
from laconic.types import FIRST_WORD, PAD

_LABEL_WORDS = 3  # of a label's text: its own and the one that it shares with its nearest neighbours
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.shape_files", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shape", choices=PAPER_SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of texts, labels and words")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write(scaled(PAPER_SHAPES[given.shape], given.scale), given.folder, seed=given.seed)
    sizes = {path.name: path.stat().st_size for path in sorted(given.folder.iterdir())}
    print(given.folder, ", ".join(f"{name}: {size / 1e6:.1f} MB" for name, size in sizes.items()))


def scaled(shape: DataShape, scale: float) -> DataShape:
    """Return the shape with so many times the texts, labels and words, and as many labels per text."""
    sizes = {name: max(100, round(scale * getattr(shape, name))) for name in ("texts", "test_texts", "labels", "words")}
    return replace(shape, **sizes)


def write(shape: DataShape, folder: Path, *, seed: int = 0) -> None:
    """Write a dataset of that shape into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    learnt = make(shape, seed=seed)
    _write(folder / "labels.jsonl.gz", _labels(learnt))
    _write(folder / "train.jsonl.gz", _texts(learnt))
    _write(folder / "test.jsonl.gz", _texts(make(shape, seed=seed, part=1, texts=shape.test_texts)))


def word(number: int) -> str:
    """Spell a number as a word that can be spoken, so that words have sub-words in common as real ones do."""
    syllables = len(_CONSONANTS) * len(_VOWELS)
    spelt = ""
    while True:
        number, one = divmod(number, syllables)
        spelt += _CONSONANTS[one // len(_VOWELS)] + _VOWELS[one % len(_VOWELS)]
        if not number:
            return spelt + "n"  # no stop word ends so in these syllables


def _labels(made: ShapedTexts) -> Iterator[dict[str, Any]]:
    for number, words in enumerate(made.label_words[:, :_LABEL_WORDS].tolist()):
        yield {"id": f"L{number}", "text": _spelt(words)}


def _texts(made: ShapedTexts) -> Iterator[dict[str, Any]]:
    labels, starts = made.labels, made.starts.tolist()
    for number, ids in enumerate(made.ids):
        own = labels[starts[number] : starts[number + 1]].unique().tolist()
        yield {"text": _spelt(_there(ids)), "labels": [f"L{label}" for label in own]}


def _there(ids: Tensor) -> list[int]:
    found: list[int] = ids[ids != PAD].tolist()
    return found


def _spelt(ids: list[int]) -> str:
    return " ".join(word(one - FIRST_WORD) for one in ids)


def _write(path: Path, records: Iterator[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=3) as file:
        for record in records:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
