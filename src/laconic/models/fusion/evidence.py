"""Features of pairs of text and label: rankers' scores, votes of the nearest texts, words of label texts.

Such labels are the best of one or more rankers, those of the nearest training texts, and those whose own texts share
words with the text. Knows nothing of models: rankings and lists in, numbers out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.kernels.csr import TRACE, Lists, in_threads, keep, order_kept, take_best
from laconic.kernels.jit import compiled
from laconic.kernels.prefetch import prefetch
from laconic.kernels.spares import Spares
from laconic.types import NO_LABEL

NUMBERS = (
    "there",  # 1 where there is a label; rows end in zeros
    "ranker's score",
    "ranker's share",  # of its largest score for the text
    "log of the ranker's share",
    "ranker's place",  # 1 for the first, 1/2 for the second, ...; 0 for labels that it does not list
    "votes",  # of the nearest texts that have the label, as a share of the largest sum
    "log of votes",
    "place by votes",
    "nearest with it",  # the largest weight of a neighbour that has the label
    "cosine",  # of the text and the label's own
    "share of the cosine",  # of the text's largest
    "place by cosine",
    "label text found",  # the share of the label's own text whose words the text has
    "frequency",  # log of 1 + the label's training texts
    "frequency × log of the ranker's share",
    "frequency × votes",
    "frequency × cosine",
    "nearest text",  # the largest weight of any neighbour
    "largest cosine",
    "words",  # log of 1 + how many the text has
)
FURTHER = (
    "score",
    "share",
    "log of the share",
    "place",
    "frequency × log of the share",
)  # of each ranker but the first
_OF_FIRST = (1, 2, 3, 4, 14)  # where the first ranker's numbers of these names are
_BY_VOTES, _BY_COSINE = NUMBERS.index("place by votes"), NUMBERS.index("place by cosine")


def numbers_of(rankers: int) -> int:
    """Return the number of features of a label for that many rankers."""
    return len(NUMBERS) + len(FURTHER) * (rankers - 1)


class Channels(NamedTuple):
    """The nearest training texts, label texts and query words of a batch."""

    neighbours: Int[np.ndarray, "batch neighbours"]  # training texts, nearest first
    weights: Float[np.ndarray, "batch neighbours"]
    votes: Lists  # of each training text for its labels
    queries: Lists
    label_texts: Lists  # by word
    label_weight: np.float32  # of the label-text cosine, where both are added up

    @property
    def size(self) -> int:
        return len(self.neighbours)

    def without(self, weight: float, rows: slice = slice(None)) -> Channels:
        """Return some texts without neighbours of more than that weight; the others move up."""
        gone = np.zeros(self.weights.shape, dtype=np.bool_)
        gone[rows] = self.weights[rows] > weight
        order = np.argsort(gone, axis=1, kind="stable")
        neighbours, weights = (np.take_along_axis(part, order, 1) for part in (self.neighbours, self.weights))
        last = np.take_along_axis(gone, order, 1)
        return self._replace(neighbours=np.where(last, NO_LABEL, neighbours), weights=np.where(last, 0, weights))


class Evidence(NamedTuple):
    """The features of candidate labels, each label once; rows end in NO_LABEL."""

    labels: Int[np.ndarray, "batch n"]
    numbers: Float[np.ndarray, "batch n numbers"]  # NUMBERS, and FURTHER for each ranker after the first


class Listed(NamedTuple):
    """A ranker's best labels."""

    labels: Int[np.ndarray, "batch k"]
    scores: Float[np.ndarray, "batch k"]


class Asked(NamedTuple):
    """The rankers' lists, and labels to be included whatever they list."""

    rankers: tuple[Listed, ...]
    wanted: Int[np.ndarray, "batch w"]

    def empty_evidence(self, width: int) -> Evidence:
        """Allocate evidence for all candidates where each channel gives `width` labels."""
        size = len(self.wanted)
        places = sum(one.labels.shape[1] for one in self.rankers) + self.wanted.shape[1] + 2 * width
        labels = np.empty((size, places), dtype=np.int64)
        labels.fill(NO_LABEL)  # np.full takes several times as long for a few numbers
        return Evidence(labels, np.zeros((size, places, numbers_of(len(self.rankers))), dtype=np.float32))


