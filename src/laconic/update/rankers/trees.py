"""Change the labels and words of a ranker of label trees."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array, vstack
from torch import Tensor

from laconic.kernels.csr import TRACE
from laconic.models.label_trees.features import feature_rows
from laconic.models.label_trees.forest import graft, prune
from laconic.models.label_trees.learn import EMPTY_SCORE
from laconic.models.trees_ranker import StoredForest, TreesRanker
from laconic.training.run import Run
from laconic.update.rankers.additions import Additions
from laconic.update.rankers.fine_tune import Lesson, taught
from laconic.update.rankers.rankers import with_labels, without_labels
from laconic.update.rankers.words import NewWords, add_words, with_empty_ranges


@add_words.register
def _(ranker: TreesRanker, words: NewWords) -> None:
    """Give new words features without weights: trees know them once a label with such words joins."""
    forest, reading = ranker.forest, ranker.features
    grown = reading._replace(words=reading.words + words.count, ids=reading.ids + words.count)
    forest = forest._replace(feature_starts=with_empty_ranges(forest.feature_starts, words))
    ranker.read(StoredForest.of(forest), grown)


@without_labels.register
def _(ranker: TreesRanker, kept: Int[Tensor, "kept"]) -> TreesRanker:
    """Trees stay as they are but for the labels: so others have the same scores as before."""
    return ranker.with_forest(prune(ranker.forest, kept.numpy(), ranker.num_labels))


@with_labels.register
def _(ranker: TreesRanker, additions: Additions) -> TreesRanker:
    """A classifier that gives a label's own text and examples a score of 1 on average, and strange texts EMPTY_SCORE.

    Of examples that known labels have, nothing is learnt.
    """
    own = vstack([additions.label_texts, additions.examples.inputs], format="csr")
    texts_of, rows = additions.texts_of_new(), feature_rows(own, ranker.features)
    texts_of.data /= np.repeat(texts_of.sum(axis=1), np.diff(texts_of.indptr))
    shape = own.shape[0], max(ranker.features.size, own.shape[1])  # a stranger's model may count fewer
    means = csr_array(texts_of @ csr_array((rows.values, rows.numbers, rows.starts), shape=shape))
    lengths = np.repeat(means.power(2).sum(axis=1), np.diff(means.indptr))  # squared: the mean cosine to the mean
    means.data *= (1 - EMPTY_SCORE) / np.maximum(lengths, TRACE)
    biases = np.full(additions.num_new, EMPTY_SCORE, dtype=np.float32)
    return ranker.with_forest(graft(ranker.forest, means, biases, ranker.num_labels))


@taught.register
def _(ranker: TreesRanker, lesson: Lesson, run: Run) -> TreesRanker:
    """New labels have their classifiers already; what known ones have learnt stays as it is."""
    return ranker
