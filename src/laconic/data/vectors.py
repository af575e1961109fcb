"""Read pre-trained word vectors: text as GloVe (no header) or fastText (header) writes it, or folders of pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from laconic.data.formats.lines import lines
from laconic.data.formats.records import excerpt
from laconic.data.vector_folder import read_vector_folder
from laconic.data.vocabulary import Vocabulary
from laconic.errors import DataError
from laconic.system.files import writing
from laconic.types import FIRST_WORD, PAD

WORD_STARTS = "▁Ġ"  # the signs by which SentencePiece and GPT-2 mark a piece that begins a word
_MOST_NUMBERS = 10_000
SPREAD = 0.25  # words without a vector start uniformly in ± this, as in InceptionXML's published code


@dataclass(frozen=True, eq=False)
class WordVectors:
    """The vectors of those of a vocabulary's words that the file has."""

    vectors: Float[np.ndarray, "words dim"]  # zero where a word was not found
    found: Bool[np.ndarray, "words"]
    vocabulary: Vocabulary

    @property
    def coverage(self) -> float:
        """Return the fraction of the vocabulary's words that have a vector."""
        return float(self.found.sum()) / max(len(self.found), 1)

    @property
    def weighted_coverage(self) -> float:
        """Return the fraction of word occurrences, counted by text, that have a vector."""
        counts = self.vocabulary.text_counts
        return float(counts[self.found].sum()) / max(float(counts.sum()), 1.0)

    def start(self, dim: int, seed: int) -> Float[np.ndarray, "ids dim"]:
        """Return initial embeddings, a row per token id: known numbers first, the rest random, PAD zero.

        Vectors that are wider than the model are narrowed to it.
        """
        own = self.vectors[self.found]
        own = own if own.shape[1] <= dim else narrowed(own, dim)
        matrix = random_start(self.vocabulary, dim, seed)
        matrix[FIRST_WORD : FIRST_WORD + len(self.found)][self.found, : own.shape[1]] = own
        return matrix


def narrowed(vectors: Float[np.ndarray, "n wide"], dim: int) -> Float[np.ndarray, "n dim"]:
    """Return the vectors, less their mean, in their first `dim` principal components."""
    centred = vectors - vectors.mean(axis=0) if len(vectors) else vectors
    _, axes = np.linalg.eigh(centred.T.astype(np.float64) @ centred)  # the largest variance last
    largest = axes[:, ::-1][:, :dim]
    turned = largest * np.where(largest.sum(axis=0) < 0, -1, 1)  # an axis has no direction of its own
    narrow: Float[np.ndarray, "n dim"] = (centred @ turned).astype(np.float32)
    return narrow


def random_start(vocabulary: Vocabulary, dim: int, seed: int) -> Float[np.ndarray, "ids dim"]:
    """Return random initial embeddings."""
    generator = np.random.default_rng(seed)
    matrix = generator.uniform(-SPREAD, SPREAD, (vocabulary.num_ids, dim)).astype(np.float32)
    matrix[PAD] = 0
    return matrix


def permuted(vectors: Float[np.ndarray, "ids dim"], seed: int) -> Float[np.ndarray, "ids dim"]:
    """Permute the dimensions of all vectors alike: a test of whether a model depends on their order."""
    order = np.random.default_rng(seed).permutation(vectors.shape[1])
    return np.take(vectors, order, axis=1)


