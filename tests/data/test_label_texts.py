"""Labels' own texts as texts to learn from."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from laconic.data import label_texts
from laconic.data.dataset import Dataset
from laconic.data.label_texts import ExtraTexts, going_together, with_label_texts
from laconic.data.resident import Resident
from laconic.errors import ConfigError, DataError
from laconic.models.clustering.groups import partition
from laconic.types import FIRST_WORD, UNKNOWN

# Label 0 has four texts: label 1 is in three of them and label 2 in one. Label 3 has no text at all.
PAIRS = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]], dtype=np.float32)


def token_rows(*texts):
    starts = np.cumsum([0, *map(len, texts)])
    ids = np.array([word for text in texts for word in text], dtype=np.int32)
    return csr_array((np.ones(len(ids), dtype=np.float32), ids, starts), shape=(len(texts), 20))


def dataset(labels=PAIRS, label_words=((9, 8, 9), (3,), (4, 5), (6,)), **more):
    inputs = token_rows(*([FIRST_WORD + row % 10] for row in range(len(labels))))
    return Dataset(inputs=inputs, labels=csr_array(labels), label_inputs=token_rows(*label_words), ordered=True, **more)


def shares(data, **config):
    return going_together(data, np.arange(data.num_labels), ExtraTexts(**config)).toarray()


def plain_shares(labels, weights, threshold, most):
    """Label by label, as one would count by hand."""
    found = np.zeros((labels.shape[1], labels.shape[1]))
    for label in range(labels.shape[1]):
        total = weights[labels[:, label] > 0].sum()
        if not total:
            continue
        share = [weights[(labels[:, label] > 0) & (labels[:, m] > 0)].sum() / total for m in range(labels.shape[1])]
        others = [m for m in np.argsort(-np.array(share), kind="stable") if m != label and share[m] >= threshold]
        for other in others[:most]:
            found[label, other] = share[other]
    return found


def test_shares_are_those_counted_by_hand():
    expected = [[0, 3 / 4, 1 / 4, 0], [3 / 4, 0, 1 / 4, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(shares(dataset()), expected)


def test_places_are_those_that_labels_can_fill_and_not_as_many_as_are_allowed():
    np.testing.assert_allclose(shares(dataset(), most=1000, threshold=0.001), shares(dataset()))
    work = np.array([0, 9, 11, 14])  # labels of the texts of each label
    assert np.diff(label_texts._places(np.minimum(np.diff(work), 1000)).starts).tolist() == [9, 2, 3]


def test_rare_others_are_dropped_and_no_more_than_the_most_frequent_kept():
    np.testing.assert_allclose(shares(dataset(), threshold=0.25)[0], [0, 0.75, 0.25, 0])  # as often as the threshold
    np.testing.assert_allclose(shares(dataset(), threshold=0.26)[0], [0, 0.75, 0, 0])
    np.testing.assert_allclose(
        shares(dataset(), most=1)[[0, 2]], [[0, 0.75, 0, 0], [1, 0, 0, 0]]
    )  # of equals the lower
    assert not shares(dataset(), most=0).any()


def test_a_text_counts_by_its_weight():
    found = shares(dataset(weights=np.array([1, 5, 1, 1, 0], dtype=np.float32)))
    np.testing.assert_allclose(found[:2], [[0, 7 / 8, 5 / 8, 0], [1, 0, 5 / 7, 0]])


def test_a_stored_zero_is_no_pair():
    data = dataset()
    data.labels.data[:] = np.where(np.arange(data.labels.nnz) == 1, 0, 1)  # label 1 of the first text
    np.testing.assert_allclose(shares(data)[0], [0, 2 / 4, 1 / 4, 0])


@pytest.mark.parametrize("cores", [1, 3, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_counted_in_parts_as_one_by_one(monkeypatch, cores, weighted):
    monkeypatch.setattr(label_texts, "usable_cores", lambda: cores)
    chance = np.random.default_rng(3)
    labels = (chance.random((60, 15)) < np.linspace(0.9, 0.0, 15)).astype(np.float32)  # the first is nearly everywhere
    weights = chance.integers(1, 4, 60).astype(np.float32) if weighted else None
    data = dataset(labels, [[5]] * 15, weights=weights)
    expected = plain_shares(labels, np.ones(60) if weights is None else weights, 0.2, 4)
    np.testing.assert_allclose(shares(data, threshold=0.2, most=4), expected, rtol=1e-6)


def test_of_a_frequent_label_some_texts_are_counted_evenly_spaced(monkeypatch):
    monkeypatch.setattr(label_texts, "_TEXTS_A_LABEL", 10)
    labels = np.zeros((95, 3), dtype=np.float32)
    labels[:, 0] = 1
    labels[48:, 1] = 1  # in the later half
    labels[5:12, 2] = 1
    found = shares(dataset(labels, [[5]] * 3), threshold=0.01)
    assert found[0, 1] == 0.5
    assert 0 < found[0, 2] <= 0.1
    assert found[2, 0] == 1  # a rare label is counted in full


def test_a_label_with_words_becomes_a_text_of_it_and_of_what_goes_with_it():
    data = dataset(label_words=((9, 8, 9), (), (UNKNOWN, UNKNOWN), (6,)))
    more = with_label_texts(ExtraTexts(threshold=0.3), data)
    assert more.extra.tolist() == [False] * 5 + [True] * 2  # labels 1 and 2 say nothing that is known
    assert more.inputs.indices[more.inputs.indptr[5] :].tolist() == [9, 8, 9, 6]  # in reading order
    np.testing.assert_allclose(more.labels[5:].toarray(), [[1, 0.75, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(more.labels[:5].toarray(), PAIRS)
    assert more.weights is None
    assert more.leave_out is None


def test_targets_are_as_true_as_shares_say_where_labels_have_weights():
    more = with_label_texts(ExtraTexts(), dataset(PAIRS * [4, 2, 1, 1]))
    resident = Resident.of(more, 3, torch.device("cpu"))
    batch = resident.take(torch.tensor([1, 5]))
    torch.testing.assert_close(batch.targets[:, :3], torch.tensor([[1, 0.5, 0.25], [1, 0.75, 0.25]]))


def test_the_texts_count_as_much_as_they_are_said_to():
    assert with_label_texts(ExtraTexts(weight=0.5), dataset()).weights.tolist() == [1] * 5 + [0.5] * 4
    given = dataset(weights=np.arange(5, dtype=np.float32))
    assert with_label_texts(ExtraTexts(), given).weights.tolist() == [0, 1, 2, 3, 4, 1, 1, 1, 1]


def test_pairs_that_are_left_out_stay_so_and_a_label_is_true_of_its_own_text():
    left_out = csr_array(np.eye(5, 4, dtype=np.float32))
    more = with_label_texts(ExtraTexts(), dataset(leave_out=left_out))
    np.testing.assert_array_equal(more.leave_out.toarray(), np.concatenate([np.eye(5, 4), np.zeros((4, 4))]))
    assert (more.labels[5:].diagonal() == 1).all()


def test_they_are_added_after_a_validation_split_is_cut_off_and_counted_on_the_rest():
    labels = np.tile(PAIRS, (4, 1))
    data = replace(dataset(labels), extend=lambda rest: with_label_texts(ExtraTexts(), rest))
    learn, held = data.split(0.25, seed=1)
    assert (len(learn), len(held)) == (15 + 4, 5)
    assert held.extra is None
    plain, _ = dataset(labels).split(0.25, seed=1)
    expected = shares(plain) + np.eye(4)
    np.testing.assert_allclose(learn.labels[15:].toarray(), expected, rtol=1e-6)
    assert not np.allclose(expected, shares(data) + np.eye(4))  # all of the texts would have given other shares
    assert learn.split(0.0, seed=1)[0].extra.sum() == 4  # once, not again
    given = replace(data, validation=dataset())
    assert [len(part) for part in given.split(0.25, seed=1)] == [24, 5]
    assert len(data.extended()) == 24


def test_a_group_is_as_true_as_the_truest_of_its_labels():
    labels = csr_array(np.array([[0.2, 0.7, 0, 0], [0, 0, 0.5, 1], [0, 0, 0, 0], [0.3, 0, 0, 0.1]], dtype=np.float32))
    grouped = dataset(labels.toarray()).relabelled(partition(np.array([1, 1, 0, 0]), 3)).labels.toarray()
    np.testing.assert_array_equal(grouped, np.float32([[0, 0.7, 0], [1, 0, 0], [0, 0, 0], [0.1, 0.3, 0]]))


def mixed(*, texts=50, extra=7, share=0.25):
    labels = np.ones((texts, extra), dtype=np.float32)
    data = with_label_texts(ExtraTexts(share=share), dataset(labels, [[5]] * extra))
    return Resident.of(data, 3, torch.device("cpu"))


@pytest.mark.parametrize(("share", "few"), [(0.25, 2), (0.2, 2), (0.01, 1), (0.9, 7)])
def test_every_batch_has_its_share_of_extra_texts(share, few):
    data = mixed(share=share)
    for epoch in range(3):
        order = data.order(epoch, 29, 8)
        assert order.shape == (data.steps(8), 8)
        assert ((order >= 50).sum(1) == few).all()
        own = order[order < 50]
        assert set(own.tolist()) == set(range(50))
        assert len(own) < 50 + 8 - few  # every text once, but for what fills the last batch


def test_extra_texts_go_round_from_epoch_to_epoch():
    data = mixed()
    taken = torch.cat([rows[rows >= 50] for epoch in range(7) for rows in data.order(epoch, 29, 8)])
    counts = torch.bincount(taken - 50, minlength=7)
    assert counts.max() - counts.min() <= 1
    first, second = taken[:7], taken[7:14]
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(50, 57))
    assert first.tolist() != second.tolist()


def test_an_order_is_that_of_its_epoch_and_seed():
    one, other = mixed(), mixed()
    torch.testing.assert_close(one.order(3, 29, 8), other.order(3, 29, 8))
    assert not torch.equal(one.order(3, 29, 8), one.order(4, 29, 8))
    assert not torch.equal(one.order(3, 29, 8), one.order(3, 30, 8))


def test_without_a_share_each_is_there_once_an_epoch():
    data = mixed(share=0.0)
    assert data.steps(8) == 8
    assert set(data.order(0, 29, 8).flatten().tolist()) == set(range(57))


def test_labels_without_texts_are_refused():
    with pytest.raises(DataError, match="extra_texts wants labels with texts, but this data has none"):
        with_label_texts(ExtraTexts(), replace(dataset(), label_inputs=None))
    with pytest.raises(DataError, match="no label's text has a known word"):
        with_label_texts(ExtraTexts(), dataset(label_words=((), (UNKNOWN,), (), ())))


@pytest.mark.parametrize("wrong", [{"share": 1.0}, {"threshold": 0.0}, {"most": -1}, {"weight": 0.0}], ids=str)
def test_settings_outside_their_bounds_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=rf"extra_texts\.{name} must be .* but is"):
        ExtraTexts(**wrong)
