"""Rankers: inputs in, the best labels out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from laconic.models.classifiers import Classifier, HashedClassifier
from laconic.models.encoders import Encoder
from laconic.models.shortlisters.base import Shortlister, join_rankings, pad_ranking
from laconic.models.shortlisters.clusters import Clusters
from laconic.models.shortlisters.selection import largest
from laconic.types import NO_LABEL, Inputs, Ranking, Tokens

_GATHERED = 1 << 26  # numbers of label rows that are gathered at a time

SHARES = tuple(tenths / 10 for tenths in range(11))  # the weights of a score that are tried


class Ranker(nn.Module, ABC):
    """Ranks labels for inputs. `score` gives the labels of `rank` the same scores, and any other label its own."""

    num_labels: int
    """Number of labels."""
    num_ids: int = 0
    """Token ids that it knows. 0: any."""
    takes_host_inputs: bool = False
    """Whether it brings inputs to its device by itself, faster than a caller would, and its answers back."""

    @abstractmethod
    def rank(self, inputs: Inputs, k: int) -> Ranking:
        """Return the best k labels of each input, best first; rows end in NO_LABEL if there are fewer labels."""

    @abstractmethod
    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        """Return the scores of the given labels."""


class FlatRanker(Ranker):
    """Scores every label. Scores are probabilities; the order is that of the logits."""

    def __init__(self, encoder: Encoder, classifier: Classifier, *, chunk: int = 1 << 17) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.num_labels, self.num_ids, self.chunk = classifier.shard.total, encoder.num_ids, chunk

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        transformed = self.classifier.transform(self.encoder(inputs))
        parts = [self._best_of(transformed, first, k) for first in range(0, self.classifier.num_labels, self.chunk)]
        labels, scores = join_rankings(parts, 1)
        own = scores.topk(min(k, scores.shape[1]))
        best = self.classifier.shard.best(Ranking(labels.gather(1, own.indices), own.values), k)
        return pad_ranking(Ranking(best.labels, best.scores.sigmoid()), k)

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        shard = self.classifier.shard
        return shard.ranks.sum(self.classifier.score(self.encoder(inputs), shard.numbered(labels))).sigmoid()

    def _best_of(self, transformed: Float[Tensor, "batch dim"], first: int, k: int) -> Ranking:
        last = min(first + self.chunk, self.classifier.num_labels)
        best = largest(self.classifier.score_range(transformed, slice(first, last)), min(k, last - first))
        return Ranking(best.labels + first, best.scores)


class ShortlistRanker(Ranker):
    """Scores the labels of the `top` best clusters of a text, or of more clusters where k needs them.

    Scores are the classifier's probabilities or, where `product`, those times the cluster's. In training, the best
    `trained` clusters of a text were probed (0: as many as `top`), so that the classifier alone says nothing of labels
    beyond them: a ranker that probes more uses the product.
    """

    def __init__(
        self,
        encoder: Encoder,
        clusters: Clusters,
        classifier: Classifier,
        *,
        top: int,
        product: bool = False,
        trained: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.clusters, self.classifier = encoder, clusters, classifier
        self.top, self.trained = top, trained or top
        self.product = product or top > self.trained
        self._always_product = product
        self.num_labels, self.num_ids = classifier.shard.total, encoder.num_ids

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        vectors = self.encoder(inputs)
        picked = self.clusters(vectors, max(self.top, self.clusters.enough(k)))
        size = max(1, _GATHERED // (self.clusters.size * picked.labels.shape[1] * vectors.shape[1]))
        parts = zip(*(torch.split(part, size) for part in (vectors, *picked)), strict=True)
        return join_rankings([self._best_of(some, Ranking(*clusters), k) for some, *clusters in parts])

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        shard, vectors = self.classifier.shard, self.encoder(inputs)
        own = shard.numbered(self.places(labels.clamp(min=0)))
        scores = shard.ranks.sum(self.classifier.score(vectors, own))
        of_clusters = None
        if self.product:
            of_clusters = shard.ranks.sum(self.clusters.classifier.score(vectors, self.clusters.of(own)))
        return self._logs(scores, of_clusters).exp().masked_fill(labels == NO_LABEL, 0)

    def with_beam(self, top: int) -> ShortlistRanker:
        """Return the ranker with that many probed clusters, or all there are."""
        return self._like(self.encoder, self.clusters, self.classifier, min(top, self.clusters.shard.total))

    def over(self, encoder: Encoder, clusters: Clusters, classifier: Classifier) -> ShortlistRanker:
        """Return a ranker of other parts with the same settings."""
        return self._like(encoder, clusters, classifier, self.top)

    def _like(self, encoder: Encoder, clusters: Clusters, classifier: Classifier, top: int) -> ShortlistRanker:
        product = self._always_product
        return ShortlistRanker(encoder, clusters, classifier, top=top, product=product, trained=self.trained)

    def picked(self, inputs: Inputs) -> Int[Tensor, "batch top"]:
        """Return the probed clusters, best first."""
        return self.clusters(self.encoder(inputs), self.top).labels

    def places(self, labels: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Return the positions of labels in cluster order."""
        order = self.clusters.order
        numbers = torch.arange(len(order), device=order.device)
        return torch.empty_like(order).scatter_(0, order, numbers)[labels.to(order.device)]

    def _best_of(self, vectors: Float[Tensor, "batch dim"], picked: Ranking, k: int) -> Ranking:
        places = self.clusters.members(picked.labels)
        of_clusters = picked.scores.repeat_interleave(self.clusters.size, dim=1) if self.product else None
        logs = self._logs(self.classifier.score(vectors, places), of_clusters)
        own = logs.masked_fill(places == NO_LABEL, -torch.inf).topk(min(k, places.shape[1]))
        best = self.classifier.shard.best(Ranking(places.gather(1, own.indices), own.values), k)
        labels = self.clusters.order[best.labels.clamp(min=0)]
        return pad_ranking(Ranking(labels.masked_fill(best.scores == -torch.inf, NO_LABEL), best.scores.exp()), k)

    def _logs(
        self, scores: Float[Tensor, "batch n"], of_clusters: Float[Tensor, "batch n"] | None
    ) -> Float[Tensor, "batch n"]:
        logs = functional.logsigmoid(scores)
        return logs if of_clusters is None else logs + functional.logsigmoid(of_clusters)


