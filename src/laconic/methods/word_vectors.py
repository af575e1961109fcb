"""Distil a transformer into static vectors: those of single words, with which a model starts that runs no transformer.

One pass over the words, then their principal components, weighted so that frequent words count less (model2vec's
recipe; Arora, Liang and Ma, 2017, for the weights).
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

_RARE = 1e-3  # a word of this fraction of all occurrences weighs one half


def words_of(corpus: Corpus) -> Vocabulary:
    """Count the words of a corpus's training texts and label texts, as a model reads them."""
    texts = corpus.split("train").texts
    if texts is None:
        raise DataError(f"{corpus.source}: it has features instead of texts, so there are no words to make vectors of")
    return Tokenizer.of([*texts, *(label_texts(corpus.labels) or ())], Splitter(), VocabularyConfig()).vocabulary


def distilled_vectors(
    encoder: Pretrained, words: Vocabulary, dim: int, device: torch.device
) -> Float[np.ndarray, "words dim"]:
    """Return a vector for each word: what the encoder gives for the word alone, narrowed to `dim` and weighted."""
    narrow = narrowed(encoded_words(encoder, words.words, device), min(dim, encoder.dim))
    fractions = words.text_counts / max(int(words.text_counts.sum()), 1)
    weighted: Float[np.ndarray, "words dim"] = narrow * (_RARE / (_RARE + fractions))[:, None].astype(np.float32)
    return weighted


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