def gather_evidence(
    channels: Channels,
    asked: Asked,
    frequency: Float[np.ndarray, "labels"],
    width: int,
    workspaces: Spares[Workspace],
) -> Evidence:
    """Return the features of the listed labels, the wanted ones, and the best `width` of each channel."""
    found = asked.empty_evidence(width)

    def work(*rows: int) -> None:
        with workspaces.lent() as workspace:
            gather(channels, asked, frequency, width, rows, workspace, found)

    in_threads(channels.size, work)
    return found


def count_proposed(found: Evidence, asked: Asked) -> Int[np.ndarray, "batch"]:
    """Return how many candidates a ranker or a channel lists; those that were only requested come after them."""
    if not asked.wanted.shape[1]:
        return np.full(len(found.labels), found.labels.shape[1])
    return np.asarray(listed(found).sum(axis=1))


@compiled
def score_all(found, ranker, scores, proposed, frequency):  # type: ignore[no-untyped-def]
    """Write a ranker's features anew from its scores of all candidates, not of those alone that it lists.

    What is only requested changes nothing of the others.
    """
    score, share, log_share, _, weighed = columns_of(ranker)
    for row in range(len(scores)):
        labels, numbers, largest = found.labels[row], found.numbers[row], np.float32(1e-30)
        for i in range(proposed[row]):
            if labels[i] != NO_LABEL:
                largest = max(largest, scores[row, i])
        for i in range(len(labels)):
            if labels[i] != NO_LABEL:
                numbers[i, score] = scores[row, i]
                numbers[i, share] = min(scores[row, i] / largest, np.float32(1))
                numbers[i, log_share] = np.log(np.float32(1e-4) + numbers[i, share])
                numbers[i, weighed] = frequency[labels[i]] * numbers[i, log_share]


@compiled
def list_best(found, ranker, scores, proposed, width):  # type: ignore[no-untyped-def]
    """Let a ranker list the `width` proposed candidates of its largest scores, whatever it listed before."""
    place = columns_of(ranker)[3]
    best, best_scores = np.empty(width, np.int64), np.empty(width, np.float32)
    for row in range(len(scores)):
        labels, numbers, kept = found.labels[row], found.numbers[row], 0
        for i in range(proposed[row]):
            if labels[i] != NO_LABEL:
                numbers[i, place] = 0
                kept = keep(i, scores[row, i], best, best_scores, kept)
        order_kept(best, best_scores, kept)
        for i in range(kept):
            numbers[best[i], place] = np.float32(1) / np.float32(i + 1)


@compiled
def forget_unlisted(found, ranker, scores):  # type: ignore[no-untyped-def]
    """Set the scores of candidates that a ranker does not list to 0."""
    place = columns_of(ranker)[3]
    for row in range(len(scores)):
        for i in range(scores.shape[1]):
            if found.numbers[row, i, place] == 0:
                scores[row, i] = 0


def listed(found: Evidence) -> Bool[np.ndarray, "batch n"]:
    """Return which candidates a ranker or a channel lists; the others were only requested."""
    rankers = 1 + (found.numbers.shape[2] - len(NUMBERS)) // len(FURTHER)
    places = [_BY_VOTES, _BY_COSINE, *(columns_of(ranker)[3] for ranker in range(rankers))]
    return np.asarray((found.numbers[:, :, places] > 0).any(axis=2))


@compiled
def is_listed(numbers):  # type: ignore[no-untyped-def]
    """Return whether a ranker or a channel lists a candidate, by its features."""
    found = numbers[_BY_VOTES] > 0 or numbers[_BY_COSINE] > 0 or numbers[_OF_FIRST[3]] > 0
    for place in range(len(NUMBERS) + 3, len(numbers), len(FURTHER)):
        found |= numbers[place] > 0
    return found


# What a text makes of a label: the sum of its votes and the largest vote, the cosine of both texts, the weight of the
# words that they share, and the label's place in its row, and one more.
_VOTES, _NEAREST, _COSINE, _COMMON, _PLACE = range(5)
_LINE = 64  # bytes that are fetched together
_AHEAD = 12  # labels of a list
_OF_LABEL = 8  # numbers, so that those of a label lie in one line


