"""A graph of labels that occur together, by random walks from label to text to label."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from laconic.kernels.csr import Lists, in_threads
from laconic.kernels.jit import compiled
from laconic.models.clustering.rows import add_to, empty_out, make_space, take_out

_BLOCK = 256  # labels that share a generator, so that no walk depends on how threads share the work


def label_graph(
    texts_of: csr_array, *, steps: int, restart: float, neighbours: int, most: float, seed: int
) -> csr_array:
    """Return for each label how often a walk from it visits the labels that it visits most, itself among them.

    texts_of has a row per label. A label of more than `most` texts goes with everything, so no walk begins at it or
    comes through it. A walk goes back to its beginning before a step by a chance of `restart`.
    """
    num_labels = texts_of.shape[0]
    walked = csr_array(texts_of.multiply((np.diff(texts_of.indptr) <= most)[:, None]))
    walked.eliminate_zeros()
    texts, labels = Lists.of(walked), Lists.inverted(walked)
    numbers = np.repeat(np.arange(num_labels, dtype=np.int32)[:, None], neighbours, axis=1)
    visits = np.zeros(numbers.shape, dtype=np.float32)

    def work(first: int, last: int) -> None:
        space = make_space(num_labels)
        for block in range(first, last):
            begin = block * _BLOCK
            draws = np.random.default_rng([seed, block]).random((min(_BLOCK, num_labels - begin), steps, 3))
            _walk(texts, labels, begin, draws, restart, numbers, visits, space)

    in_threads(-(-num_labels // _BLOCK), work)
    starts = np.arange(num_labels + 1) * neighbours
    graph = csr_array((visits.ravel(), numbers.ravel(), starts), shape=(num_labels, num_labels))
    graph.eliminate_zeros()
    return graph


def by_rows(graph: csr_array) -> csr_array:
    """Return D⁻¹ G, whose rows have an ℓ1 length of 1 (DeepXML)."""
    leaving = np.repeat(graph.sum(axis=1), np.diff(graph.indptr))
    return csr_array((graph.data / leaving, graph.indices, graph.indptr), shape=graph.shape)


def symmetric(graph: csr_array) -> csr_array:
    """Return D⁻½ G D⁻½ (ECLARE): each visit is divided by the roots of what leaves a label and what arrives there."""
    leaving = np.repeat(graph.sum(axis=1), np.diff(graph.indptr))
    arriving = graph.sum(axis=0)[graph.indices]
    return csr_array((graph.data / np.sqrt(leaving * arriving), graph.indices, graph.indptr), shape=graph.shape)


@compiled
def _walk(texts, labels, begin, draws, restart, numbers, visits, space):  # type: ignore[no-untyped-def]
    for i in range(len(draws)):
        start = begin + i
        count = add_to(space, start, 1.0, 0)  # a label goes with itself, also where no walk can begin
        if texts.starts[start + 1] > texts.starts[start]:
            at = start
            for step in range(draws.shape[1]):
                if draws[i, step, 0] < restart:
                    at = start
                at = _drawn(labels, _drawn(texts, at, draws[i, step, 1]), draws[i, step, 2])
                count = add_to(space, at, 1.0, count)
        numbers[start, 0], visits[start, 0] = start, space.totals[start]
        take_out(space, 1, count, numbers[start, 1:], visits[start, 1:])
        empty_out(space, count)


@compiled
def _drawn(lists, row, chance):  # type: ignore[no-untyped-def]
    first, last = lists.starts[row], lists.starts[row + 1]
    return lists.numbers[first + int(chance * (last - first))]
