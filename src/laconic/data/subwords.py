"""Sub-words: a word's character 3- and 4-grams, hashed into buckets that misspelt and new words share.

The grams are those of the word between < and >. A gram's hash h starts at 0 and takes in one code point after another,
in 32 bits: h = (h xor code) · 2654435761, then h = h xor (h >> 15). Its bucket is h modulo the number of buckets.
Models are trained on these numbers: they must never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from laconic.data.text import WordTable
from laconic.kernels.jit import compiled

MOST_BUCKETS = 1 << 24
_SHORTEST, _LONGEST = 3, 4
_FACTOR = 2_654_435_761  # odd, so that no two hashes become one; near 2³² over the golden ratio, so that they spread


class Grams(NamedTuple):
    """The buckets that each word's grams fall into: those of word w are `buckets[starts[w]:starts[w + 1]]`."""

    starts: Int[np.ndarray, "words+1"]
    buckets: Int[np.ndarray, "grams"]


class Subwords(NamedTuple):
    """The buckets of each text's words, each once and sorted: sub-words are a bag without reading order."""

    starts: Int[np.ndarray, "texts+1"]
    buckets: Int[np.ndarray, "total"]
    counts: Float[np.ndarray, "total"]  # how often the text has each


def subwords_of(table: WordTable, buckets: int) -> Subwords:
    """Return the sub-words of every text; a word's grams are hashed once, however many texts have it."""
    grams = grams_of(table.words, buckets)
    size = int(np.diff(grams.starts)[table.ids].sum())
    found, counts = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
    starts = np.zeros(len(table.starts), dtype=np.int64)
    _collect(table.ids, table.starts, grams, starts, found, counts)
    return Subwords(starts, found[: starts[-1]], counts[: starts[-1]])


def grams_of(words: Sequence[str], buckets: int) -> Grams:
    marked = [f"<{word}>" for word in words]
    codes = np.frombuffer("".join(marked).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    lengths = np.array([len(word) for word in marked], dtype=np.int64)
    sizes = np.maximum(lengths[:, None] + 1 - np.arange(_SHORTEST, _LONGEST + 1), 0).sum(axis=1)
    grams = Grams(_starts(sizes), np.empty(sizes.sum(), dtype=np.int32))
    _hash(codes, _starts(lengths), grams.buckets, buckets)
    return grams


def _starts(lengths: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n+1"]:
    return np.concatenate([[0], lengths.cumsum()])


@compiled
def _hash(codes, starts, hashed, buckets):  # type: ignore[no-untyped-def]
    count = 0
    for word in range(len(starts) - 1):
        end = starts[word + 1]
        for first in range(starts[word], end - _SHORTEST + 1):
            h = 0
            for place in range(first, min(first + _LONGEST, end)):
                h = (h ^ int(codes[place])) * _FACTOR & 0xFFFFFFFF
                h ^= h >> 15  # brings down what the product has moved up: a modulus looks at the low bits
                if place - first + 1 >= _SHORTEST:
                    hashed[count] = h % buckets
                    count += 1


@compiled
def _collect(words, texts, grams, starts, found, counts):  # type: ignore[no-untyped-def]
    """Write the buckets of every text, each once, and how often it has them."""
    kept = 0
    for text in range(len(texts) - 1):
        last = kept
        for word in words[texts[text] : texts[text + 1]]:
            for bucket in grams.buckets[grams.starts[word] : grams.starts[word + 1]]:
                found[last] = bucket
                last += 1
        found[kept:last].sort()
        for i in range(kept, last):
            if kept == starts[text] or found[i] != found[kept - 1]:
                found[kept], counts[kept] = found[i], 0
                kept += 1
            counts[kept - 1] += 1
        starts[text + 1] = kept
