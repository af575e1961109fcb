"""A ranker that combines another ranker with label trees, nearest texts and label texts.

The task is how that weighing is learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.kernels.spares import Spares
from laconic.models.fusion import Asked, Channels, Evidence, Listed, count_proposed, gather_evidence, listed, score_all
from laconic.models.fusion.evidence import make_workspace
from laconic.models.fusion.network import Combiner
from laconic.models.fusion.order import in_final_order
from laconic.models.rankers import Ranker, in_order
from laconic.models.shortlisters.base import pad_ranking
from laconic.types import NO_LABEL, Inputs, Ranking, Tokens


class Neighbourhood(Protocol):
    """A source of nearest training texts and label texts (models/nearest_ranker.py)."""

    def channels(self, inputs: Inputs) -> Channels: ...


class FusedRanker(Ranker):
    """Scores, as probabilities, the best labels of the base and of each channel, and any other by its features.

    `trees` is an optional second ranker. `siamese` and `transformer` are others, which score every candidate. `tail`
    shifts scores from frequent to rare labels. The other channels are searched by compiled loops, so they stay on the
    host wherever the base is.
    """

    frequency: Tensor

    def __init__(
        self,
        base: Ranker,
        nearest: Ranker,
        combiner: Combiner,
        frequency: Float[Tensor, "labels"],
        *,
        width: int,
        tail: float = 0.0,
        trees: Ranker | None = None,
        siamese: Ranker | None = None,
        transformer: Ranker | None = None,
    ) -> None:
        super().__init__()
        assert base.num_labels == nearest.num_labels == len(frequency)
        self.base, self.nearest, self.combiner = base, nearest, combiner
        self.trees, self.siamese, self.transformer = trees, siamese, transformer
        self.num_labels, self.num_ids = base.num_labels, base.num_ids
        self.width, self.tail = min(width, self.num_labels), tail
        self.register_buffer("frequency", frequency)
        self._workspaces = Spares(partial(make_workspace, self.num_labels))

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        found = self.evidence(inputs, at_least=k)
        ranking = in_order(torch.from_numpy(found.labels), self._scores(found), k)
        return Ranking(*(part.to(_device(inputs)) for part in ranking))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        wanted = labels.cpu()
        found = self.evidence(inputs, wanted=wanted)
        same = (wanted[:, :, None] == torch.from_numpy(found.labels)[:, None]) & (wanted != NO_LABEL)[:, :, None]
        return (same * self._scores(found)[:, None]).sum(2).to(labels.device)

    def evidence(
        self,
        inputs: Inputs,
        *,
        at_least: int = 0,
        wanted: Int[Tensor, "batch k"] | None = None,
        through: Callable[[Channels], Channels] = lambda channels: channels,
    ) -> Evidence:
        """Return the features of candidate labels, after `through` has changed the channels.

        There are at least `at_least` labels, and the wanted ones. Scores beyond the base's best `width` are not used,
        so that a label's features do not depend on how many are requested.
        """
        where = next(iter(self.base.state_dict().values())).device
        there, here = _on(where, inputs), _on(torch.device("cpu"), inputs)
        labels, scores = self.base.rank(there, min(max(self.width, at_least), self.num_labels))
        further = labels[:, self.width :] if wanted is None else wanted
        rankings = [Ranking(labels[:, : self.width], scores[:, : self.width])]
        rankings += [] if self.trees is None else [self.trees.rank(here, self.width)]
        every = [one for one in (self.siamese, self.transformer) if one is not None]
        first = len(rankings)
        rankings += [one.rank(there, self.width) for one in every]
        asked = Asked(tuple(_listed(one) for one in rankings), _host(further.long()))
        nearest: Neighbourhood = self.nearest  # type: ignore[assignment] # a ranker that also tells why
        channels = through(nearest.channels(here))
        found = gather_evidence(channels, asked, self.frequency.numpy(), self.width, self._workspaces)
        candidates = torch.from_numpy(found.labels).to(where)
        for number, one in enumerate(every, first):
            found_scores = _host(one.score(there, candidates).float())
            score_all(found, number, found_scores, count_proposed(found, asked), self.frequency.numpy())
        return found

    def with_tail(self, tail: float) -> FusedRanker:
        """Return the ranker with another tail bias."""
        return self.of(self.base, self.nearest, self.frequency, self.trees, self.siamese, self.transformer, tail=tail)

    def of(
        self,
        base: Ranker,
        nearest: Ranker,
        frequency: Float[Tensor, "labels"],
        trees: Ranker | None,
        siamese: Ranker | None,
        transformer: Ranker | None,
        *,
        tail: float | None = None,
    ) -> FusedRanker:
        """Return a ranker of other parts with this one's combiner."""
        tail = self.tail if tail is None else tail
        parts = base, nearest, self.combiner, frequency
        return FusedRanker(*parts, width=self.width, tail=tail, trees=trees, siamese=siamese, transformer=transformer)

    def _scores(self, found: Evidence) -> Float[Tensor, "batch n"]:
        network: Tensor = self.combiner(torch.from_numpy(found.numbers)).detach()
        scores = network
        if self.tail:
            usual = float(self.frequency.mean())
            scores = scores + self.tail * (usual - self.frequency[torch.from_numpy(np.maximum(found.labels, 0))])
        if self.combiner.order is not None:
            ordering = self.combiner.order.ordering()
            scores = torch.from_numpy(
                in_final_order(ordering, listed(found), found.numbers, network.numpy(), scores.numpy())
            )
        return scores.sigmoid().masked_fill(torch.from_numpy(found.labels) == NO_LABEL, 0)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FusedRanker:
        for part in (self.base, self.siamese, self.transformer):
            if part is not None:
                part._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


class SharedBase(Ranker):
    """What a rank after the first has of a fused ranker: its part of the base, whose labels all ranks share.

    It ranks by the base alone, as many labels as a FusedRanker asks of it, so that the first rank can do so.
    """

    def __init__(self, base: Ranker, *, width: int) -> None:
        super().__init__()
        self.base, self.width = base, min(width, base.num_labels)
        self.num_labels, self.num_ids = base.num_labels, base.num_ids

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        labels, scores = self.base.rank(inputs, min(max(self.width, k), self.num_labels))
        return pad_ranking(Ranking(labels[:, :k], scores[:, :k]), k)

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        self.rank(inputs, self.width)
        return torch.zeros(labels.shape, device=labels.device)


def _listed(ranking: Ranking) -> Listed:
    return Listed(_host(ranking.labels.long()), _host(ranking.scores.float()))


def _host(numbers: Tensor) -> np.ndarray:
    return np.ascontiguousarray(numbers.detach().cpu().numpy())


def _device(inputs: Inputs) -> torch.device:
    return inputs.ids.device if isinstance(inputs, Tokens) else inputs.device


def _on(device: torch.device, inputs: Inputs) -> Inputs:
    return Tokens(*(part.to(device) for part in inputs)) if isinstance(inputs, Tokens) else inputs.to(device)
