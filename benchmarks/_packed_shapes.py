"""Packed folders of the papers' sizes, of weights that nobody has trained: they are as quick as trained ones.

Encoder, heads and clusters are those of an untrained InceptionXML+, packed as any model is. The rows of labels, which
would take several times their memory on that way, are made as they lie in the folder, a piece at a time.

    python -m benchmarks._packed_shapes AmazonTitles-670K FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path

import numpy as np
import torch

from benchmarks.shapes import PAPER_SHAPES
from laconic import __version__
from laconic.data.text import STOP_WORDS
from laconic.data.vocabulary import Vocabulary
from laconic.export.rankers import pack_ranker
from laconic.methods import inceptionxml_plus
from laconic.models.clustering import random_tree
from laconic.models.rankers import ShortlistRanker
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.search import Searched
from laconic.packed.folder import PackedModel, write_packed
from laconic.types import FIRST_WORD

TITLE = 6  # words of a text, and of a label's name, which is a title too
SYLLABLES = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
_AT_ONCE = 1 << 16  # rows
_SCALE = np.float32(0.05 / 127)


@dataclass(frozen=True, kw_only=True)
class PackedShape:
    words: int
    labels: int
    clusters: int
    beam: int  # clusters that are opened
    hidden: int = 0  # width of rows; 0: the encoder's 480


SHAPES = {
    "small": PackedShape(words=5_000, labels=100_000, clusters=16_384, beam=100),
    "AmazonTitles-670K": PackedShape(
        words=PAPER_SHAPES["AmazonTitles-670K"].words,
        labels=PAPER_SHAPES["AmazonTitles-670K"].labels,
        clusters=65_536,
        beam=400,
    ),
    "AmazonTitles-3M": PackedShape(
        words=PAPER_SHAPES["AmazonTitles-3M"].words,
        labels=PAPER_SHAPES["AmazonTitles-3M"].labels,
        clusters=131_072,
        beam=384,
        hidden=300,
    ),
}


def made(shape: PackedShape) -> PackedModel:
    words = words_of(shape)
    return PackedModel(
        facts={
            "laconic": __version__,
            "method": "inceptionxml+",
            "inputs": "text",
            "sizes": {"labels": shape.labels, "inputs": len(words) + FIRST_WORD},
            "created": "for a benchmark",
        },
        ranker=_ranker(shape),
        labels=titles(words, shape.labels, seed=1),
        vocabulary=Vocabulary(words=words, text_counts=np.ones(len(words), dtype=np.int64), num_texts=len(words)),
    )


def words_of(shape: PackedShape) -> list[str]:
    """Words that no cleaning changes."""
    every = ("".join(syllables) for syllables in product(SYLLABLES, repeat=3))
    return list(islice((word for word in every if word not in STOP_WORDS), shape.words))


def titles(words: Sequence[str], count: int, seed: int) -> list[str]:
    drawn = np.random.default_rng(seed).integers(len(words), size=(count, TITLE))
    return [" ".join([words[word] for word in title]) for title in drawn.tolist()]


def _ranker(shape: PackedShape) -> Searched:
    few = pack_ranker(_untrained(shape))  # a label for each cluster
    assert isinstance(few, Searched)
    chance = np.random.default_rng(0)
    return replace(
        few,
        rows=_rows(shape.labels, few.rows.dim, chance),
        order=chance.permutation(shape.labels).astype(np.int32),
        starts=(np.arange(shape.clusters + 1) * shape.labels // shape.clusters).astype(np.int32),
        beam=shape.beam,
    )


@torch.no_grad()
def _untrained(shape: PackedShape) -> ShortlistRanker:
    torch.manual_seed(0)
    config = inceptionxml_plus.Config(length=32, clusters=shape.clusters, top=shape.beam, hidden=shape.hidden)
    tree = random_tree(shape.clusters, shape.clusters, 0)
    ranker = inceptionxml_plus.build(config, shape.words + FIRST_WORD, tree)
    # Untrained rows pick the same clusters for all texts, whose labels then wait in the cache: spread the picks.
    ranker.clusters.classifier.weight.normal_()
    for name, parameter in ranker.encoder.named_parameters():
        if name.endswith("gamma"):
            parameter.fill_(0.5)  # they start at 0: no attention is paid
    return ranker.eval()


def _rows(count: int, dim: int, chance: np.random.Generator) -> NibbleRows:
    coarse, fine = np.empty((count, dim), dtype=np.int8), np.zeros((count, dim), dtype=np.int8)
    for first in range(0, count, _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        coarse[part] = chance.integers(-127, 128, coarse[part].shape, dtype=np.int8)
        fine[part] = coarse[part][:, ::-1]
    scales = np.full(count, _SCALE, dtype=np.float32)
    whole = Rows(coarse=coarse, scales=scales, biases=np.zeros(count, dtype=np.float32), fine=fine)
    return NibbleRows.from_bytes(whole)


if __name__ == "__main__":
    write_packed(made(SHAPES[sys.argv[1]]), Path(sys.argv[2]))
