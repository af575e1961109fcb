"""Turn a Corpus into Datasets: texts, sparse features and dense features become inputs here."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels, Split
from laconic.data.dataset import Dataset, Rows, unless
from laconic.data.encoder_folder import Pretrained
from laconic.data.text import Splitter, word_table
from laconic.data.tokenizer import Tokenizer
from laconic.data.vectors import read_vectors, spellings_of_feature
from laconic.data.vocabulary import Vocabulary, VocabularyConfig
from laconic.errors import DataError
from laconic.types import FIRST_WORD

log = logging.getLogger(__name__)


class Prepared(NamedTuple):
    """Training data with the tokenizer that it was made by."""

    data: Dataset
    tokenizer: Tokenizer | None  # None: the inputs are features, not texts


def prepare(
    corpus: Corpus,
    splitter: Splitter,
    vocabulary: VocabularyConfig,
    *,
    with_label_texts: bool = True,
    pretrained: Pretrained | None = None,
) -> Prepared:
    """Prepare the training split; words are counted in its texts and, if wanted, in the labels' texts.

    With a pre-trained encoder the words are its own pieces.
    """
    split = corpus.split("train")
    texts = label_texts(corpus.labels) if with_label_texts else None
    tokenizer, inputs, label_inputs = None, None, None
    if split.texts is not None:
        # Split once, for counting words and for rows: nothing else here takes as long.
        tables = [word_table(some, splitter) for some in (split.texts, texts) if some is not None]
        if pretrained is None:
            tokenizer = Tokenizer.of_tables(tables, splitter, vocabulary)
        else:
            tokenizer = Tokenizer.of_pretrained(chain(split.texts, texts or ()), splitter, pretrained)
        inputs, *of_labels = map(tokenizer.vocabulary.tokens, tables)
        label_inputs = of_labels[0] if of_labels else None
    elif pretrained is not None:
        raise DataError(f"a pre-trained encoder reads texts, but {corpus.source} has features; leave --encoder out")
    data = Dataset(
        inputs=input_rows(split, None) if inputs is None else inputs,
        labels=taught_labels(split.labels, split.leave_out),
        label_inputs=_feature_rows(corpus.labels) if tokenizer is None else label_inputs,
        leave_out=split.leave_out,
        weights=split.weights,
        groups=split.group_numbers(),
        pretrained=pretrained,
        words=None if tokenizer is None else tokenizer.vocabulary.words,
        ordered=tokenizer is not None,
        validation=_validation(corpus, tokenizer),
    )
    return Prepared(data, tokenizer)


def taught_labels(labels: csr_array, leave_out: csr_array | None) -> csr_array:
    """Return the labels to learn: pairs to leave out are none of them, even where they are true."""
    if leave_out is None or not labels.multiply(leave_out).nnz:
        return labels
    return unless(labels, leave_out)


def with_vectors(prepared: Prepared, corpus: Corpus, path: Path) -> Dataset:
    """Return the training data with the vectors of a file, by words or by the names of feature columns."""
    data, tokenizer = prepared
    if tokenizer is not None:
        what, vectors = "words", read_vectors(path, tokenizer.vocabulary)
    else:
        what, vectors = "features", read_vectors(path, _named_features(corpus, path), spellings_of_feature)
    log.info(
        "%s: %.1f %% of the %s have a vector, %.1f %% of their occurrences",
        path.name,
        100 * vectors.coverage,
        what,
        100 * vectors.weighted_coverage,
    )
    return replace(data, word_vectors=vectors)


def _named_features(corpus: Corpus, path: Path) -> Vocabulary:
    """Return the columns of sparse features as a vocabulary: feature f is its word f, as in `_feature_tokens`."""
    features, names = corpus.split("train").features, corpus.feature_names
    if not isinstance(features, csr_array):
        raise DataError(f"vectors={path} starts words or named sparse features, but {corpus.source} has dense features")
    if names is None:
        raise DataError(
            f"vectors={path} needs the names of the feature columns, but {corpus.source} has none: put Xf.txt, a name "
            "a line, beside the features, or train without vectors"
        )
    if len(names) != features.shape[1]:
        raise DataError(f"{corpus.source} names {len(names):,} features, but has {features.shape[1]:,}")
    counts = np.bincount(features.indices[features.data != 0], minlength=len(names))
    return Vocabulary(words=names, text_counts=counts, num_texts=features.shape[0])


def _validation(corpus: Corpus, tokenizer: Tokenizer | None) -> Dataset | None:
    split = corpus.splits.get("valid")
    if split is None or not len(split):
        return None
    return Dataset(inputs=input_rows(split, tokenizer), labels=split.labels, leave_out=split.leave_out)


def input_rows(split: Split, tokenizer: Tokenizer | None) -> Rows:
    """Return a split's rows as inputs of a model with that tokenizer."""
    if tokenizer is not None:
        if split.texts is None:
            raise DataError("the model reads texts, but this data has none: it holds features or labels only")
        return tokenizer.rows(split.texts)
    if split.features is None:
        raise DataError("features are needed here, but this data has none")
    return _feature_tokens(split.features) if isinstance(split.features, csr_array) else split.features


def label_texts(labels: Labels) -> Sequence[str] | None:
    """Return the labels' texts: name and text where names are words, text alone where they are codes.

    Other names of a label follow its text.
    """
    texts = _own_texts(labels)
    if not _are_words(labels.names):
        return texts
    if texts is None:
        return labels.names
    return [f"{name} {text}" for name, text in zip(labels.names, texts, strict=True)]


def _own_texts(labels: Labels) -> Sequence[str] | None:
    if labels.alternatives is None:
        return labels.texts
    texts = labels.texts or [""] * len(labels)
    return ["; ".join(filter(None, [text, *more])) for text, more in zip(texts, labels.alternatives, strict=True)]


def _feature_rows(labels: Labels) -> csr_array | None:
    return None if labels.features is None else _feature_tokens(labels.features)


def _feature_tokens(features: csr_array) -> csr_array:
    """Turn feature f into the token f + FIRST_WORD, like a word of a vocabulary; rows get length 1."""
    # In double precision, where the square of no 32-bit number is 0 or infinite.
    norms = np.sqrt(features.astype(np.float64).power(2).sum(axis=1))
    values = features.data / np.repeat(np.where(norms == 0, 1, norms), np.diff(features.indptr))
    shape = (features.shape[0], features.shape[1] + FIRST_WORD)
    return csr_array((values.astype(np.float32), features.indices + FIRST_WORD, features.indptr), shape=shape)


_CODE = re.compile(r"[A-Z0-9_:.-]*|.*://.*")
_WORD = re.compile(r"[^\W\d_]{2}")


def _are_words(names: Sequence[str]) -> bool:
    """Tell whether most names are words: not numbers, not addresses, not codes of capitals and digits."""
    words = sum(1 for name in names if _WORD.search(name) and not _CODE.fullmatch(name))
    return 2 * words > len(names)
