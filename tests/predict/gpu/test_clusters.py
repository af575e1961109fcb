"""The labels of the best clusters, scored where they lie: the answers are those of a ShortlistRanker."""

import pytest
import torch

from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import LabelTree, random_tree
from laconic.models.encoders import Identity
from laconic.models.layers import SpectralResidual
from laconic.models.rankers import ShortlistRanker
from laconic.models.shortlisters.clusters import Clusters
from laconic.predict.gpu.clusters import ClustersRanker
from tests.variants import some_slow

DIM, WIDTH = 12, 10
UNEQUAL = LabelTree(order=torch.randperm(23), starts=torch.tensor([0, 9, 9, 22, 23]))  # one of them is empty
TREES = {"balanced": random_tree(101, 16, 0), "one cluster": random_tree(7, 1, 0), "unequal": UNEQUAL}


def ranker(tree, *, top=3, product=False, bias=True):
    torch.manual_seed(0)

    def transform():
        return SpectralResidual(DIM, WIDTH, dropout=0.5)

    meta = LinearClassifier(WIDTH, tree.num_clusters, transform=transform())
    classifier = LinearClassifier(WIDTH, len(tree.order), transform=transform(), bias=bias)
    for part in (meta, classifier):
        part.spread(2.0)
    top = min(top, tree.num_clusters)
    return ShortlistRanker(Identity(DIM), Clusters(meta, tree), classifier, top=top, product=product).eval()


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("k", some_slow([1, 5, 30, 120], 2))  # more than is opened, and more than there is
@pytest.mark.parametrize("top", [1, 3, 16])
@pytest.mark.parametrize("name", TREES)
def test_the_answers_are_those_of_the_shortlist(name, top, k, product):
    plain, vectors = ranker(TREES[name], top=top, product=product), torch.randn(9, DIM)
    expected, found = (one.rank(vectors, k) for one in (plain, ClustersRanker(plain)))
    assert found.labels.tolist() == expected.labels.tolist()
    torch.testing.assert_close(found.scores, expected.scores)


def test_labels_need_no_bias():
    plain, vectors = ranker(TREES["balanced"], bias=False), torch.randn(9, DIM)
    expected, found = (one.rank(vectors, 5) for one in (plain, ClustersRanker(plain)))
    assert found.labels.tolist() == expected.labels.tolist()
    torch.testing.assert_close(found.scores, expected.scores)


@pytest.mark.parametrize("product", [False, True])
def test_labels_are_scored_as_they_are_ranked(product):
    quick, vectors = ClustersRanker(ranker(TREES["balanced"], product=product)), torch.randn(9, DIM)
    found = quick.rank(vectors, 5)
    torch.testing.assert_close(quick.score(vectors, found.labels), found.scores)
