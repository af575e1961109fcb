"""Distil a transformer into static vectors: those of single words, with which a model starts that runs no transformer.

One pass over the words, then their principal components, all of the same variance, so that words which have nothing in
common are far apart, and vectors of one length: training soon forgets short ones, and moves long ones too little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from laconic.data.corpus import Corpus
from laconic.data.encoder_folder import Pretrained
from laconic.data.prepare import label_texts
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer
from laconic.data.vectors import narrowed
from laconic.data.vocabulary import Vocabulary, VocabularyConfig
from laconic.errors import DataError
from laconic.methods.common import encoded
from laconic.models.encoders import TransformerEncoder
from laconic.system.machine import torch_within_cores

_LENGTH = 3.0  # of a vector (docs/log.md)
_SMALLEST = 1e-6  # a component that varies less says nothing


def words_of(corpus: Corpus) -> Vocabulary:
    """Count the words of a corpus's training texts and label texts, as a model reads them."""
    texts = corpus.split("train").texts
    if texts is None:
        raise DataError(f"{corpus.source}: it has features instead of texts, so there are no words to make vectors of")
    return Tokenizer.of([*texts, *(label_texts(corpus.labels) or ())], Splitter(), VocabularyConfig()).vocabulary


def distilled_vectors(
    encoder: Pretrained, words: Sequence[str], dim: int, device: torch.device
) -> Float[np.ndarray, "words dim"]:
    """Return a vector for each word: what the encoder gives for the word alone, `dim` wide and whitened."""
    narrow = narrowed(encoded_words(encoder, words, device), min(dim, encoder.dim))
    white = narrow / np.maximum(narrow.std(axis=0), _SMALLEST)
    lengths = np.maximum(np.linalg.norm(white, axis=1, keepdims=True), _SMALLEST)
    alike: Float[np.ndarray, "words dim"] = _LENGTH * white / lengths
    return alike


@torch_within_cores()
def encoded_words(encoder: Pretrained, words: Sequence[str], device: torch.device) -> Float[np.ndarray, "words dim"]:
    """Return what the encoder gives for each word alone."""
    splitter = Splitter(rules=encoder.rules, stop_words=False)
    rows = Tokenizer.of_pretrained(words, splitter, encoder).rows(words)
    lengths = np.diff(rows.indptr)
    module = TransformerEncoder(
        num_ids=rows.shape[1],
        length=min(int(lengths.max(initial=1)), encoder.positions),
        embedding=encoder.dim,
        layers=encoder.layers,
        heads=encoder.heads,
        inner=encoder.inner,
    )
    module.load(encoder.weights)
    order = np.argsort(lengths, kind="stable")  # words of as many pieces together, so that few are padded
    vectors: Float[np.ndarray, "words dim"] = np.empty((len(words), encoder.dim), dtype=np.float32)
    vectors[order] = encoded(module.to(device).eval(), rows[order], device).cpu().numpy()
    return vectors
