"""How labels join rankers and leave them, where a known answer says more than a trained model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from laconic.data.dataset import Dataset
from laconic.errors import ModelError
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import random_tree
from laconic.models.encoders import BagEncoder
from laconic.models.rankers import CandidatesRanker, FlatRanker, Ranker, ShortlistRanker
from laconic.models.shortlisters.clusters import Clusters
from laconic.models.shortlisters.labels import NearestLabels, Nearness
from laconic.types import FIRST_WORD, NO_LABEL, Inputs, Ranking, Tokens
from laconic.update.rankers import Additions, with_labels, without_labels
from laconic.update.rankers.shortlisters import shortlister_without_labels
from tests.variants import examples

WORDS, LABELS = 40, 30


def encoder() -> BagEncoder:
    """Every word is a direction of its own."""
    made = BagEncoder(num_ids=WORDS + FIRST_WORD, length=8, embedding=WORDS)
    made.start_from(torch.cat([torch.zeros(FIRST_WORD, WORDS), torch.eye(WORDS)]))
    return made.eval()


def rows(texts: list[list[int]]) -> csr_array:
    """Texts of word numbers, of length 1."""
    starts = np.cumsum([0, *map(len, texts)])
    words = np.array([word + FIRST_WORD for text in texts for word in text], dtype=np.int32)
    weights = np.array([len(text) ** -0.5 for text in texts for _ in text], dtype=np.float32)
    return csr_array((weights, words, starts), shape=(len(texts), WORDS + FIRST_WORD))


def tokens(texts: list[list[int]]) -> Tokens:
    return Tokens(
        torch.tensor([[word + FIRST_WORD for word in text] for text in texts], dtype=torch.int32),
        torch.tensor([[len(text) ** -0.5 for _ in text] for text in texts]),
    )


def additions(new: list[list[int]], examples: list[tuple[list[int], int]] = []) -> Additions:  # noqa: B006 - only read
    """Label i says word i."""
    pairs = csr_array(
        (np.ones(len(examples), dtype=np.float32), ([*range(len(examples))], [label for _, label in examples])),
        shape=(len(examples), LABELS + len(new)),
    )
    texts = Dataset(inputs=rows([text for text, _ in examples]), labels=pairs)
    return Additions(label_texts=rows(new), known_texts=rows([[label] for label in range(LABELS)]), examples=texts)


def classifier(*, bias: bool) -> LinearClassifier:
    """Label i scores high on word i, and low elsewhere."""
    made = LinearClassifier(WORDS, LABELS, bias=bias)
    with torch.no_grad():
        made.weight.copy_(8 * torch.eye(LABELS, WORDS) - (0 if bias else 3))
        if made.bias is not None:
            made.bias.fill_(-4)
    return made.eval()


@pytest.mark.parametrize("bias", [True, False])
def test_a_label_is_among_the_first_of_its_own_text_and_not_of_others(bias: bool) -> None:
    ranker = with_labels(FlatRanker(encoder(), classifier(bias=bias)), additions([[35, 36]]))
    assert ranker.num_labels == LABELS + 1
    with torch.no_grad():
        own, others = ranker.rank(tokens([[35, 36]]), 3), ranker.rank(tokens([[word] for word in range(20)]), 1)
    assert LABELS in own.labels[0]
    assert others.labels.flatten().tolist() == list(range(20))


def test_labels_with_like_texts_go_with_like_texts() -> None:
    ranker = with_labels(FlatRanker(encoder(), classifier(bias=True)), additions([[3, 35], [36, 37]]))
    with torch.no_grad():
        near, far = ranker.score(tokens([[3, 35]]), torch.tensor([[LABELS, LABELS + 1]]))[0]
    assert near > 1.01 * far


class Odd(Ranker):
    num_labels = 3

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        raise NotImplementedError

    def score(self, inputs: Inputs, labels: Tensor) -> Tensor:
        raise NotImplementedError


def test_a_ranker_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ModelError, match="labels cannot be added to a Odd"):
        with_labels(Odd(), additions([[35]]))
    with pytest.raises(ModelError, match="labels cannot be taken from a Odd"):
        without_labels(Odd(), torch.arange(2))


def clustered() -> ShortlistRanker:
    torch.manual_seed(0)
    clusters = Clusters(LinearClassifier(WORDS, 8), random_tree(LABELS, 8, 1))
    return ShortlistRanker(encoder(), clusters, classifier(bias=True), top=2).eval()


@pytest.mark.slow
@given(kept=st.sets(st.integers(0, LABELS - 1), min_size=1), k=st.integers(1, LABELS))
@examples(40)
def test_unequal_and_empty_clusters_give_as_many_labels_as_are_asked_for(kept: set[int], k: int) -> None:
    numbers = torch.tensor(sorted(kept))
    before, after = clustered(), without_labels(clustered(), numbers)
    texts = tokens([[1, 2], [30, 5], [7, 7]])
    with torch.no_grad():
        labels, scores = after.rank(texts, k)
        assert ((labels != NO_LABEL).sum(1) == min(k, len(kept))).all()
        old = before.score(texts, torch.where(labels == NO_LABEL, NO_LABEL, numbers[labels.clamp(min=0)]))
    torch.testing.assert_close(scores, old)
    for row in labels.tolist():
        there = [label for label in row if label != NO_LABEL]
        assert len({*there}) == len(there)


def test_a_new_label_is_in_the_cluster_that_is_best_for_its_text() -> None:
    ranker = with_labels(clustered(), additions([[35], [36]]))
    assert isinstance(ranker, ShortlistRanker)
    with torch.no_grad():
        best = ranker.clusters(ranker.encoder(tokens([[35], [36]])), 1).labels.flatten()
        mine = ranker.clusters.of(ranker.places(torch.tensor([LABELS, LABELS + 1])))
    assert mine.tolist() == best.tolist()


def test_no_cluster_becomes_much_larger_than_the_others() -> None:
    before = clustered()
    ranker = with_labels(before, additions([[35, 36]] * 40))
    assert isinstance(ranker, ShortlistRanker)
    sizes = ranker.clusters.starts.diff()
    assert sizes.max() <= max(before.clusters.size, 2 * -(-70 // 8))
    assert sorted(ranker.clusters.order.tolist()) == list(range(70))


def near_labels(**changes: object) -> NearestLabels:
    """Thirty labels with two texts each."""
    vectors = torch.rand(2 * LABELS, WORDS, generator=torch.Generator().manual_seed(0))
    pairs = csr_array((np.ones(2 * LABELS), ([*range(2 * LABELS)], [*range(LABELS)] * 2)), shape=(2 * LABELS, LABELS))
    nearness = Nearness(**{"size": 9, "centroids": 8, "neighbours": 5} | changes)  # type: ignore[arg-type]  # a mix of int and float
    return NearestLabels.of(vectors, pairs, nearness, 0)


@pytest.mark.parametrize("changes", [{}, {"centres": 2, "frequent": 0.0}, {"neighbours": 0}], ids=str)
def test_what_is_left_of_nearest_labels_is_where_it_was(changes: dict[str, object]) -> None:
    before, kept = near_labels(**changes), torch.tensor([0, 3, 4, 17, 29])
    after = shortlister_without_labels(before, kept)
    assert isinstance(after, NearestLabels)
    assert torch.equal(after.centres[:5], before.centres[kept])
    assert after.centre_labels[:5].tolist() == [0, 1, 2, 3, 4]
    for centre, owner in zip(after.centres[5:], after.centre_labels[5:].tolist(), strict=True):
        place = (before.centres == centre).all(1).nonzero().flatten()[-1]
        assert before.centre_labels[place] == kept[owner]
    labels = [
        after.text_labels[one:other].tolist()
        for one, other in zip(after.text_starts, after.text_starts[1:], strict=False)
    ]
    assert labels == [
        [kept.tolist().index(at % LABELS)] if at % LABELS in kept.tolist() else [] for at in range(len(labels))
    ]


def test_examples_move_the_centroids_of_their_labels_and_of_no_other() -> None:
    shortlister = near_labels()
    ranker = CandidatesRanker(encoder(), shortlister, classifier(bias=True), beta=0.5).eval()
    grown = with_labels(ranker, additions([[35]], [([3, 36], 3), ([36, 37], LABELS)]))
    assert isinstance(grown, CandidatesRanker)
    near = grown.shortlister
    assert isinstance(near, NearestLabels)
    texts = torch.cat(
        [
            shortlister.texts[[3, 3 + LABELS]],
            functional.normalize(torch.eye(WORDS)[3] + torch.eye(WORDS)[36], dim=0)[None],
        ]
    )
    torch.testing.assert_close(near.centres[3], functional.normalize(texts.sum(0), dim=0))
    others = [label for label in range(LABELS) if label != 3]
    assert torch.equal(near.centres[others], shortlister.centres[others])
    assert near.text_labels[-2:].tolist() == [3, LABELS]
