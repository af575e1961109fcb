"""A dataset in device memory; a batch is a function of row numbers, in fixed shapes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset, label_counts, unless
from laconic.data.shards import Shard
from laconic.data.tokenizer import padded
from laconic.types import NO_LABEL, PAD, Batch, Inputs, Tokens

log = logging.getLogger(__name__)
_ROOM = 256  # labels a text that are always learnt; and always four times as many as 99 % of texts have


@dataclass(frozen=True, kw_only=True, eq=False)
class Resident:
    """Training data on the device, cut to fixed shapes."""

    inputs: Inputs
    starts: Int[Tensor, "texts"]  # of each text's labels in `labels`
    counts: Int[Tensor, "texts"]
    labels: Int[Tensor, "pairs"]
    targets: Float[Tensor, "pairs"] | None
    weights: Float[Tensor, "texts"] | None
    width: int  # the most labels that any text has here
    negatives: Int[Tensor, "texts n"] | None = None
    left_out: Int[Tensor, "texts q"] | None = None  # labels that are neither true nor false
    extra: Int[Tensor, "extra"] | None = None  # rows of which every batch has a fraction; None: all rows are alike
    extra_share: float = 0.0

    @staticmethod
    def of(
        data: Dataset,
        length: int,
        device: torch.device,
        negatives: Int[Tensor, "texts n"] | None = None,
        shard: Shard | None = None,
    ) -> Resident:
        """Return all of the data; texts are cut at `length` words, and their labels where `bounded` says.

        With a shard, labels of other ranks are left out, and its own are numbered from 0.
        """
        labels = bounded(data.labels)
        left_out = None if data.leave_out is None else unless(data.leave_out.astype(np.float32), labels)
        shares = None if (labels.data == 1).all() else _shares(labels.data)
        if shard is not None and shard.ranks.world > 1:
            labels, shares = _own(labels, shares, shard)
            left_out = None if left_out is None else _own(left_out, None, shard)[0]
        inputs: Inputs
        if isinstance(data.inputs, csr_array):
            inputs = Tokens(*(part.to(device) for part in padded(data.inputs, length)))
        else:
            inputs = torch.from_numpy(data.inputs).to(device)
        return Resident(
            inputs=inputs,
            starts=torch.from_numpy(labels.indptr[:-1].astype(np.int64)).to(device),
            counts=torch.from_numpy(np.diff(labels.indptr).astype(np.int64)).to(device),
            labels=torch.from_numpy(labels.indices.astype(np.int64)).to(device),
            targets=None if shares is None else torch.from_numpy(shares).to(device),
            weights=None if data.weights is None else torch.from_numpy(data.weights).to(device),
            width=max(1, int(np.diff(labels.indptr).max(initial=0))),
            negatives=None if negatives is None else negatives.to(device),
            left_out=None if left_out is None or not left_out.nnz else _in_rows(left_out).to(device),
            extra=torch.from_numpy(np.flatnonzero(data.extra)) if data.extra is not None and data.extra_share else None,
            extra_share=data.extra_share,
        )

    def __len__(self) -> int:
        return len(self.starts)

    def steps(self, batch_size: int) -> int:
        """Return the number of steps of an epoch."""
        extra = 0 if self.extra is None else len(self.extra)
        return -(-(len(self) - extra) // (batch_size - self._extra_of(batch_size)))

    def order(self, epoch: int, seed: int, batch_size: int) -> Int[Tensor, "steps batch"]:
        """Return the rows of every step of an epoch, every text once; the last step is filled up from the first.

        Extra rows that have a fixed fraction of every batch rotate from one epoch to the next.
        """
        steps, few = self.steps(batch_size), self._extra_of(batch_size)
        if self.extra is None:
            return _dealt(_shuffled(len(self), seed * 1_000_003 + epoch), steps, batch_size)
        texts = torch.ones(len(self), dtype=torch.bool).index_fill_(0, self.extra, False).nonzero().flatten()
        own = _dealt(texts[_shuffled(len(texts), seed * 1_000_003 + epoch)], steps, batch_size - few)
        first, last = epoch * steps * few, (epoch + 1) * steps * few
        rounds = range(first // len(self.extra), -(-last // len(self.extra)))
        # Seeds below 0 are of no order of texts.
        rows = torch.cat([self.extra[_shuffled(len(self.extra), -1 - seed * 1_000_003 - turn)] for turn in rounds])
        begin = first - rounds.start * len(self.extra)
        return torch.cat([own, rows[begin : begin + last - first].view(steps, few)], dim=1)

    def _extra_of(self, batch_size: int) -> int:
        """Return the number of extra rows of a batch: both kinds are in every batch."""
        return 0 if self.extra is None else min(max(round(self.extra_share * batch_size), 1), batch_size - 1)

    def take(self, rows: Int[Tensor, "batch"]) -> Batch:
        place = torch.arange(self.width, device=rows.device)
        there = place < self.counts[rows, None]
        pairs = (self.starts[rows, None] + place) * there  # 0 where there is none: any pair will do, it is masked
        return Batch(
            self._inputs(rows),
            torch.where(there, self.labels[pairs], NO_LABEL),
            None if self.targets is None else self.targets[pairs] * there,
            None if self.weights is None else self.weights[rows],
            None if self.negatives is None else self.negatives[rows].long(),
            None if self.left_out is None else self.left_out[rows].long(),
        )

    def _inputs(self, rows: Int[Tensor, "batch"]) -> Inputs:
        if not isinstance(self.inputs, Tokens):
            return self.inputs[rows]
        tokens = Tokens(self.inputs.ids[rows], self.inputs.weights[rows])
        if rows.is_cuda:
            return tokens  # fixed shapes, and no look at the values, which would make the host wait
        longest = int((tokens.ids != PAD).any(0).sum().clamp(min=1))
        return Tokens(tokens.ids[:, :longest], tokens.weights[:, :longest])


def bounded(labels: csr_array) -> csr_array:
    """Return the labels cut to a bound per text, so that one text of very many labels does not widen every batch.

    The rarest labels of such a text are kept: each of the others has texts enough. They count as false for this text.
    """
    counts = np.diff(labels.indptr)
    most = max(_ROOM, 4 * int(np.quantile(counts, 0.99, method="inverted_cdf"))) if len(counts) else _ROOM
    wide = np.flatnonzero(counts > most)
    if not len(wide):
        return labels
    frequency, kept = label_counts(labels), np.ones(labels.nnz, dtype=bool)
    for row in wide:
        span = slice(labels.indptr[row], labels.indptr[row + 1])
        rarest = np.argsort(frequency[labels.indices[span]], kind="stable")
        kept[span][rarest[most:]] = False
    _warn_once(most, len(wide), int(np.count_nonzero(~kept)))
    starts = np.concatenate([[0], np.cumsum(kept)])[labels.indptr]
    return csr_array((labels.data[kept], labels.indices[kept], starts), shape=labels.shape)


def _shuffled(count: int, seed: int) -> Int[Tensor, "count"]:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def _dealt(rows: Int[Tensor, "rows"], steps: int, size: int) -> Int[Tensor, "steps size"]:
    return rows.repeat(-(-steps * size // len(rows)))[: steps * size].view(steps, size)


def _in_rows(pairs: csr_array) -> Int[Tensor, "texts q"]:
    """Return each text's labels; rows end in NO_LABEL."""
    counts = np.diff(pairs.indptr)
    there = np.arange(counts.max()) < counts[:, None]
    rows = np.full(there.shape, NO_LABEL, dtype=np.int32)
    rows[there] = pairs.indices
    return torch.from_numpy(rows)


def _own(
    pairs: csr_array, values: Float[np.ndarray, "pairs"] | None, shard: Shard
) -> tuple[csr_array, Float[np.ndarray, "own"] | None]:
    """Return the pairs of a shard's labels, numbered from its first, and of `values` those of these pairs."""
    kept = (pairs.indices >= shard.first) & (pairs.indices < shard.last)
    starts = np.concatenate([[0], np.cumsum(kept)])[pairs.indptr]
    own = csr_array((pairs.data[kept], pairs.indices[kept] - shard.first, starts), shape=(pairs.shape[0], len(shard)))
    return own, None if values is None else values[kept]


def _shares(weights: Float[np.ndarray, "pairs"]) -> Float[np.ndarray, "pairs"]:
    """Scale label weights to targets of at most 1: a cross-entropy has no minimum above that."""
    return (weights / max(float(weights.max(initial=1)), 1)).astype(np.float32)


@cache
def _warn_once(most: int, texts: int, pairs: int) -> None:
    """Say it once of all stages of a run."""
    log.warning(
        "texts with more than %d labels: %d; the %d rarest labels of each are learnt, %d pairs are not",
        *(most, texts, most, pairs),
    )
