"""What methods learn from: inputs and labels as matrices, without names or files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from laconic.data.encoder_folder import Pretrained
from laconic.data.vectors import WordVectors
from laconic.system.sparse import csr_array

MOST_HELD_OUT = 20_000  # texts; more would not choose better, and are ranked after every epoch
Rows: TypeAlias = csr_array | Float[np.ndarray, "texts dim"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """One row per text. Token rows keep reading order (vocabulary.tokens); sparse features have none."""

    inputs: Rows
    labels: csr_array
    label_inputs: csr_array | None = None  # one row per label, over the same tokens as `inputs`
    leave_out: csr_array | None = None  # pairs that are neither true nor false; `prepare` leaves them out of `labels`
    weights: Float[np.ndarray, "texts"] | None = None
    groups: Int[np.ndarray, "texts"] | None = None  # numbers of groups that are held out whole; None: each text alone
    label_weights: Float[np.ndarray, "labels"] | None = None  # of a label's true pairs; None: all weigh 1
    word_vectors: WordVectors | None = None  # to start from
    pretrained: Pretrained | None = None  # the encoder to start from, whose pieces the inputs then are
    words: Sequence[str] | None = None  # spellings of the token ids from FIRST_WORD on; None: inputs are no texts
    ordered: bool = False  # whether token rows are in reading order
    validation: Dataset | None = None  # where the data came with texts to choose by
    extend: Callable[[Dataset], Dataset] | None = None  # adds to what is learnt from, once the rest is cut off
    extra: Bool[np.ndarray, "texts"] | None = None  # which rows were added so
    extra_share: float = 0.0  # of every batch that are such rows; 0: each is there once an epoch, like any text

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    @property
    def num_labels(self) -> int:
        """Return the number of labels."""
        return int(self.labels.shape[1])

    def split(self, fraction: float, seed: int) -> tuple[Dataset, Dataset]:
        """Return the data to learn from and to choose by: a validation split that came with it, or that fraction of the
        texts at random, at most MOST_HELD_OUT of them. Texts of one group stay together.
        """
        if fraction and self.validation is not None:
            return replace(self, validation=None).extended(), self.validation
        held = min(round(len(self) * fraction), MOST_HELD_OUT, len(self) - 1)
        order, held = drawn(len(self), held, seed, self.groups)
        return self.rows(np.sort(order[held:])).extended(), replace(self.rows(np.sort(order[:held])), extend=None)

    def extended(self) -> Dataset:
        """Return the data with its extra texts added; done once."""
        return self if self.extend is None else self.extend(replace(self, extend=None))

    def rows(self, rows: Int[np.ndarray, "n"]) -> Dataset:
        """Return the data of some texts."""
        return replace(
            self,
            inputs=self.inputs[rows],
            labels=self.labels[rows],
            leave_out=None if self.leave_out is None else self.leave_out[rows],
            weights=None if self.weights is None else self.weights[rows],
            groups=None if self.groups is None else self.groups[rows],
            extra=None if self.extra is None else self.extra[rows],
        )

    def relabelled(self, mapping: csr_array) -> Dataset:
        """Return the data with groups of labels as labels; `mapping` has a row for each label.

        A group's target is the largest of the text's labels in it. A group that a text would have for left-out labels
        alone is left out.
        """
        labels = grouped(self.labels, mapping)
        left_out = (
            None if self.leave_out is None else unless(grouped(self.leave_out.astype(np.float32), mapping), labels)
        )
        held = None if self.validation is None else self.validation.relabelled(mapping)
        return replace(self, labels=labels, label_inputs=None, leave_out=left_out, validation=held, label_weights=None)

    def renumbered(self, numbers: Int[np.ndarray, "labels"]) -> Dataset:
        """Return the data with labels renumbered; numbers[i] is the new number of label i."""
        weights = None if self.label_weights is None else self.label_weights[np.argsort(numbers)]
        return replace(
            self,
            labels=renumbered(self.labels, numbers, self.num_labels),
            label_inputs=None if self.label_inputs is None else self.label_inputs[np.argsort(numbers)],
            leave_out=None if self.leave_out is None else renumbered(self.leave_out, numbers, self.num_labels),
            validation=None if self.validation is None else self.validation.renumbered(numbers),
            label_weights=weights,
        )

    @property
    def label_counts(self) -> Int[np.ndarray, "labels"]:
        """Return the number of texts of each label."""
        return label_counts(self.labels)


def drawn(
    texts: int, wanted: int, seed: int, groups: Int[np.ndarray, "texts"] | None
) -> tuple[Int[np.ndarray, "texts"], int]:
    """Return the texts in a drawn order, and how many of the first to hold out: as many as are wanted.

    With groups, these are whole groups and about as many texts. Groups larger than that come last; one group at least
    is left.
    """
    if groups is None:
        return np.random.default_rng(seed).permutation(texts), wanted
    _, numbers, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    groups_drawn = np.random.default_rng(seed).permutation(len(sizes))
    groups_drawn = groups_drawn[np.argsort(np.where(sizes > wanted, sizes, 0)[groups_drawn], kind="stable")]
    place = np.empty_like(groups_drawn)
    place[groups_drawn] = np.arange(len(groups_drawn))
    ends = np.cumsum(sizes[groups_drawn])[:-1]
    held = int(ends[np.abs(ends - wanted).argmin()]) if wanted and len(ends) else 0
    return np.argsort(place[numbers], kind="stable"), held


def label_counts(labels: csr_array) -> Int[np.ndarray, "labels"]:
    """Count the texts of each label; a stored zero does not count."""
    return np.bincount(labels.indices[labels.data != 0], minlength=labels.shape[1])


def grouped(pairs: csr_array, mapping: csr_array) -> csr_array:
    """Return each row's groups, with the largest value of its labels in each."""
    groups = np.diff(mapping.indptr)[pairs.indices]  # how many each pair's label is in
    pair = np.repeat(np.arange(pairs.nnz), groups)
    nth = np.arange(len(pair)) - np.repeat(groups.cumsum() - groups, groups)
    group = mapping.indices[mapping.indptr[pairs.indices[pair]] + nth]
    row = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))[pair]
    there = np.flatnonzero(pairs.data[pair] > 0)
    key = row[there].astype(np.int64) * mapping.shape[1] + group[there]
    found, place = np.unique(key, return_inverse=True)
    values = np.zeros(len(found), dtype=np.float32)
    np.maximum.at(values, place, pairs.data[pair[there]])
    starts = np.searchsorted(found, np.arange(pairs.shape[0] + 1) * mapping.shape[1])
    return csr_array((values, found % mapping.shape[1], starts), shape=(pairs.shape[0], mapping.shape[1]))


def unless(pairs: csr_array, others: csr_array) -> csr_array:
    """Return the pairs that are not among the others."""
    alone = csr_array(pairs - pairs.multiply(others != 0))
    alone.eliminate_zeros()
    return alone


def renumbered(pairs: csr_array, numbers: Int[np.ndarray, "labels"], width: int) -> csr_array:
    """Return the pairs with label i as label numbers[i], of `width` labels."""
    moved = csr_array((pairs.data.copy(), numbers[pairs.indices], pairs.indptr), shape=(pairs.shape[0], width))
    moved.sort_indices()
    return moved
