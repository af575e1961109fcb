"""Score the labels of a text's best clusters directly in cluster order."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from laconic.kernels.triton.maxima import best_groups
from laconic.kernels.triton.shortlist import Shortlist
from laconic.kernels.triton.shortlist_scores import shortlist_scores
from laconic.models.classifiers import LinearClassifier
from laconic.models.rankers import Ranker, ShortlistRanker
from laconic.models.shortlisters.base import pad_ranking
from laconic.types import Inputs, Ranking


class ClustersRanker(Ranker):
    """Ranks like a ShortlistRanker, but neither sorts the clusters nor looks up any labels except the best."""

    def __init__(self, ranker: ShortlistRanker) -> None:
        super().__init__()
        assert isinstance(ranker.classifier, LinearClassifier)
        self.ranker, self.classifier = ranker, ranker.classifier
        self.num_labels, self.num_ids = ranker.num_labels, ranker.num_ids

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        clusters, vectors = self.ranker.clusters, self.ranker.encoder(inputs)
        top = max(self.ranker.top, clusters.enough(k))
        of_clusters = clusters.classifier.score_all(vectors)
        picks = best_groups(of_clusters, top)
        shortlist = Shortlist(picks, clusters.starts, clusters.size)
        scores = shortlist_scores(
            self.classifier.transform(vectors), self.classifier.weight, self.classifier.bias, shortlist
        )
        if self.ranker.product:
            of_picks = functional.logsigmoid(of_clusters.gather(1, picks))
            scores = functional.logsigmoid(scores) + of_picks.repeat_interleave(clusters.size, dim=1)
        # So many clusters are open that these are all labels: no place that a smaller cluster lacks is among them.
        best = scores.topk(min(k, self.num_labels))
        chances = best.values.exp() if self.ranker.product else best.values.sigmoid()
        return pad_ranking(Ranking(self._labels(shortlist, best.indices), chances), k)

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.ranker.score(inputs, labels)

    def _labels(self, shortlist: Shortlist, best: Int[Tensor, "batch k"]) -> Int[Tensor, "batch k"]:
        """Return the labels at these positions among all scored ones."""
        cluster = shortlist.picks.gather(1, best // shortlist.size)
        return self.ranker.clusters.order[shortlist.starts[cluster] + best % shortlist.size]