class Workspace(NamedTuple):
    """Scratch with some numbers per label, zero before and after every text, and lists of touched labels."""

    of_labels: Float[np.ndarray, "labels 8"]
    voted: Int[np.ndarray, "labels+1"]
    worded: Int[np.ndarray, "labels+1"]


def make_workspace(labels: int) -> Workspace:
    room = np.zeros(labels * _OF_LABEL + _LINE // 4, dtype=np.float32)
    first = -room.ctypes.data % _LINE // 4
    voted, worded = np.empty((2, labels + 1), dtype=np.int32)
    return Workspace(room[first : first + labels * _OF_LABEL].reshape(labels, _OF_LABEL), voted, worded)


@compiled
def gather(channels, asked, frequency, width, rows, workspace, found):  # type: ignore[no-untyped-def]
    """Write the features of the texts from the first to the last of `rows`."""
    of_labels, voted, worded = workspace
    votes, cosines = of_labels[:, _VOTES], of_labels[:, _COSINE]
    best, scores = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.float32)
    for row in range(rows[0], rows[1]):
        labels, numbers = found.labels[row], found.numbers[row]
        for listed in asked.rankers:
            _fetch_labels(of_labels, frequency, listed.labels[row])
        by_votes = _vote(channels, row, of_labels, voted)
        by_words = _share_words(channels.label_texts, channels.queries, row, of_labels, worded)
        count = 0
        for ranker, listed in enumerate(asked.rankers):
            count = _join(listed.labels[row], of_labels, labels, numbers, columns_of(ranker)[3], count)
        kept = take_best(votes, voted, by_votes, best, scores)
        count = _join(best[:kept], of_labels, labels, numbers, 7, count)
        largest_vote = max(scores[0], np.float32(1e-30)) if kept else np.float32(1)
        kept = take_best(cosines, worded, by_words, best, scores)
        count = _join(best[:kept], of_labels, labels, numbers, 11, count)
        largest_cosine = max(scores[0], np.float32(0)) if kept else np.float32(0)
        count = _join(asked.wanted[row], of_labels, labels, numbers, -1, count)
        for ranker, listed in enumerate(asked.rankers):
            _listed_scores(listed, row, of_labels, labels, numbers, frequency, count, columns_of(ranker))
        words = np.log1p(np.float32(channels.queries.starts[row + 1] - channels.queries.starts[row]))
        for i in range(count):
            label, of_label = labels[i], numbers[i]
            own = of_labels[label]
            of_label[0] = 1
            of_label[5] = max(own[_VOTES] / largest_vote, np.float32(0))
            of_label[6] = np.log(np.float32(1e-3) + of_label[5])
            of_label[8] = own[_NEAREST]
            of_label[9] = max(own[_COSINE], np.float32(0))
            of_label[10] = of_label[9] / max(largest_cosine, np.float32(1e-6))
            of_label[12] = own[_COMMON]
            of_label[13] = frequency[label]
            of_label[15] = of_label[13] * of_label[5]
            of_label[16] = of_label[13] * of_label[9]
            of_label[17] = channels.weights[row, 0] if channels.weights.shape[1] else np.float32(0)
            of_label[18] = largest_cosine
            of_label[19] = words
            own[_PLACE] = 0
        _clear_both(of_labels, _VOTES, _NEAREST, voted, by_votes)
        _clear_both(of_labels, _COSINE, _COMMON, worded, by_words)


@compiled
def _fetch_labels(of_labels, frequency, labels):  # type: ignore[no-untyped-def]
    """Prefetch what is written and read of labels, which lie far apart."""
    for label in labels:
        prefetch(of_labels, max(label, 0) * _OF_LABEL * of_labels.itemsize)
        prefetch(frequency, max(label, 0) * frequency.itemsize)


