"""DECAF with label trees as its shortlister (Table 5, Parabel): linear classifiers in binary trees over the vectors of
module I, whose labels are learnt and scored as those of learnt clusters are."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.data.dataset import Dataset
from laconic.methods import trees
from laconic.methods.decaf.ablations import nearest_labels
from laconic.methods.decaf.config import Config, probed_clusters
from laconic.methods.decaf.modules import learn_ranker, learn_words, sum_of
from laconic.methods.decaf.recipe import _checked_sizes
from laconic.methods.deepxml import encode_all
from laconic.methods.result import Trained
from laconic.models.rankers import Ranker, ShortlistRanker, in_order
from laconic.models.shortlisters.base import Shortlister
from laconic.training.run import Run
from laconic.types import NO_LABEL, Inputs, Ranking

_MOST = 500  # labels of a shortlist: about as many as Parabel's beam of 10 leaves finds, and searched in bearable time
_AT_ONCE = 64  # texts whose label rows are gathered


def trained_by_trees(data: Dataset, config: Config, run: Run) -> Trained:
    """Train modules I, III and IV of DECAF, and trees for module II; nothing is held out."""
    config = _checked_sizes(replace(config, validation=0.0), data)
    learn, held = data.split(0.0, config.seed)
    words, _ = learn_words(learn, config, run)
    near = nearest_labels(learn, words, config, run)  # for its clusters, which are labels
    block, encoder = near.clusters.classifier.transform, sum_of(words, config.length).to(run.device)
    with torch.no_grad():
        vectors = block(encode_all(encoder, learn.inputs, run.device).to(run.device)).cpu()
    # One tree: of several, every label of so long a shortlist would be looked up in each.
    growing = trees.Config(trees=1, fan_out=2, pairs=0, seed=config.seed)
    forest = trees.build(replace(learn, inputs=vectors.numpy()), growing)
    size = min(_MOST, probed_clusters(config, data.num_labels, config.beam) or data.num_labels)
    picks = forest.rank(vectors, size).labels
    picks[picks == NO_LABEL] = data.num_labels  # one more than the last is none
    ranker, state = learn_ranker(learn, held, near, picks.int(), config, run)
    done = ByTrees(ranker, OfForest(forest, nn.Sequential(encoder, block), size)).eval()
    return Trained(done, config, {"training": {"epochs": state.history, "shortlist": size}})


class OfForest(Shortlister):
    """The labels that trees find for the vectors of module I, which are computed here."""

    def __init__(self, forest: trees.TreesRanker, vectors: nn.Module, size: int) -> None:
        super().__init__()
        self.vectors, self.num_labels, self.size = vectors, forest.num_labels, size
        self.forest = (forest,)  # for the host alone, so no module of this one

    def forward(self, inputs: Inputs, vectors: Float[Tensor, "batch dim"], size: int) -> Ranking:
        own: Tensor = self.vectors(inputs)
        found = self.forest[0].rank(own.cpu(), size)
        return Ranking(found.labels.to(own.device), found.scores.to(own.device))


class ByTrees(Ranker):
    """Scores the labels that trees find by σ(label) times the trees' own score."""

    def __init__(self, ranker: ShortlistRanker, shortlister: OfForest) -> None:
        super().__init__()
        self.encoder, self.classifier, self.shortlister = ranker.encoder, ranker.classifier, shortlister
        self.num_labels, self.num_ids = ranker.num_labels, ranker.num_ids

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        vectors = self.encoder(inputs)
        found = self.shortlister(inputs, vectors, max(self.shortlister.size, k))
        return in_order(found.labels, self._own(vectors, found.labels) * found.scores, k)

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        own: Tensor = self.shortlister.vectors(inputs)
        by_trees = self.shortlister.forest[0].score(own.cpu(), labels.cpu())
        return self._own(self.encoder(inputs), labels) * by_trees.to(labels.device)

    def _own(self, vectors: Float[Tensor, "batch dim"], labels: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n"]:
        parts = zip(torch.split(vectors, _AT_ONCE), torch.split(labels, _AT_ONCE), strict=True)
        scores = [self.classifier.score(part, some.clamp(min=0)).sigmoid() for part, some in parts]
        return torch.cat(scores).masked_fill(labels == NO_LABEL, 0)
