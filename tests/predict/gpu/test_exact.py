"""All labels by rough scores first: the answers are those of a ranker that writes every score down."""

import pytest
import torch

from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Identity
from laconic.models.layers import Residual
from laconic.models.rankers import FlatRanker
from laconic.predict.gpu.exact import ExactRanker
from laconic.types import NO_LABEL
from tests.variants import some_slow

DIM = 24


def parts(labels, *, bias=True, dim=DIM, transform=None, seed=0):
    torch.manual_seed(seed)
    classifier = LinearClassifier(dim, labels, bias=bias, transform=transform).eval()
    classifier.weight.data.normal_()
    if classifier.bias is not None:
        classifier.bias.data.normal_()
    return Identity(dim), classifier


def check(encoder, classifier, vectors, k, ranker=None):
    with torch.no_grad():
        expected = FlatRanker(encoder, classifier).rank(vectors, k)
        found = (ranker or ExactRanker(encoder, classifier)).rank(vectors, k)
    assert found.labels.tolist() == expected.labels.tolist()
    torch.testing.assert_close(found.scores, expected.scores)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("k", some_slow([1, 5, 40, 200], 2))  # 40: more than a group has
@pytest.mark.parametrize("labels", [1, 3, 33, 2047, 2048, 2049, 9000])
def test_the_answers_are_those_of_all_scores(labels, k, bias):
    check(*parts(labels, bias=bias), torch.randn(7, DIM), k)


@pytest.mark.parametrize("group", [8, 64, 128])
def test_the_size_of_groups_does_not_change_the_answers(group):
    encoder, classifier = parts(9000)
    ranker = ExactRanker(encoder, classifier, group=group)
    check(encoder, classifier, torch.randn(7, DIM), 5, ranker)


def test_a_planted_label_is_found_among_many():
    encoder, classifier = parts(5000)
    planted = torch.randint(5000, (50,))
    vectors = 3 * classifier.weight.detach()[planted] + 0.1 * torch.randn(50, DIM)
    labels = ExactRanker(encoder, classifier).rank(vectors, 5).labels
    assert labels[:, 0].tolist() == planted.tolist()
    check(encoder, classifier, vectors, 5)


def test_the_classifiers_transform_comes_first():
    check(*parts(3000, transform=Residual(DIM, dropout=0.5)), torch.randn(7, DIM), 5)


def test_rounding_loses_next_to_nothing():
    """At the width of the papers' models, with rows that nothing tells apart."""
    encoder, classifier = parts(20_000, dim=480)
    vectors = torch.randn(200, 480)
    with torch.no_grad():
        expected = FlatRanker(encoder, classifier).rank(vectors, 5).labels
        found = ExactRanker(encoder, classifier).rank(vectors, 5).labels
    assert (expected[:, :, None] == found[:, None]).any(2).float().mean() >= 0.999


def test_what_all_rows_share_costs_no_precision():
    """It is hundreds of times what tells them apart: bfloat16 would have nothing left of that."""
    encoder, classifier = parts(3000)
    classifier.weight.data.mul_(0.05).add_(20 * torch.randn(DIM))
    classifier.bias.data.mul_(0.05).sub_(100)
    check(encoder, classifier, torch.randn(7, DIM), 5)


def test_biases_are_as_precise_as_it_takes():
    """A hundred of the best differ by less than one part in 256 of a bias."""
    encoder, classifier = parts(3000)
    classifier.weight.data.mul_(1e-6)
    classifier.bias.data.fill_(-4)[torch.randperm(3000)[:100]] = torch.linspace(4, 4.01, 100)
    check(encoder, classifier, torch.randn(7, DIM), 5)


@pytest.mark.parametrize("labels", [40, 5000])
def test_labels_that_are_all_alike_come_each_once(labels):
    encoder, classifier = parts(labels)
    classifier.weight.data[:], classifier.bias.data[:] = classifier.weight.data[0], 0
    found = ExactRanker(encoder, classifier).rank(torch.randn(7, DIM), 30)
    assert all(len(set(row)) == 30 for row in found.labels.tolist())
    assert 0 <= int(found.labels.min()) <= int(found.labels.max()) < labels
    torch.testing.assert_close(found.scores, found.scores[:, :1].expand(-1, 30))


def test_labels_that_are_not_there_are_never_found():
    """Though every label that is there scores far below zero."""
    encoder, classifier = parts(2049)
    classifier.bias.data.sub_(1e6)
    found = ExactRanker(encoder, classifier).rank(torch.randn(7, DIM), 2100)
    assert sorted(found.labels[0, :2049].tolist()) == list(range(2049))
    assert (found.labels[:, 2049:] == NO_LABEL).all()
    assert (found.scores[:, 2049:] == 0).all()


def test_labels_are_scored_as_they_are_ranked():
    encoder, classifier = parts(3000)
    ranker, vectors = ExactRanker(encoder, classifier), torch.randn(7, DIM)
    found = ranker.rank(vectors, 5)
    torch.testing.assert_close(ranker.score(vectors, found.labels), found.scores)


def test_no_texts_have_no_answers():
    labels, scores = ExactRanker(*parts(3000)).rank(torch.randn(0, DIM), 5)
    assert labels.shape == scores.shape == (0, 5)
