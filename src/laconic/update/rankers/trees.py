"""Change the labels and words of a ranker of label trees."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array, vstack
from torch import Tensor

from laconic.kernels.csr import TRACE
from laconic.models.label_trees.features import feature_rows
from laconic.models.label_trees.forest import banks_of, graft, prune
from laconic.models.label_trees.learn import EMPTY_SCORE
from laconic.models.trees_ranker import StoredForest, TreesRanker
from laconic.training.run import Run
from laconic.update.rankers.additions import Additions
from laconic.update.rankers.fine_tune import NewTexts, fine_tune_ranker
from laconic.update.rankers.rankers import with_labels, without_labels
from laconic.update.rankers.words import NewWords, add_words, with_empty_ranges


@add_words.register
def _(ranker: TreesRanker, words: NewWords) -> None:
    """Add features without weights for new words; labels that are added later may use them."""
    forest, reading = ranker.forest, ranker.features
    grown = reading._replace(words=reading.words + words.count, ids=reading.ids + words.count)
    forest = forest._replace(feature_starts=with_empty_ranges(forest.feature_starts, words, banks_of(forest)))
    ranker.read(StoredForest.of(forest), grown)


@without_labels.register
def _(ranker: TreesRanker, kept: Int[Tensor, "kept"]) -> TreesRanker:
    """Remove leaves alone, so that other labels keep their scores."""
    return ranker.with_forest(prune(ranker.forest, kept.numpy(), ranker.num_labels))


@with_labels.register
def _(ranker: TreesRanker, additions: Additions) -> TreesRanker:
    """Add a classifier per label that scores its own text and examples with 1 on average, others with EMPTY_SCORE.

    Examples of known labels have no effect.
    """
    own = vstack([additions.label_texts, additions.examples.inputs], format="csr")
    texts_of, rows = additions.texts_of_new(), feature_rows(own, ranker.features)
    texts_of.data /= np.repeat(texts_of.sum(axis=1), np.diff(texts_of.indptr))
    shape = own.shape[0], max(ranker.features.size, own.shape[1])  # an untrusted model may have fewer
    means = csr_array(texts_of @ csr_array((rows.values, rows.numbers, rows.starts), shape=shape))
    lengths = np.repeat(means.power(2).sum(axis=1), np.diff(means.indptr))  # squared: the mean cosine to the mean
    means.data *= (1 - EMPTY_SCORE) / np.maximum(lengths, TRACE)
    biases = np.full(additions.num_new, EMPTY_SCORE, dtype=np.float32)
    return ranker.with_forest(graft(ranker.forest, means, biases, ranker.num_labels))


@fine_tune_ranker.register
def _(ranker: TreesRanker, texts: NewTexts, run: Run) -> TreesRanker:
    """Return the ranker as it is: `with_labels` has added the new labels' classifiers."""
    return ranker