class CandidatesRanker(Ranker):
    """Scores the labels nearest to a text's vector by a blend of classifier and nearness.

    Both are sigmoids divided by the row's largest (DeepXML's code); `beta` is the classifier's weight.
    """

    beta: Tensor

    def __init__(self, encoder: Encoder, shortlister: Shortlister, classifier: Classifier, *, beta: float) -> None:
        super().__init__()
        self.encoder, self.shortlister, self.classifier = encoder, shortlister, classifier
        self.num_labels, self.num_ids = classifier.shard.total, encoder.num_ids
        self.register_buffer("beta", torch.tensor(beta, device=next(classifier.parameters()).device))

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        return self.rank_by(inputs, k, [float(self.beta)])[0]

    def rank_by(self, inputs: Inputs, k: int, betas: Sequence[float]) -> list[Ranking]:
        """Return a ranking for each weight of the classifier, at little more than the cost of one."""
        vectors, size = self.encoder(inputs), self.shortlister.size
        candidates = self.shortlister(inputs, vectors, size)
        labels = candidates.labels if k <= size else self.shortlister(inputs, vectors, k).labels
        return [_best(labels, scores, k) for scores in self._scores(vectors, candidates, labels, betas)]

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        vectors = self.encoder(inputs)
        candidates = self.shortlister(inputs, vectors, self.shortlister.size)
        (scores,) = self._scores(vectors, candidates, labels, [float(self.beta)])
        return scores.masked_fill(labels == NO_LABEL, 0)

    def listing(self, shortlister: Shortlister) -> CandidatesRanker:
        """Return the ranker with another shortlister."""
        return CandidatesRanker(self.encoder, shortlister, self.classifier, beta=float(self.beta))

    def blended(self, beta: float) -> CandidatesRanker:
        """Return the ranker with another weight of the classifier."""
        return CandidatesRanker(self.encoder, self.shortlister, self.classifier, beta=beta).to(self.beta.device)

    def _scores(
        self,
        vectors: Float[Tensor, "batch dim"],
        candidates: Ranking,
        labels: Int[Tensor, "batch n"],
        betas: Sequence[float],
    ) -> list[Float[Tensor, "batch n"]]:
        """Score labels for each weight of the classifier. Labels that are no candidates come after those that are."""
        own = _probabilities(self.classifier, vectors, candidates.labels)
        largest, nearest = _largest(own), _largest(candidates.scores.sigmoid())
        by_both = own / largest, candidates.scores.sigmoid() / nearest
        inside = [beta * by_both[0] + (1 - beta) * by_both[1] for beta in betas]
        if labels is candidates.labels:
            return inside
        some, near = _probabilities(self.classifier, vectors, labels) / largest, _among(labels, candidates)
        last = [one.masked_fill(candidates.labels == NO_LABEL, torch.inf).amin(1, keepdim=True) for one in inside]
        found = [beta * some + (1 - beta) * near.sigmoid() / nearest for beta in betas]
        return [torch.where(near.isinf(), one.minimum(end), one) for one, end in zip(found, last, strict=True)]


