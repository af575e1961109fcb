"""nearest: no training at all. The labels of the most similar training texts, and the labels whose own text is similar.

A text's score for a label is the sum, over the nearest training texts that have the label, of their cosine to the power
`power`, divided by the largest such sum; plus `label_text` times the cosine of the text and the label's own text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array, hstack, vstack
from torch import Tensor

from laconic.update.rankers import Additions, Lesson, NewWords, taught, with_labels, without_labels
from laconic.update.rankers.words import add_words, with_empty_lists
from laconic.models.fusion.evidence import Channels
from laconic.models.fusion.votes import rank_votes, score_votes
from laconic.data.dataset import Dataset
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig, bags
from laconic.errors import ConfigError, ModelError
from laconic.methods.result import Trained
from laconic.models.rankers import Ranker
from laconic.training.run import Run
from laconic.kernels.csr import TRACE, Lists, in_threads, search
from laconic.models.shortlisters.nearest import NearestBags, NearestVectors, StoredLists, queries_of, tensor_of
from laconic.types import NO_LABEL, Inputs, Ranking

_ALIKE = 20  # known labels whose votes a new one without examples has a share of


@dataclass(frozen=True, kw_only=True)
class Config:
    neighbours: int = 100
    power: float = 3.0  # of a neighbour's cosine
    label_text: float = 0.6  # weight of the label-text cosine; 0 leaves it out
    text: Splitter = Splitter()
    vocabulary: VocabularyConfig = VocabularyConfig(sublinear=True)

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise ConfigError(f"neighbours must be 1 or more, but is {self.neighbours}")
        if not 0 < self.power < math.inf:
            raise ConfigError(f"power must be a number above 0, but is {self.power}")
        if not 0 <= self.label_text < math.inf:
            raise ConfigError(f"label_text must be a number of 0 or more, but is {self.label_text}")


def train(data: Dataset, config: Config, run: Run) -> Trained:
    return Trained(build(data, config), config)


def build(data: Dataset, config: Config) -> NearestRanker:
    """Only sorts the data by word: everything is kept, nothing is learnt."""
    sparse = isinstance(data.inputs, csr_array)
    texts = NearestBags.of(data.inputs) if sparse else NearestVectors.of(data.inputs)
    has_label_texts = sparse and data.label_inputs is not None and config.label_text > 0
    label_texts = bags(data.label_inputs) if has_label_texts else csr_array((data.num_labels, 0), dtype=np.float32)
    return NearestRanker(
        config,
        texts=texts,
        votes=StoredLists(Lists.of(_votes(data))),
        label_texts=StoredLists(Lists.inverted(label_texts)),
        popular=torch.from_numpy(np.argsort(-data.label_counts, kind="stable")),
    )


def restore(config: Config, tensors: Mapping[str, Tensor]) -> NearestRanker:
    """The ranker from its state_dict, whose every number is looked at before a compiled loop follows it."""
    popular = tensor_of(tensors, "popular", torch.int64)
    if not torch.equal(popular.sort().values, torch.arange(popular.numel())):
        raise ModelError("the model's tensor 'popular' must name every label once; the file is damaged: fetch it again")
    votes = StoredLists.of_tensors(tensors, "votes", below=len(popular))
    return NearestRanker(
        config,
        texts=_restored_texts(tensors, num_texts=len(votes.starts) - 1),
        votes=votes,
        label_texts=StoredLists.of_tensors(tensors, "label_texts", below=len(popular)),
        popular=popular,
    )


def _votes(data: Dataset) -> csr_array:
    """Each text's labels with their weights. Only ratios count, so that the largest is 1 and no sum overflows."""
    votes = data.labels / data.labels.data.max(initial=TRACE)
    if data.weights is not None:
        votes = csr_array(votes.multiply(data.weights[:, None] / data.weights.max(initial=TRACE)))
    votes.eliminate_zeros()
    return votes


def _restored_texts(tensors: Mapping[str, Tensor], num_texts: int) -> NearestBags | NearestVectors:
    if "texts.vectors" not in tensors:
        return NearestBags(StoredLists.of_tensors(tensors, "texts.index", below=num_texts), num_texts)
    vectors = tensor_of(tensors, "texts.vectors", torch.float32)
    if vectors.ndim != 2 or len(vectors) != num_texts or not vectors.isfinite().all():
        raise ModelError(
            f"the model's tensor 'texts.vectors' must be {num_texts:,} rows of finite numbers; the file is damaged: "
            "fetch it again"
        )
    return NearestVectors(vectors)


