"""Label-text candidates: labels whose own words a text shares, beside those that another shortlister names."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from laconic.errors import ModelError
from laconic.models.shortlisters.base import Shortlister
from laconic.models.shortlisters.label_texts import WithLabelTexts
from laconic.types import NO_LABEL, Ranking, Tokens

WORDS = 9
LABEL_TEXTS = np.array(
    [
        [0, 0, 1.0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0.6, 0.8, 0, 0, 0, 0, 0],
        [0, 0, 0, 1.0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0.6, 0.8, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],  # a label without a text
    ],
    dtype=np.float32,
)


class Fixed(Shortlister):
    """Names the same labels for every text."""

    def __init__(self, labels):
        super().__init__()
        self.named, self.num_labels, self.size = labels, len(LABEL_TEXTS), 4

    def forward(self, inputs, vectors, size):
        named = (self.named + [NO_LABEL] * size)[:size]
        return Ranking(torch.tensor([named] * len(vectors)), torch.full((len(vectors), size), 0.5))


def shortlister(named=(4,), count=2):
    return WithLabelTexts.of(Fixed(list(named)), count, csr_array(LABEL_TEXTS), torch.device("cpu"))


def tokens(*rows):
    width = max(map(len, rows))
    ids = torch.tensor([[word for word, _ in row] + [0] * (width - len(row)) for row in rows], dtype=torch.int32)
    weights = torch.tensor([[weight for _, weight in row] + [0.0] * (width - len(row)) for row in rows])
    return Tokens(ids, weights)


TEXTS = tokens([(2, 0.6), (3, 0.8)], [(5, 1.0)], [(7, 1.0)], [(3, 0.5), (3, 0.5)])


def test_cosines_are_those_of_a_plain_product():
    dense = np.zeros((4, WORDS), dtype=np.float32)
    for row, (ids, weights) in enumerate(zip(*TEXTS, strict=True)):
        np.add.at(dense[row], ids.numpy(), weights.numpy())
    expected = torch.from_numpy(dense @ LABEL_TEXTS.T)
    torch.testing.assert_close(shortlister().cosines(TEXTS), expected)


def test_places_go_to_the_labels_whose_words_are_nearest():
    found = shortlister().forward(TEXTS, torch.zeros(4, 3), 4)
    assert found.labels[0].tolist() == [4, NO_LABEL, 1, 2]  # cosines 1 and 0.8
    assert found.labels[1].tolist() == [4, NO_LABEL, 3, NO_LABEL]
    assert found.labels[2].tolist() == [4, NO_LABEL, NO_LABEL, NO_LABEL]  # nothing shares its word
    assert found.labels[3].tolist() == [4, NO_LABEL, 2, 1]


def test_a_label_is_named_once():
    found = shortlister(named=(1, 2)).forward(TEXTS, torch.zeros(4, 3), 4)
    assert found.labels[0].tolist() == [1, 2, 0, NO_LABEL]


def test_labels_that_others_name_keep_their_scores_and_come_first():
    found = shortlister(named=(4, 0)).forward(TEXTS, torch.zeros(4, 3), 4)
    assert found.scores[0, :2].tolist() == [0.5, 0.5]
    assert 0 < float(found.scores[0, 2:].max()) < 0.5


def test_a_shortlist_of_few_keeps_a_place_for_the_others():
    found = shortlister(count=3).forward(TEXTS, torch.zeros(4, 3), 2)
    assert found.labels.shape == (4, 2)
    assert found.labels[0].tolist() == [4, 1]


def test_many_texts_are_taken_in_parts(monkeypatch):
    whole = shortlister().forward(TEXTS, torch.zeros(4, 3), 4)
    monkeypatch.setattr("laconic.models.shortlisters.label_texts._AT_ONCE", 2 * WORDS)
    parts = shortlister().forward(TEXTS, torch.zeros(4, 3), 4)
    assert torch.equal(whole.labels, parts.labels)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("words", torch.tensor([WORDS, 2, 3, 3, 4, 5])),
        ("words", torch.tensor([-1, 2, 3, 3, 4, 5])),
        ("starts", torch.tensor([0, 1, 3, 4, 6, 7])),
        ("starts", torch.tensor([0, 3, 1, 4, 6, 6])),
        ("starts", torch.tensor([0, 6])),
        ("weights", torch.zeros(5)),
    ],
)
def test_numbers_that_point_outside_are_refused(name, wrong):
    tensors = {f"shortlister.{key}": tensor for key, tensor in shortlister().state_dict().items()}
    again = WithLabelTexts.of_tensors(tensors, "shortlister", Fixed([4]), 2, WORDS)
    assert torch.equal(again.forward(TEXTS, torch.zeros(4, 3), 4).labels[0], torch.tensor([4, NO_LABEL, 1, 2]))
    with pytest.raises(ModelError, match="shortlister"):
        WithLabelTexts.of_tensors({**tensors, f"shortlister.{name}": wrong}, "shortlister", Fixed([4]), 2, WORDS)
