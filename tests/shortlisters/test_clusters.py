"""Clusters of labels against plain Python, and the ranker that opens the best of them against one that scores all."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from torch import Tensor

from laconic.analysis.sweep import sweep
from laconic.evaluation.evaluate import Truth, rank_all
from laconic.evaluation.shortlists import shortlist_figures
from laconic.models import rankers
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import random_tree
from laconic.models.encoders import Encoder
from laconic.models.layers import SpectralResidual
from laconic.models.rankers import ShortlistRanker
from laconic.models.shortlisters.clusters import Clusters, joined
from laconic.types import NO_LABEL, Inputs, Ranking
from tests.variants import examples

DIM = 6
VECTORS = torch.randn(9, DIM, generator=torch.Generator().manual_seed(1))


class Given(Encoder):
    """The inputs are the vectors."""

    dim, num_ids = DIM, 0

    def forward(self, inputs: Inputs) -> Tensor:
        assert isinstance(inputs, Tensor)
        return inputs


def clusters_of(labels: int, clusters: int) -> Clusters:
    head = SpectralResidual(DIM, DIM, dropout=0.5)
    return Clusters(LinearClassifier(DIM, clusters, transform=head), random_tree(labels, clusters, 3))


def made(*, labels: int = 23, clusters: int = 4, top: int = 2, product: bool = False) -> ShortlistRanker:
    torch.manual_seed(0)
    head = SpectralResidual(DIM, DIM, dropout=0.5)
    classifier = LinearClassifier(DIM, labels, transform=head)
    ranker = ShortlistRanker(Given(), clusters_of(labels, clusters), classifier, top=top, product=product)
    for bias in (classifier.bias, ranker.clusters.classifier.bias):
        assert bias is not None
        torch.nn.init.normal_(bias)
    return ranker.eval()


def plain_clusters(ranker: ShortlistRanker) -> list[list[int]]:
    """The labels of each cluster, by their own numbers."""
    starts = ranker.clusters.starts.tolist()
    return [ranker.clusters.order[first:last].tolist() for first, last in pairwise(starts)]


def plain_scores(ranker: ShortlistRanker, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of all clusters, and of all labels by their own numbers."""
    of_places = ranker.classifier.score_all(vectors).sigmoid()
    of_labels = torch.empty_like(of_places)
    of_labels[:, ranker.clusters.order] = of_places
    return ranker.clusters.classifier.score_all(vectors).sigmoid(), of_labels