class NearestRanker(Ranker):
    """Training texts by word, their labels, and the labels' own texts by word."""

    popular: Tensor

    def __init__(
        self,
        config: Config,
        *,
        texts: NearestBags | NearestVectors,
        votes: StoredLists,
        label_texts: StoredLists,
        popular: Int[Tensor, "labels"],
    ) -> None:
        super().__init__()
        self.config, self.num_labels = config, len(popular)
        self.texts, self.votes, self.label_texts = texts, votes, label_texts
        self.register_buffer("popular", popular)  # where words give out, the most frequent labels follow with score 0

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        channels, popular = self.channels(inputs), self.popular.numpy()
        labels = np.full((channels.size, k), NO_LABEL, dtype=np.int64)
        scores = np.zeros((channels.size, k), dtype=np.float32)
        in_threads(channels.size, lambda first, last: rank_votes(channels, first, last, popular, labels, scores))
        return Ranking(torch.from_numpy(labels), torch.from_numpy(scores))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        channels, wanted = self.channels(inputs), labels.numpy()
        assert wanted.max(initial=NO_LABEL) < self.num_labels
        scores = np.zeros(wanted.shape, dtype=np.float32)
        in_threads(
            channels.size, lambda first, last: score_votes(channels, first, last, len(self.popular), wanted, scores)
        )
        return torch.from_numpy(scores)

    def channels(self, inputs: Inputs) -> Channels:
        """What both channels know of a batch, before it is added up."""
        neighbours = self.texts.nearest(inputs, self.config.neighbours)
        return Channels(
            neighbours.labels.numpy(),
            # Opposite vectors have no say; rounding may leave a cosine a hair above 1.
            neighbours.scores.clamp(min=0).pow(self.config.power).numpy(),
            self.votes.lists(),
            queries_of(inputs),
            self.label_texts.lists(),
            np.float32(self.config.label_text),
        )


# Other labels and words


@add_words.register
def _(ranker: NearestRanker, words: NewWords) -> None:
    ranker.label_texts = with_empty_lists(ranker.label_texts, words)


@without_labels.register
def _(ranker: NearestRanker, kept: Int[Tensor, "kept"]) -> NearestRanker:
    """Texts stay where their labels go: so others have the same neighbours as before."""
    numbers, known = kept.numpy(), ranker.num_labels
    place = np.full(known, NO_LABEL)
    place[numbers] = np.arange(len(numbers))
    popular = place[ranker.popular.numpy()]
    return NearestRanker(
        ranker.config,
        texts=ranker.texts,
        votes=StoredLists(Lists.of(_matrix(ranker.votes, known)[:, numbers])),
        label_texts=StoredLists(Lists.of(_matrix(ranker.label_texts, known)[:, numbers])),
        popular=torch.from_numpy(popular[popular != NO_LABEL]),
    )


@with_labels.register
def _(ranker: NearestRanker, additions: Additions) -> NearestRanker:
    """Words join the labels' words, examples the texts; where words give out, new labels come last."""
    known, examples = ranker.num_labels, additions.examples
    texts, words = ranker.texts, _matrix(ranker.label_texts, known)
    votes = _matrix(ranker.votes, known)
    votes = hstack([votes, (votes @ _alike(additions)).minimum(1)], format="csr")
    if ranker.config.label_text > 0:
        words.resize(additions.label_texts.shape[1], known)
        words = hstack([words, bags(additions.label_texts).T], format="csr")
    if len(examples):
        votes = vstack([votes, _votes(examples)], format="csr")
        texts = texts.extended(examples.inputs)
    return NearestRanker(
        ranker.config,
        texts=texts,
        votes=StoredLists(Lists.of(votes)),
        label_texts=StoredLists(Lists.of(words)),
        popular=torch.cat([ranker.popular, torch.arange(known, additions.num_labels)]),
    )


@taught.register
def _(ranker: NearestRanker, lesson: Lesson, run: Run) -> NearestRanker:
    """It has the new texts already."""
    return ranker


def _alike(additions: Additions) -> csr_array:
    """How much a vote for each known label is one for each new label: labels with like texts go with like texts.

    A label that has examples has votes of its own.
    """
    known, new = bags(additions.known_texts), bags(additions.label_texts)
    labels, cosines = search(Lists.inverted(known), Lists.of(new), known.shape[0], min(_ALIKE, known.shape[0]))
    without = additions.examples.label_counts[additions.num_known :] == 0
    row, place = np.nonzero((labels >= 0) & without[:, None])
    pairs = labels[row, place], row
    return csr_array((cosines[row, place] ** 2, pairs), shape=(known.shape[0], new.shape[0]), dtype=np.float32)


def _matrix(stored: StoredLists, width: int) -> csr_array:
    lists = stored.lists()
    return csr_array((lists.values, lists.numbers, lists.starts), shape=(len(lists.starts) - 1, width))