@compiled
def _vote(channels, row, of_labels, voted):  # type: ignore[no-untyped-def]
    """Sum and maximise the weights of the neighbours that have a label; return the number of labels."""
    count, lists = 0, channels.votes
    _fetch(lists, channels.neighbours[row])
    for text in channels.neighbours[row]:
        for j in range(lists.starts[max(text, 0)], lists.starts[text + 1] if text >= 0 else 0):
            prefetch(of_labels, lists.numbers[j] * _OF_LABEL * of_labels.itemsize)
    for i in range(channels.neighbours.shape[1]):
        text, weight = channels.neighbours[row, i], channels.weights[row, i]
        if text < 0 or weight == 0:
            break
        for j in range(lists.starts[text], lists.starts[text + 1]):
            label, value = lists.numbers[j], weight * lists.values[j]
            if value <= 0:
                continue
            if of_labels[label, _VOTES] == 0:
                voted[count] = label
                count += 1
                of_labels[label, _NEAREST] = weight  # neighbours come nearest first
            of_labels[label, _VOTES] += value
    return count


@compiled
def _fetch(lists, texts):  # type: ignore[no-untyped-def]
    """Prefetch the lists of texts, which lie far apart."""
    for text in texts:
        prefetch(lists.starts, max(text, 0) * lists.starts.itemsize)
    for text in texts:
        first = lists.starts[max(text, 0)]
        prefetch(lists.numbers, first * lists.numbers.itemsize)
        prefetch(lists.values, first * lists.values.itemsize)


@compiled
def _clear_both(of_labels, one, other, touched, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        of_labels[touched[i], one] = 0
        of_labels[touched[i], other] = 0


@compiled
def _share_words(label_texts, queries, row, of_labels, worded):  # type: ignore[no-untyped-def]
    """Sum a text's cosines with labels' texts, and the squared weights of a label's words that the text has; over all
    its words these add up to 1. Return the number of labels.

    Both are summed in one pass over the lists, so that what lies far apart arrives together.
    """
    count = 0
    for i in range(queries.starts[row], queries.starts[row + 1]):
        word, weight = queries.numbers[i], queries.values[i]
        if word < len(label_texts.starts) - 1:
            first, last = label_texts.starts[word], label_texts.starts[word + 1]
            numbers, values = label_texts.numbers[first:last], label_texts.values[first:last]
            for j in range(len(numbers)):
                if j + _AHEAD < len(numbers):
                    prefetch(of_labels, numbers[j + _AHEAD] * _OF_LABEL * of_labels.itemsize)
                label, before = numbers[j], of_labels[numbers[j], _COSINE]
                worded[count] = label  # without a branch: what is written in vain is written over next
                count += before == 0
                after = before + weight * values[j]
                of_labels[label, _COSINE] = after if after != 0 else TRACE
                of_labels[label, _COMMON] += values[j] * values[j]
    return count


@compiled
def _join(some, of_labels, labels, numbers, number, count):  # type: ignore[no-untyped-def]
    """Append labels, best first, to a row unless they are there, and write their reciprocal rank."""
    for i in range(len(some)):
        label = some[i]
        if label < 0:
            continue
        if of_labels[label, _PLACE] == 0:
            labels[count] = label
            count += 1
            of_labels[label, _PLACE] = count
        if number >= 0:
            numbers[int(of_labels[label, _PLACE]) - 1, number] = np.float32(1) / np.float32(i + 1)
    return count


@compiled
def columns_of(ranker):  # type: ignore[no-untyped-def]
    """Return the columns of a ranker's features, in the order of FURTHER."""
    if ranker == 0:
        return _OF_FIRST
    first = len(NUMBERS) + len(FURTHER) * (ranker - 1)
    return (first, first + 1, first + 2, first + 3, first + 4)


@compiled
def _listed_scores(listed, row, of_labels, labels, numbers, frequency, count, columns):  # type: ignore[no-untyped-def]
    """Write a ranker's features of all labels of a row, except their rank."""
    score, share, log_share, _, weighed = columns
    largest = np.float32(1e-30)
    for i in range(listed.labels.shape[1]):
        if listed.labels[row, i] >= 0:
            largest = max(largest, listed.scores[row, i])
    for i in range(listed.labels.shape[1]):
        label = listed.labels[row, i]
        if label >= 0:
            place = int(of_labels[label, _PLACE]) - 1
            numbers[place, score] = listed.scores[row, i]
            numbers[place, share] = max(listed.scores[row, i] / largest, np.float32(0))
    for i in range(count):
        numbers[i, log_share] = np.log(np.float32(1e-4) + numbers[i, share])
        numbers[i, weighed] = frequency[labels[i]] * numbers[i, log_share]