class Reranker(Ranker):
    """Scores the best `size` labels of another ranker anew, blended with that ranker's scores.

    Both are divided by the row's largest; `alpha` is the re-ranker's weight. All other labels have the base's scores
    alone and come after.
    """

    alpha: Tensor

    def __init__(self, base: Ranker, encoder: Encoder, classifier: Classifier, *, size: int, alpha: float) -> None:
        super().__init__()
        assert base.num_labels == classifier.num_labels
        self.base, self.encoder, self.classifier = base, encoder, classifier
        self.num_labels, self.num_ids = classifier.num_labels, encoder.num_ids
        self.size = min(size, self.num_labels)
        self.register_buffer("alpha", torch.tensor(alpha, device=next(classifier.parameters()).device))

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        return self.rank_by(inputs, k, [float(self.alpha)])[0]

    def rank_by(self, inputs: Inputs, k: int, alphas: Sequence[float]) -> list[Ranking]:
        """Return a ranking for each weight of the re-ranker, at little more than the cost of one."""
        return self.rerank(inputs, self.base.rank(inputs, max(self.size, k)), k, alphas)

    def rerank(self, inputs: Inputs, ranked: Ranking, k: int, alphas: Sequence[float]) -> list[Ranking]:
        """Re-rank a ranking of the base, of `size` labels or more, for each weight of the re-ranker."""
        own = self._probabilities_of(inputs, ranked.labels[:, : self.size])
        own = functional.pad(own, (0, ranked.labels.shape[1] - own.shape[1]))
        by_base = ranked.scores / _largest(ranked.scores)
        return [in_order(ranked.labels, alpha * own + (1 - alpha) * by_base, k) for alpha in alphas]

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        candidates = self.base.rank(inputs, self.size)
        own = _among(labels, Ranking(candidates.labels, self._probabilities_of(inputs, candidates.labels))).clamp(min=0)
        by_base = self.base.score(inputs, labels) / _largest(candidates.scores)
        return (self.alpha * own + (1 - self.alpha) * by_base).masked_fill(labels == NO_LABEL, 0)

    def blended(self, alpha: float) -> Reranker:
        """Return the ranker with another weight of the re-ranker."""
        return Reranker(self.base, self.encoder, self.classifier, size=self.size, alpha=alpha)

    def _probabilities_of(self, inputs: Inputs, candidates: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n"]:
        """Return the probabilities of the base's candidates by the re-ranker's own classifier."""
        scores = _probabilities(self.classifier, self.encoder(inputs), candidates)
        return scores / _largest(scores)


def _probabilities(
    classifier: Classifier, vectors: Float[Tensor, "batch dim"], labels: Int[Tensor, "batch n"]
) -> Float[Tensor, "batch n"]:
    """Compute probabilities of labels by a classifier of all ranks, a few texts at a time; NO_LABEL has 0."""
    rows = max(1, _GATHERED // max(1, labels.shape[1] * vectors.shape[1]))
    parts = zip(torch.split(vectors, rows), torch.split(classifier.shard.numbered(labels), rows), strict=True)
    scores = classifier.shard.ranks.sum(torch.cat([classifier.score(part, some) for part, some in parts]))
    return scores.sigmoid().masked_fill(labels == NO_LABEL, 0)


def _largest(scores: Float[Tensor, "batch n"]) -> Float[Tensor, "batch 1"]:
    """Return each row's largest score, to divide by."""
    return scores.amax(1, keepdim=True).clamp(min=1e-12)


def _among(labels: Int[Tensor, "batch n"], candidates: Ranking) -> Float[Tensor, "batch n"]:
    """Return the labels' scores as candidates; -inf for others."""
    same = (labels[:, :, None] == candidates.labels[:, None]) & (labels != NO_LABEL)[:, :, None]
    return torch.where(same, candidates.scores[:, None], -torch.inf).amax(2)


def _best(labels: Int[Tensor, "batch n"], scores: Float[Tensor, "batch n"], k: int) -> Ranking:
    best = scores.masked_fill(labels == NO_LABEL, -torch.inf).topk(min(k, labels.shape[1]))
    kept = labels.gather(1, best.indices)
    return Ranking(kept, best.values.masked_fill(kept == NO_LABEL, 0))


class BucketsRanker(Ranker):
    """Scores a label by the mean, over members, of its bucket's probability (MACH). Ties go to the smaller label.

    Labels that share a bucket in every member cannot be distinguished.
    """

    def __init__(self, members: Sequence[tuple[Encoder, HashedClassifier]], *, at_once: int = 1 << 24) -> None:
        super().__init__()
        encoder, classifier = members[0]
        self.num_labels, self.num_ids = classifier.num_labels, encoder.num_ids
        assert all((one.num_ids, other.num_labels) == (self.num_ids, self.num_labels) for one, other in members)
        parts = [nn.ModuleDict({"encoder": encoder, "classifier": classifier}) for encoder, classifier in members]
        self.members = nn.ModuleList(parts)
        self.at_once = at_once  # pairs of text and label that are scored at a time

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        parts = self._probabilities(inputs)
        if not len(parts[0]):
            return Ranking(parts[0].new_empty((0, k), dtype=torch.int64), parts[0].new_empty((0, k)))
        # A row for each bucket of each member, so that what a label adds up lies together for all texts.
        table = torch.cat([part.T for part in parts])
        starts = torch.tensor([0, *(part.shape[1] for part in parts)], device=table.device).cumsum(0)[:-1]
        buckets = torch.stack([classifier.bucket_of for _, classifier in self.parts()], dim=1)
        size = max(1, self.at_once // max(1, table.shape[1]))
        best = torch.empty((table.shape[1], 0), dtype=torch.int64, device=table.device)
        for first in range(0, self.num_labels, size):
            rows = buckets[first : first + size] + starts
            means = functional.embedding_bag(rows, table, mode="mean").T.detach()
            keys = _keys(means, torch.arange(first, first + len(rows), device=table.device))
            best = torch.cat([best, keys.topk(min(k, keys.shape[1])).values], dim=1)
            best = best.topk(min(k, best.shape[1])).values
        return pad_ranking(_of_keys(best), k)

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        there = labels.clamp(min=0)
        parts = zip(self._probabilities(inputs), self.parts(), strict=True)
        own = [part.gather(1, classifier.bucket_of[there].long()) for part, (_, classifier) in parts]
        return torch.stack(own).mean(0).masked_fill(labels == NO_LABEL, 0)

    def _probabilities(self, inputs: Inputs) -> list[Float[Tensor, "batch buckets"]]:
        """Return the probabilities of every member's buckets."""
        return [classifier.buckets.score_all(encoder(inputs)).sigmoid() for encoder, classifier in self.parts()]

    def parts(self) -> list[tuple[Encoder, HashedClassifier]]:
        members = [cast(nn.ModuleDict, member) for member in self.members]
        return [(cast(Encoder, one["encoder"]), cast(HashedClassifier, one["classifier"])) for one in members]


def _keys(scores: Float[Tensor, "batch n"], labels: Int[Tensor, "n"]) -> Int[Tensor, "batch n"]:
    """Return integers ordered by score (0 or more) and, among ties, by descending label.

    The bits of a non-negative float, read as an integer, are ordered like the floats.
    """
    last = torch.iinfo(torch.int32).max
    return (scores.contiguous().view(torch.int32).long() << 32) | (last - labels)


def _of_keys(keys: Int[Tensor, "batch n"]) -> Ranking:
    last = torch.iinfo(torch.int32).max
    return Ranking(last - (keys & last), (keys >> 32).to(torch.int32).view(torch.float32))


class Ensemble(Ranker):
    """Averages several rankers' scores, over every label that one of them has among its best `width` or k."""

    def __init__(self, members: Sequence[Ranker], *, width: int = 100, at_once: int = 1 << 17) -> None:
        super().__init__()
        self.num_labels, self.num_ids = members[0].num_labels, members[0].num_ids
        assert all((one.num_labels, one.num_ids) == (self.num_labels, self.num_ids) for one in members)
        self.members = nn.ModuleList(members)
        self.width, self.at_once = width, at_once  # at_once: pairs of text and label that are scored at a time

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        width = min(max(k, self.width), self.num_labels)
        candidates = _each_once(torch.cat([member.rank(inputs, width).labels for member in self.rankers()], 1))
        size = max(1, self.at_once // max(1, candidates.shape[1]))
        parts = zip(_split(inputs, size), torch.split(candidates, size), strict=True)
        scores = torch.cat([self.score(part, labels) for part, labels in parts])
        return in_order(candidates, scores, k)

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return torch.stack([member.score(inputs, labels) for member in self.rankers()]).mean(0)

    def rankers(self) -> list[Ranker]:
        return [cast(Ranker, member) for member in self.members]


def in_order(labels: Int[Tensor, "batch n"], scores: Float[Tensor, "batch n"], k: int) -> Ranking:
    """Return the best k; ties go to the first."""
    best = scores.masked_fill(labels == NO_LABEL, -torch.inf).sort(dim=1, descending=True, stable=True)
    kept = labels.gather(1, best.indices)[:, :k]
    return pad_ranking(Ranking(kept, best.values[:, :k].masked_fill(kept == NO_LABEL, 0)), k)


def _each_once(labels: Int[Tensor, "batch n"]) -> Int[Tensor, "batch k"]:
    """Return every label of a row once, smallest first; rows end in NO_LABEL."""
    last = torch.iinfo(labels.dtype).max
    ordered = labels.masked_fill(labels == NO_LABEL, last).sort(dim=1).values
    repeated = functional.pad(ordered[:, 1:] == ordered[:, :-1], (1, 0))
    once = ordered.masked_fill(repeated, last).sort(dim=1).values
    return once.masked_fill(once == last, NO_LABEL)[:, : int((once != last).any(0).sum())]


def _split(inputs: Inputs, size: int) -> Iterator[Inputs]:
    """Split inputs into parts of that size; no inputs are one part."""
    if isinstance(inputs, Tokens):
        yield from map(Tokens, torch.split(inputs.ids, size), torch.split(inputs.weights, size))
    else:
        yield from torch.split(inputs, size)
