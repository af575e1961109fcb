"""What every classifier promises: some labels score as they do among all. Then what each is."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn

from laconic.models.classifiers import CLASSIFIERS, HashedClassifier, LabelText, LinearClassifier
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