def read_vectors(
    path: Path, vocabulary: Vocabulary, spellings: Callable[[str], Sequence[str]] = lambda word: (word,)
) -> WordVectors:
    """Read the vectors of a vocabulary's words; no other line is turned into numbers.

    `spellings` are the forms by which a word is looked up, best first. Of two lines for a form the first counts. In a
    folder, words are made of the pieces of its tokenizer.
    """
    if path.is_dir():
        vectors = read_vector_folder(path, vocabulary.words)
        return WordVectors(vectors, np.abs(vectors).sum(axis=1) > 0, vocabulary)
    shape, wanted = _shape(path), _rows_by_spelling(vocabulary.words, spellings)
    vectors = np.zeros((len(vocabulary.words), shape.dim), dtype=np.float32)
    never = 1 + max((rank for rows in wanted.values() for _, rank in rows), default=0)
    ranks = np.full(len(vocabulary.words), never)  # of the spelling by which each word was found
    seen = 0
    for number, line in lines(path):
        if number == 1 and shape.announced is not None:
            continue
        place = f"{path}:{number}"
        # From the right, because a few published files have words with spaces in them.
        word, *numbers = line.rstrip(" ").rsplit(" ", shape.dim)
        if len(numbers) != shape.dim:
            raise DataError(
                f"{place}: {len(numbers)} numbers, where the first vector has {shape.dim}; cut off in the middle?"
            )
        for row, rank in wanted.get(word, ()):
            if rank < ranks[row]:
                vectors[row], ranks[row] = _numbers(numbers, place), rank
        seen += 1
    if shape.announced is not None and seen != shape.announced:
        raise DataError(
            f"{path}: the first line announces {shape.announced:,} vectors, but there are {seen:,}; is it cut off?"
        )
    return WordVectors(vectors, ranks < never, vocabulary)


def write_vectors(path: Path, words: Sequence[str], vectors: Float[np.ndarray, "words dim"]) -> None:
    """Write vectors in fastText's text form."""
    with writing(path) as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, row in zip(words, vectors, strict=True):
            file.write(f"{word} {' '.join(f'{number:.5g}' for number in row)}\n".encode("utf-8", "surrogatepass"))


def spellings_of_feature(name: str) -> list[str]:
    """Return the forms of a feature's name that a file of vectors may have, best first.

    Names of repository data are read as latin-1: one that was UTF-8 is mended. A sign that marks the beginning of a
    word is taken off, and small letters come last. A piece from inside a word (##ing) is no word and stays as it is.
    """
    forms = [name, _as_utf8(name)]
    forms += [form.lstrip(WORD_STARTS) for form in forms]
    return list(dict.fromkeys(form for form in (*forms, *map(str.lower, forms)) if form))


def _as_utf8(name: str) -> str:
    try:
        return name.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return name


def _rows_by_spelling(
    words: Sequence[str], spellings: Callable[[str], Sequence[str]]
) -> dict[str, list[tuple[int, int]]]:
    """Map each spelling to the words that may be spelt so, and how good a spelling it is for each (0: best)."""
    rows: dict[str, list[tuple[int, int]]] = {}
    for row, word in enumerate(words):
        for rank, spelling in enumerate(spellings(word)):
            rows.setdefault(spelling, []).append((row, rank))
    return rows


class _Shape(NamedTuple):
    announced: int | None  # number of vectors by the header; None: there is no header
    dim: int


def _shape(path: Path) -> _Shape:
    source = lines(path)
    _, line = next(source)
    fields = line.rstrip(" ").split(" ")
    if len(line) < 40 and len(fields) == 2 and all(field.isdecimal() for field in fields):
        announced, dim = map(int, fields)
        _, line = next(source, (2, ""))
    else:
        announced, dim = None, len(fields) - 1
    if not 1 <= dim <= line.count(" "):
        raise DataError(
            f"{path}: a word and {max(dim, 1):,} numbers are needed, separated by spaces, but the first such line is "
            f"{excerpt(line)!r}; is this a file of word vectors in text form?"
        )
    if dim > _MOST_NUMBERS:
        raise DataError(f"{path}: vectors of {dim:,} numbers, where {_MOST_NUMBERS:,} are the most that is read")
    return _Shape(announced, dim)


def _numbers(fields: list[str], place: str) -> Float[np.ndarray, "dim"]:
    try:
        with np.errstate(over="ignore"):  # what is too large turns into infinity
            numbers = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{place}: not a number ({error}); is this a file of word vectors in text form?") from None
    if not np.isfinite(numbers).all():
        raise DataError(f"{place}: a number is infinite or NaN; take the line out")
    return numbers