def plain_ranking(ranker: ShortlistRanker, vectors: Tensor, k: int) -> Ranking:
    """Text by text: the labels of the best clusters, of as many as k labels may want, best first."""
    of_clusters, of_labels = plain_scores(ranker, vectors)
    members = plain_clusters(ranker)
    top = min(max(ranker.top, -(-k // min(map(len, members)))), len(members))
    labels, scores = (torch.full((len(vectors), k), fill) for fill in (NO_LABEL, 0.0))
    for row in range(len(vectors)):
        found = {}
        for cluster in of_clusters[row].argsort(descending=True)[:top].tolist():
            share = float(of_clusters[row, cluster]) if ranker.product else 1.0
            found |= {label: share * float(of_labels[row, label]) for label in members[cluster]}
        best = sorted(found, key=lambda label: -found[label])[:k]
        labels[row, : len(best)] = torch.tensor(best, dtype=torch.int64)
        scores[row, : len(best)] = torch.tensor([found[label] for label in best])
    return Ranking(labels, scores)


def same(one: Ranking, other: Ranking) -> bool:
    return torch.equal(one.labels, other.labels) and torch.allclose(one.scores, other.scores, rtol=1e-5, atol=1e-7)


sizes = st.integers(1, 40).flatmap(
    lambda labels: st.tuples(st.just(labels), st.integers(0, labels.bit_length() - 1).map(lambda power: 1 << power))
)


# Clusters


@given(sizes)
@examples(40)
def test_every_label_is_in_one_cluster_which_names_it_among_its_members(size: tuple[int, int]) -> None:
    labels, number = size
    clusters = clusters_of(labels, number)
    members = clusters.members(torch.arange(number)[:, None])
    assert sorted(members[members != NO_LABEL].tolist()) == list(range(labels))
    for cluster, row in enumerate(members):
        assert clusters.of(row[row != NO_LABEL]).tolist() == [cluster] * int((row != NO_LABEL).sum())


def test_what_is_no_label_is_in_no_cluster() -> None:
    clusters = clusters_of(10, 4)  # of which labels 0 and 1, 2 to 4, 5 and 6, 7 to 9 are together
    of = clusters.of(torch.tensor([[0, 1, 2], [4, 5, NO_LABEL], [9, 7, NO_LABEL]]))
    assert of.tolist() == [[0, 0, 1], [1, 2, NO_LABEL], [3, 3, NO_LABEL]]


def test_the_members_of_several_clusters_stand_in_the_order_of_the_clusters() -> None:
    members = clusters_of(10, 4).members(torch.tensor([[3, 0], [1, 2]]))
    assert members.tolist() == [[7, 8, 9, 0, 1, NO_LABEL], [2, 3, 4, 5, 6, NO_LABEL]]


def test_the_best_clusters_come_best_first() -> None:
    clusters = clusters_of(10, 8).eval()
    every = clusters.classifier.score_all(VECTORS)
    best = clusters(VECTORS, 3)
    for row, scores in enumerate(every.tolist()):
        expected = sorted(range(8), key=lambda cluster: -scores[cluster])[:3]
        assert best.labels[row].tolist() == expected
    torch.testing.assert_close(best.scores, every.gather(1, best.labels))


@pytest.mark.parametrize("top", [3, 5, 8])
def test_true_clusters_are_always_picked_and_then_the_best_others(top: int) -> None:
    clusters = clusters_of(30, 8).eval()
    true = torch.tensor([[0, 1, 2], [7, NO_LABEL, NO_LABEL], [NO_LABEL, 3, 6]]).repeat(3, 1)
    scores = clusters.classifier.score_range(VECTORS, slice(0, 8)).tolist()
    shortlist = clusters.pick(VECTORS, true, top)
    assert shortlist.picks.shape == (9, top)
    for row, picks in enumerate(shortlist.picks.tolist()):
        wanted = {cluster for cluster in true[row].tolist() if cluster != NO_LABEL}
        others = sorted(set(range(8)) - wanted, key=lambda cluster: -scores[row][cluster])
        assert set(picks) == wanted | set(others[: top - len(wanted)])
        assert len(set(picks)) == top
    assert not shortlist.picks.requires_grad


@given(
    st.integers(1, 6).flatmap(
        lambda p: st.lists(
            st.lists(st.tuples(st.integers(NO_LABEL, 4), st.integers(1, 8)), min_size=p, max_size=p),
            min_size=1,
            max_size=4,
        )
    )
)
def test_joined_rows_have_every_cluster_once_and_as_true_as_its_truest_label(rows: list[list[tuple[int, int]]]) -> None:
    clusters = torch.tensor([[cluster for cluster, _ in row] for row in rows])
    targets = torch.tensor([[(cluster != NO_LABEL) * target / 8 for cluster, target in row] for row in rows])
    once, truths = joined(clusters, targets)
    for row, pairs in enumerate(rows):
        expected = {
            cluster: max(target / 8 for other, target in pairs if other == cluster)
            for cluster, _ in pairs
            if cluster != NO_LABEL
        }
        left = [place for place, cluster in enumerate(once[row].tolist()) if cluster != NO_LABEL]
        assert len(left) == len(expected)
        assert {int(once[row, place]): float(truths[row, place]) for place in left} == expected
        assert float(truths[row].sum()) == pytest.approx(sum(expected.values()))


# The ranker


@pytest.mark.parametrize("product", [False, True])
@given(size=sizes, top=st.integers(1, 4), k=st.integers(0, 45))
@examples(60)
def test_a_ranking_is_that_of_a_plain_loop(product: bool, size: tuple[int, int], top: int, k: int) -> None:
    labels, clusters = size
    ranker = made(labels=labels, clusters=clusters, top=min(top, clusters), product=product)
    with torch.no_grad():
        apart = plain_scores(ranker, VECTORS)[1].sort(dim=1).values.diff(dim=1)
        assume(bool((apart > 1e-6).all()))  # of labels that score alike, rounding decides
        assert same(ranker.rank(VECTORS, k), plain_ranking(ranker, VECTORS, k))


def test_with_all_clusters_open_labels_rank_as_if_each_was_scored() -> None:
    ranker = made(top=4)
    _, of_labels = plain_scores(ranker, VECTORS)
    best = of_labels.topk(7)
    assert same(ranker.rank(VECTORS, 7), Ranking(best.indices, best.values))


def test_a_product_is_that_of_both_probabilities() -> None:
    ranker = made(top=4, product=True)
    of_clusters, of_labels = plain_scores(ranker, VECTORS)
    for cluster, labels in enumerate(plain_clusters(ranker)):
        of_labels[:, labels] *= of_clusters[:, [cluster]]
    best = of_labels.topk(23)
    assert same(ranker.rank(VECTORS, 23), Ranking(best.indices, best.values))


@pytest.mark.parametrize("product", [False, True])
def test_the_scores_of_labels_are_those_of_their_ranking_and_no_label_scores_nothing(product: bool) -> None:
    ranker = made(top=1, product=product)
    labels, scores = ranker.rank(VECTORS, 5)
    labels[2, 3] = labels[0, 0] = NO_LABEL
    scores[2, 3] = scores[0, 0] = 0
    torch.testing.assert_close(ranker.score(VECTORS, labels), scores)


def test_more_clusters_are_opened_where_more_labels_are_wanted_than_the_shortlist_may_have() -> None:
    ranker = made(top=1)  # clusters have 5 or 6 labels
    for k in range(1, 24):
        assert (ranker.rank(VECTORS, k).labels != NO_LABEL).all()
    labels = ranker.rank(VECTORS, 30).labels
    assert labels[:, :23].sort(dim=1).values.tolist() == [list(range(23))] * len(VECTORS)
    assert (labels[:, 23:] == NO_LABEL).all()


def test_opening_more_changes_nothing_else() -> None:
    ranker = made(top=1, product=True)
    before = ranker.rank(VECTORS, 4)
    for top, opened in ((1, 1), (3, 3), (400, 4)):
        other = ranker.with_beam(top)
        assert (other.top, other.product) == (opened, True)
        assert other.classifier is ranker.classifier
        assert other.clusters is ranker.clusters
        assert same(other.rank(VECTORS, 4), made(top=opened, product=True).rank(VECTORS, 4))
    assert ranker.top == 1
    assert same(ranker.rank(VECTORS, 4), before)


def test_picked_are_the_clusters_whose_labels_are_ranked() -> None:
    ranker = made(top=2)
    picked, labels = ranker.picked(VECTORS), ranker.rank(VECTORS, 10).labels
    members = plain_clusters(ranker)
    for row in range(len(VECTORS)):
        opened = {label for cluster in picked[row].tolist() for label in members[cluster]}
        assert set(labels[row].tolist()) <= opened


def test_places_are_where_labels_stand_in_the_order_of_clusters() -> None:
    ranker = made()
    assert ranker.clusters.order[ranker.places(torch.arange(23))].tolist() == list(range(23))


def test_texts_are_gathered_a_few_at_a_time_where_there_is_not_room_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = made()
    together = ranker.rank(VECTORS, 8)
    for gathered in (1, 2 * 6 * 2 * DIM):
        monkeypatch.setattr(rankers, "_GATHERED", gathered)
        assert same(ranker.rank(VECTORS, 8), together)
        assert ranker.rank(VECTORS[:0], 8).labels.shape == (0, 8)


# What a shortlist is worth


def truth_of(ranker: ShortlistRanker, width: int) -> csr_array:
    """One to three labels of each text, none for the last; some of them beyond the ranker's own."""
    generator, rows = np.random.default_rng(0), np.zeros((len(VECTORS), width), dtype=np.float32)
    for row in range(len(VECTORS) - 1):
        rows[row, generator.choice(width, generator.integers(1, 4), replace=False)] = 1
    rows[0, [0, ranker.num_labels - 1]] = 1
    return csr_array(rows)


@pytest.mark.parametrize(("top", "width"), [(1, 23), (2, 23), (2, 30), (4, 23)])
def test_shortlist_figures_are_those_of_a_plain_loop(top: int, width: int) -> None:
    ranker, members = made(top=top), plain_clusters(made())
    labels = truth_of(ranker, width)
    right, recall, texts = 0, 0.0, 0
    for row, picks in enumerate(ranker.picked(VECTORS).tolist()):
        true = {label for label in labels[[row]].indices.tolist() if label < 23}
        if true:
            texts += 1
            right += bool(true & set(members[picks[0]]))
            recall += len(true & {label for cluster in picks for label in members[cluster]}) / len(true)
    assert shortlist_figures(ranker, VECTORS.numpy(), labels) == pytest.approx(
        {"cluster P@1": 100 * right / texts, "shortlist recall": 100 * recall / texts}
    )


def test_a_split_without_labels_has_no_recall() -> None:
    nothing = csr_array(np.zeros((len(VECTORS), 23), dtype=np.float32))
    assert shortlist_figures(made(), VECTORS.numpy(), nothing) == {"cluster P@1": 0, "shortlist recall": 0}


def test_a_sweep_tells_of_the_ranker_with_so_many_clusters_open() -> None:
    ranker = made(top=2)
    truth = Truth(labels=truth_of(ranker, 23), leave_out=None, training=None)
    found = sweep(ranker, VECTORS.numpy(), truth, [1, 2, 4])
    assert [row["top"] for row in found] == [1, 2, 4]
    assert [row["labels scored"] for row in found] == [25, 50, 100]
    assert found[-1]["shortlist recall"] == 100
    recalls = [row["shortlist recall"] for row in found]
    assert recalls == sorted(recalls)
    for row in found:
        first = rank_all(ranker.with_beam(int(row["top"])), VECTORS.numpy(), 10).labels[:, 0].tolist()
        hits = [truth.labels[text, label] > 0 for text, label in enumerate(first)]
        assert row["P@1"] == pytest.approx(100 * np.mean(hits))


def misled() -> ShortlistRanker:
    """Text i is of cluster i, whose labels score low there; the rows of other clusters, never scored for such texts in
    training, score high.
    """
    clusters, labels = 4, 12
    meta, classifier = LinearClassifier(DIM, clusters), LinearClassifier(DIM, labels)
    ranker = ShortlistRanker(Given(), Clusters(meta, random_tree(labels, clusters, 3)), classifier, top=1, trained=1)
    with torch.no_grad():
        for head in (meta, classifier):
            head.weight.zero_()
            assert head.bias is not None
            head.bias.zero_()
        meta.weight[:, :clusters] = 20 * torch.eye(clusters) - 12
        classifier.weight[:, :clusters] = 3 - 4 * torch.eye(clusters).repeat_interleave(3, dim=0)
    return ranker.eval()


@pytest.mark.parametrize("top", [1, 2, 4])
def test_opening_more_clusters_than_in_training_does_not_ruin_a_ranking(top: int) -> None:
    ranker = misled()
    first = ranker.with_beam(top).rank(torch.eye(4, DIM), 3).labels
    own = ranker.clusters.of(ranker.places(first))
    assert own.tolist() == [[text] * 3 for text in range(4)]


def test_a_ranking_by_the_product_is_for_more_clusters_than_in_training_alone() -> None:
    ranker = misled()
    assert [ranker.with_beam(top).product for top in (1, 2, 4)] == [False, True, True]
    assert not ranker.with_beam(4).with_beam(1).product
    labels = torch.arange(12).repeat(4, 1)
    wide = ranker.with_beam(4)
    ranked = wide.rank(torch.eye(4, DIM), 12)
    torch.testing.assert_close(wide.score(torch.eye(4, DIM), labels).gather(1, ranked.labels), ranked.scores)
