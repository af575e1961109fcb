"""Shards of labels: the range of label rows that a rank owns among those of all ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from laconic.errors import ConfigError
from laconic.system.ranks import ALONE, Ranks
from laconic.types import NO_LABEL, Ranking
from laconic.units import counted


@dataclass(frozen=True)
class Shard:
    """A range of rows, and who owns the others; a process alone owns all of them."""

    ranks: Ranks
    bounds: tuple[int, ...]  # the rows of rank r are those from bound r up to bound r + 1

    @staticmethod
    def whole(total: int) -> Shard:
        """Return the shard of a process that owns all rows."""
        return Shard(ALONE, (0, total))

    @staticmethod
    def even(ranks: Ranks, total: int, noun: str = "label") -> Shard:
        """Return the shard of this rank where every rank owns about as many rows."""
        if total < ranks.world:
            raise ConfigError(
                f"{counted(total, noun)} cannot be spread over {ranks.world} ranks; start as many ranks at most"
            )
        return Shard(ranks, tuple(total * rank // ranks.world for rank in range(ranks.world + 1)))

    @property
    def first(self) -> int:
        return self.bounds[self.ranks.rank]

    @property
    def last(self) -> int:
        """Return the number after that of the last own row."""
        return self.bounds[self.ranks.rank + 1]

    @property
    def total(self) -> int:
        """Return how many rows all ranks have together."""
        return self.bounds[-1]

    @property
    def own(self) -> slice:
        return slice(self.first, self.last)

    def __len__(self) -> int:
        return self.last - self.first

    def numbered(self, labels: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Return the numbers of labels among the own ones; NO_LABEL for those of other ranks."""
        if self.ranks.world == 1:
            return labels
        return torch.where((labels >= self.first) & (labels < self.last), labels - self.first, NO_LABEL)

    def own_lists(self, lists: Int[Tensor, "rows n"]) -> Int[Tensor, "rows k"]:
        """Return the own labels of each list, by their own numbers; rows end in NO_LABEL, and are no wider than one."""
        if self.ranks.world == 1:
            return lists
        numbers = self.numbered(lists)
        first = (numbers == NO_LABEL).sort(dim=1, stable=True)
        widest = int((numbers != NO_LABEL).sum(1).max()) if len(lists) else 0
        return numbers.gather(1, first.indices[:, : max(1, widest)])

    def best(self, own: Ranking, k: int) -> Ranking:
        """Return the best k labels of all ranks, from the best k (or all) of each in its own numbers, best first."""
        if self.ranks.world == 1:
            return own
        missing = (0, k - own.labels.shape[1])
        scores = self.ranks.gather(functional.pad(own.scores, missing, value=-torch.inf))
        labels = self.ranks.gather(functional.pad(own.labels + self.first, missing, value=NO_LABEL))
        best = torch.cat(scores, 1).topk(min(k, self.total))
        return Ranking(torch.cat(labels, 1).gather(1, best.indices), best.values)

    def picked(self, own: Ranking, k: int) -> Int[Tensor, "batch k"]:
        """Return those own rows that are among the best k of all ranks, from the best k (or all) of each.

        All ranks together pick exactly k, as scores alone are gathered, and all choose alike among ties. Where a row
        was not picked, its place has the number after the last own row.
        """
        if self.ranks.world == 1:
            return own.labels
        missing = (0, k - own.labels.shape[1])
        scores = torch.cat(self.ranks.gather(functional.pad(own.scores, missing, value=-torch.inf)), 1)
        chosen = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, scores.topk(k).indices, True)
        first = self.ranks.rank * k
        labels = functional.pad(own.labels, missing, value=len(self))
        return labels.masked_fill(~chosen[:, first : first + k], len(self))

    def join(self, rows: Tensor) -> Tensor | None:
        """Return the rows of all ranks on the first one's CPU; None on the others."""
        return self.ranks.join_rows(rows, self.bounds)
