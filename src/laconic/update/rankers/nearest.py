"""Change the labels and words of a ranker of nearest texts."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from scipy.sparse import csr_array, hstack, vstack
from torch import Tensor

from laconic.data.vocabulary import bags
from laconic.kernels.csr import Lists, search
from laconic.models.nearest_ranker import NearestRanker, votes_of
from laconic.models.shortlisters.nearest import StoredLists
from laconic.training.run import Run
from laconic.types import NO_LABEL
from laconic.update.rankers.additions import Additions
from laconic.update.rankers.fine_tune import NewTexts, fine_tune_ranker
from laconic.update.rankers.rankers import with_labels, without_labels
from laconic.update.rankers.words import NewWords, add_words, with_empty_lists

_SIMILAR = 20  # known labels whose votes count for a new one without examples


@add_words.register
def _(ranker: NearestRanker, words: NewWords) -> None:
    ranker.label_texts = with_empty_lists(ranker.label_texts, words)


@without_labels.register
def _(ranker: NearestRanker, kept: Int[Tensor, "kept"]) -> NearestRanker:
    """Keep the texts of removed labels, so that other texts keep their neighbours."""
    numbers, known = kept.numpy(), ranker.num_labels
    place = np.full(known, NO_LABEL)
    place[numbers] = np.arange(len(numbers))
    popular = place[ranker.popular.numpy()]
    return NearestRanker(
        neighbours=ranker.neighbours,
        power=ranker.power,
        label_text=ranker.label_text,
        texts=ranker.texts,
        votes=StoredLists(Lists.of(_matrix(ranker.votes, known)[:, numbers])),
        label_texts=StoredLists(Lists.of(_matrix(ranker.label_texts, known)[:, numbers])),
        popular=torch.from_numpy(popular[popular != NO_LABEL]),
    )


@with_labels.register
def _(ranker: NearestRanker, additions: Additions) -> NearestRanker:
    """Add label texts and examples to the indexes; new labels are the least popular."""
    known, examples = ranker.num_labels, additions.examples
    texts, words = ranker.texts, _matrix(ranker.label_texts, known)
    votes = _matrix(ranker.votes, known)
    votes = hstack([votes, (votes @ _similarity(additions)).minimum(1)], format="csr")
    if ranker.label_text > 0:
        words.resize(additions.label_texts.shape[1], known)
        words = hstack([words, bags(additions.label_texts).T], format="csr")
    if len(examples):
        votes = vstack([votes, votes_of(examples)], format="csr")
        texts = texts.extended(examples.inputs)
    return NearestRanker(
        neighbours=ranker.neighbours,
        power=ranker.power,
        label_text=ranker.label_text,
        texts=texts,
        votes=StoredLists(Lists.of(votes)),
        label_texts=StoredLists(Lists.of(words)),
        popular=torch.cat([ranker.popular, torch.arange(known, additions.num_labels)]),
    )


@fine_tune_ranker.register
def _(ranker: NearestRanker, texts: NewTexts, run: Run) -> NearestRanker:
    """Return the ranker as it is: `with_labels` has added the new texts."""
    return ranker


def _similarity(additions: Additions) -> csr_array:
    """Return how much a vote for each known label counts for each new one: by the similarity of their texts.

    A label that has examples has votes of its own.
    """
    known, new = bags(additions.known_texts), bags(additions.label_texts)
    labels, cosines = search(Lists.inverted(known), Lists.of(new), known.shape[0], min(_SIMILAR, known.shape[0]))
    without = additions.examples.label_counts[additions.num_known :] == 0
    row, place = np.nonzero((labels >= 0) & without[:, None])
    pairs = labels[row, place], row
    return csr_array((cosines[row, place] ** 2, pairs), shape=(known.shape[0], new.shape[0]), dtype=np.float32)


def _matrix(stored: StoredLists, width: int) -> csr_array:
    lists = stored.lists()
    return csr_array((lists.values, lists.numbers, lists.starts), shape=(len(lists.starts) - 1, width))
