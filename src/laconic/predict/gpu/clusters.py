"""The labels of a text's best clusters, scored where their rows lie."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from laconic.classifiers import LinearClassifier
from laconic.kernels.shortlist import Shortlist
from laconic.predict.gpu.kernels import Kernels, kernels_for
from laconic.rankers import Ranker, ShortlistRanker
from laconic.types import NO_LABEL, Inputs, Ranking


class ClustersRanker(Ranker):
    """Ranks as a ShortlistRanker does. Clusters come in no order, and places only of the labels that are best."""

    def __init__(self, ranker: ShortlistRanker, kernels: Kernels) -> None:
        super().__init__()
        assert isinstance(ranker.classifier, LinearClassifier)
        self.ranker, self.classifier, self.kernels = ranker, ranker.classifier, kernels
        self.num_labels, self.num_ids = ranker.num_labels, ranker.num_ids

    @staticmethod
    def of(ranker: ShortlistRanker) -> ClustersRanker:
        return ClustersRanker(ranker, kernels_for(ranker.clusters.starts.device))

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        clusters, vectors = self.ranker.clusters, self.ranker.encoder(inputs)
        top = max(self.ranker.top, clusters.enough(k))
        picked = clusters.classifier.score_all(vectors).topk(top, sorted=False)
        shortlist = Shortlist(picked.indices, clusters.starts, clusters.size)
        scores = self.kernels.scores(
            self.classifier.transform(vectors), self.classifier.weight, self.classifier.bias, shortlist
        )
        if self.ranker.product:
            of_clusters = functional.logsigmoid(picked.values).repeat_interleave(clusters.size, dim=1)
            scores = functional.logsigmoid(scores) + of_clusters
        best = scores.topk(min(k, scores.shape[1]))
        chances = best.values.exp() if self.ranker.product else best.values.sigmoid()
        missing = (0, k - chances.shape[1])
        return Ranking(
            functional.pad(self._labels(shortlist, best), missing, value=NO_LABEL), functional.pad(chances, missing)
        )

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.ranker.score(inputs, labels)

    def _labels(self, shortlist: Shortlist, best: torch.return_types.topk) -> Int[Tensor, "batch k"]:
        """By their places among all that was scored."""
        cluster, clusters = shortlist.picks.gather(1, best.indices // shortlist.size), self.ranker.clusters
        places = clusters.starts[cluster] + best.indices % shortlist.size
        # Beyond the end of the last cluster there is no label to look up.
        labels = clusters.order[places.clamp(max=self.num_labels - 1)]
        return labels.masked_fill(best.values == -torch.inf, NO_LABEL)
