"""Lists merge label by label against a dense table of all labels."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from laconic.models.shortlisters.merge import Voters, _by_counting, _by_sorting, _fill, merge
from laconic.types import NO_LABEL, Ranking

WAYS = [_by_counting, _by_sorting]


def planted(seed, *, batch=5, num_labels=30, near=12, texts=20, voters=6):
    """Cosines of either sign, texts without labels, and votes that are often for labels that are near, too."""
    generator = np.random.default_rng(seed)
    labels = np.stack([generator.permutation(num_labels)[:near] for _ in range(batch)])
    cosines = -np.sort(-generator.uniform(-0.3, 1, (batch, near)).astype(np.float32))
    counts = generator.integers(0, 5, texts)
    return (
        Ranking(torch.from_numpy(labels), torch.from_numpy(cosines)),
        Voters(
            torch.from_numpy(np.stack([generator.permutation(texts)[:voters] for _ in range(batch)])),
            torch.from_numpy(generator.uniform(0.01, 1, (batch, voters)).astype(np.float32)),
            torch.from_numpy(np.concatenate([[0], counts.cumsum()])),
            torch.from_numpy(
                np.concatenate([generator.permutation(num_labels)[:count] for count in counts] + [[]])
            ).long(),
        ),
    )


def densely(near, voters, *, counted, votes_weight, num_labels, size):
    """Merge one row after another, with a score for every label."""
    rows = []
    for row in range(len(near.labels)):
        votes, cosines = np.zeros(num_labels), np.zeros(num_labels)
        listed = dict.fromkeys(near.labels[row, :counted].tolist())
        cosines[list(listed)] = near.scores[row, :counted]
        for text, weight in zip(voters.texts[row].tolist(), voters.weights[row].tolist(), strict=True):
            own = voters.labels[int(voters.starts[text]) : int(voters.starts[text + 1])].tolist()
            votes[own] += weight
            listed |= dict.fromkeys(own)
        blended = votes_weight * votes / max(votes.max(), 1e-12) + (1 - votes_weight) * cosines
        order = sorted(listed, key=lambda label: (-blended[label], label))
        scores = [blended[label] for label in order]
        further = dict.fromkeys([*near.labels[row, counted:].tolist(), *range(num_labels)])
        order += [label for label in further if label not in listed]
        scores += [min(0, *scores)] * (num_labels - len(scores))
        padding = max(0, size - num_labels)
        rows.append((order[:size] + [NO_LABEL] * padding, scores[:size] + [0] * padding))
    return Ranking(torch.tensor([labels for labels, _ in rows]), torch.tensor([scores for _, scores in rows]))


@pytest.mark.parametrize("way", WAYS)
@given(
    seed=st.integers(0, 10_000),
    counted=st.integers(1, 12),
    votes_weight=st.sampled_from([0.0, 0.075, 0.5, 1.0]),
    size=st.integers(1, 34),
    voters=st.integers(0, 6),
)
@example(seed=0, counted=12, votes_weight=0.075, size=30, voters=6)
def test_merged_lists_are_the_dense_tables_best(way, seed, counted, votes_weight, size, voters):
    near, voting = planted(seed, voters=voters)
    votes_weight = votes_weight if voters else 0.0
    rule = {"counted": counted, "votes_weight": votes_weight, "num_labels": 30}
    found = _fill(way(near, voting, counted, votes_weight, 30, min(size, 30)), size)
    expected = densely(near, voting, **rule, size=size)
    torch.testing.assert_close(found.scores, expected.scores.float(), rtol=0, atol=1e-6)
    gaps = expected.scores.diff(dim=1).abs()
    sure = ((gaps == 0) | (gaps > 1e-6)).all(1)  # rounding may exchange what is nearly equal
    assert torch.equal(found.labels[sure], expected.labels[sure])


@pytest.mark.parametrize("way", WAYS)
def test_of_equals_the_lower_number_comes_first(way):
    near = Ranking(torch.tensor([[7, 2, 5, 1]]), torch.full((1, 4), 0.5))
    nobody = Voters(torch.zeros((1, 0)).long(), torch.zeros((1, 0)), torch.zeros(1).long(), torch.zeros(0).long())
    assert way(near, nobody, 4, 0.0, 9, 3).labels.tolist() == [[1, 2, 5]]


@pytest.mark.parametrize("way", WAYS)
def test_what_does_not_count_follows_in_its_own_order_and_then_the_lowest_labels(way):
    near = Ranking(torch.tensor([[7, 2, 5, 1]]), torch.tensor([[0.9, -0.2, -0.3, -0.4]]))
    nobody = Voters(torch.zeros((1, 0)).long(), torch.zeros((1, 0)), torch.zeros(1).long(), torch.zeros(0).long())
    found = _fill(way(near, nobody, 2, 0.0, 9, 6), 6)
    assert found.labels.tolist() == [[7, 2, 5, 1, 0, 3]]
    torch.testing.assert_close(found.scores, torch.tensor([[0.9, -0.2, -0.2, -0.2, -0.2, -0.2]]))


def test_the_nearest_of_a_labels_centres_counts_and_every_label_once():
    near = Ranking(torch.tensor([[3, 3, 1, 3, 2]]), torch.tensor([[0.9, 0.8, 0.7, 0.6, 0.5]]))
    nobody = Voters(torch.zeros((1, 0)).long(), torch.zeros((1, 0)), torch.zeros(1).long(), torch.zeros(0).long())
    found = merge(near, nobody, counted=3, votes_weight=0.0, num_labels=9, size=4)
    assert found.labels.tolist() == [[3, 1, 2, 0]]
    torch.testing.assert_close(found.scores, torch.tensor([[0.9, 0.7, 0.5, 0.0]]))


def test_every_thread_leaves_the_next_text_a_clean_table():
    near, voters = planted(1, batch=700)
    together = merge(near, voters, counted=9, votes_weight=0.3, num_labels=30, size=12)
    for row in (0, 1, 350, 699):
        part = slice(row, row + 1)
        own = Voters(voters.texts[part], voters.weights[part], voters.starts, voters.labels)
        alone = merge(
            Ranking(near.labels[part], near.scores[part]), own, counted=9, votes_weight=0.3, num_labels=30, size=12
        )
        assert torch.equal(alone.labels[0], together.labels[row])


@pytest.mark.parametrize("way", WAYS)
def test_what_a_merge_takes_does_not_depend_on_how_many_labels_there_are(way):
    near, voters = planted(0)
    few, many = (way(near, voters, 8, 0.3, num_labels, 10) for num_labels in (30, 1 << 40))
    assert torch.equal(few.labels, many.labels)
    assert torch.equal(few.scores, many.scores)
