"""What every classifier promises: some labels score as they do among all. Then what each is."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn

from laconic.models.classifiers import CLASSIFIERS, HashedClassifier, LabelText, LinearClassifier, fold, normalise
from laconic.models.classifiers.label_text import Texts
from laconic.models.layers import Residual
from laconic.types import NO_LABEL

DIM, LABELS, BUCKETS = 8, 6, 3
BUCKET_OF = torch.tensor([2, 0, 2, 1, 0, 2])
WORDS = nn.Embedding(9, DIM)  # of label texts: an encoder's, which keeps them


def linear(transform=None, bias=True, rows=LABELS):
    classifier = LinearClassifier(DIM, rows, transform=transform, bias=bias)
    with torch.no_grad():
        if bias:
            classifier.bias.normal_()
    return classifier


def label_text(transform=None, bias=True):
    """Rows of texts and refinement vectors, as if trained."""
    bags = csr_array(np.random.default_rng(0).uniform(size=(LABELS, 9)).round().astype(np.float32))
    refinement = torch.randn(LABELS, DIM)
    classifier = LabelText(Texts(bags, WORDS), refinement, transform or nn.Identity(), dropout=0.0, bias=bias)
    with torch.no_grad():
        for parameter in classifier.parameters():
            parameter.add_(torch.randn_like(parameter))
    return classifier


MAKE = {
    "label text": label_text,
    "linear": linear,
    "hashed": lambda transform=None, bias=True: HashedClassifier(BUCKET_OF, linear(transform, bias, BUCKETS)),
}


@pytest.fixture(params=CLASSIFIERS)
def make(request):
    torch.manual_seed(0)
    return MAKE[request.param]


@pytest.mark.parametrize("transform", [None, Residual(DIM, dropout=0.0)])
@pytest.mark.parametrize("bias", [True, False])
def test_scoring_a_shortlist_agrees_with_scoring_everything(make, transform, bias):
    classifier = make(transform=transform, bias=bias).eval()
    vectors, labels = torch.randn(4, DIM), torch.tensor([[3, 1], [0, 2], [5, 4], [1, 0]])
    everything = classifier.score_all(vectors)
    assert everything.shape == (4, classifier.num_labels) == (4, LABELS)
    torch.testing.assert_close(classifier.score(vectors, labels), everything.gather(1, labels))


def test_a_run_of_labels_scores_as_among_all(make):
    classifier, vectors = make(Residual(DIM, dropout=0.0)).eval(), torch.randn(4, DIM)
    some = classifier.score_range(classifier.transform(vectors), slice(2, 5))
    torch.testing.assert_close(some, classifier.score_all(vectors)[:, 2:5])


def test_a_place_without_a_label_scores_0(make):
    scores = make().score(torch.randn(2, DIM), torch.tensor([[1, NO_LABEL], [NO_LABEL, 5]]))
    assert scores[0, 1] == scores[1, 0] == 0
    assert scores[0, 0] != 0
    assert scores[1, 1] != 0


def test_what_is_kept_of_a_classifier_makes_it_again(make):
    one = make(Residual(DIM, dropout=0.0)).eval()
    other = make(Residual(DIM, dropout=0.0)).eval()
    vectors = torch.randn(3, DIM)
    assert not torch.equal(one.score_all(vectors), other.score_all(vectors))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.score_all(vectors), other.score_all(vectors))
    tensors = one.state_dict().values()
    assert len({tensor.data_ptr() for tensor in tensors}) == len(tensors), "nothing is kept twice"


def test_hashed_labels_have_their_buckets_rows():
    classifier, vectors = MAKE["hashed"](), torch.randn(4, DIM)
    of_buckets = classifier.buckets.score_all(vectors)
    for label, bucket in enumerate(BUCKET_OF.tolist()):
        torch.testing.assert_close(classifier.score_all(vectors)[:, label], of_buckets[:, bucket])
    assert sum(parameter.numel() for parameter in classifier.parameters()) == BUCKETS * (DIM + 1)


# Batch normalisation before the rows


def uneven_vectors():
    """Vectors with a mean and a spread of their own in every dimension."""
    return 3 * torch.rand(DIM) + torch.randn(50, DIM) * torch.linspace(0.1, 2, DIM)


def test_normalising_changes_no_score_and_folding_takes_it_back():
    torch.manual_seed(0)
    classifier, vectors = linear().eval(), uneven_vectors()
    before = classifier.score_all(vectors)
    rows = classifier.weight.detach().clone()
    normalise(classifier, vectors)
    classifier.eval()
    transformed = classifier.transform(vectors)
    torch.testing.assert_close(transformed.mean(0), torch.zeros(DIM), atol=1e-5, rtol=0)
    torch.testing.assert_close(transformed.std(0, correction=0), torch.ones(DIM), atol=1e-2, rtol=0)
    torch.testing.assert_close(classifier.score_all(vectors), before)
    fold(classifier)
    assert isinstance(classifier.transform, nn.Identity)
    torch.testing.assert_close(classifier.weight.detach(), rows)
    torch.testing.assert_close(classifier.score_all(vectors), before)


def test_folding_keeps_the_scores_of_rows_and_statistics_as_training_left_them():
    torch.manual_seed(0)
    classifier, vectors = linear(), uneven_vectors()
    normalise(classifier, vectors)
    for _ in range(3):
        classifier.transform.train()(uneven_vectors())
    with torch.no_grad():
        classifier.weight.add_(torch.randn_like(classifier.weight))
    classifier.eval()
    before = classifier.score_all(vectors)
    fold(classifier)
    torch.testing.assert_close(classifier.score_all(vectors), before)


def test_a_dimension_that_is_the_same_for_all_texts_has_no_weight_after_folding():
    torch.manual_seed(0)
    classifier, vectors = linear(), uneven_vectors()
    vectors[:, 2] = 0
    normalise(classifier, vectors)
    with torch.no_grad():
        classifier.weight.add_(1)
    classifier.eval()
    before = classifier.score_all(vectors)
    fold(classifier)
    assert not classifier.weight[:, 2].any()
    torch.testing.assert_close(classifier.score_all(vectors), before)
