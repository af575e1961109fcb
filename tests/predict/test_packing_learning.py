"""Clusters are learnt as texts need them: on planted labels, of which it is known who goes with whom."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional

from laconic.export import learned_tree as packing_learning
from laconic.export import tree
from laconic.export.cells import grouped
from laconic.export.learned_groups import are_grouped, learnt_groups
from laconic.export.learned_groups import texts_enough as texts_enough_for_groups
from laconic.export.learned_tree import Branches, LabelRows, learnt_branches, texts_enough
from laconic.packed.engine.encoders import Given, Unit
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.transformer import Transformer
from laconic.packed.engine.transforms import Unchanged
from tests.engine.making import by_upper_bits

CHANCE = np.random.default_rng(0)
CPU = torch.device("cpu")
DIM, KINDS, OF_KIND = 12, 64, 40
TOPICS = CHANCE.normal(size=(KINDS, DIM)).astype(np.float32)


def texts(count: int, seed: int, unseen: int = 0) -> np.ndarray:
    """Of a topic each; along the last `unseen` axes all are alike."""
    chance = np.random.default_rng(seed)
    vectors = TOPICS[chance.integers(KINDS, size=count)] + 0.3 * chance.normal(size=(count, DIM))
    vectors[:, DIM - unseen :] = 1.0
    return vectors.astype(np.float32)


def labels(unseen: int = 0, noise: float = 5.0) -> LabelRows:
    """Forty labels for each topic, one topic after another; where no text differs, their rows do as they like."""
    chance = np.random.default_rng(1)
    rows = np.repeat(TOPICS, OF_KIND, axis=0) + 0.1 * chance.normal(size=(KINDS * OF_KIND, DIM))
    rows[:, DIM - unseen :] = noise * chance.normal(size=(len(rows), unseen))
    biases = -rows[:, DIM - unseen :].sum(1) - 8  # what all texts have in common then changes no score
    return LabelRows(rows.astype(np.float32), biases.astype(np.float32))


def purity(branches: Branches) -> float:
    """Of a cluster's labels, those of its commonest topic."""
    kinds = np.split(branches.order // OF_KIND, branches.starts[:-1])[1:]
    return float(sum(np.bincount(one).max() for one in kinds) / sum(map(len, kinds)))


def scores_of(branches: Branches, encoded: np.ndarray) -> np.ndarray:
    assert branches.reading is not None
    clusters = branches.clusters
    rows: np.ndarray = clusters.coarse * clusters.scales[:, None]
    return np.asarray(branches.reading.apply(encoded) @ rows.T + clusters.biases)


def opened(branches: Branches, encoded: np.ndarray, vectors: np.ndarray, own: LabelRows) -> float:
    """The share of the best five labels that lie in the best 16 clusters, by plain numpy."""
    best = np.argsort(-scores_of(branches, encoded), axis=1)[:, :16]
    places = np.empty(own.size, dtype=int)
    places[branches.order] = np.arange(own.size)
    wanted = np.argsort(-(vectors @ own.rows.T + own.biases), axis=1)[:, :5]
    cluster_of = np.searchsorted(branches.starts, places[wanted], side="right") - 1
    return float(((cluster_of[:, :, None] == best[:, None]).any(2) | (cluster_of < 0)).mean())


def test_every_label_has_one_place_and_clusters_are_small_and_even() -> None:
    own = labels()
    branches = learnt_branches(own, texts(1200, 2), texts(1200, 2), CPU)
    assert np.array_equal(np.sort(branches.order), np.arange(own.size))
    assert branches.starts[0] == own.size // 256
    sizes = np.diff(branches.starts)
    assert branches.clusters.size == len(sizes) == 256
    assert (sizes.min() >= 6, sizes.max() - sizes.min() <= 1) == (True, True)
    assert branches.clusters.dim == DIM  # there are no more directions


def test_no_more_labels_are_always_scored_than_a_search_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing_learning, "_MOST_ALWAYS", 5)
    own, seen = labels(), texts(1200, 2)
    branches = learnt_branches(own, seen, seen, CPU)
    assert branches.starts[0] == 5
    assert np.array_equal(np.sort(branches.order), np.arange(own.size))


def test_rows_are_rotated_with_their_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    own, seen, others = labels(), texts(1200, 2), texts(300, 3)
    turned = learnt_branches(own, seen, seen, CPU)
    monkeypatch.setattr(packing_learning, "_rotation", np.eye)
    plain = learnt_branches(own, seen, seen, CPU)
    assert not np.allclose(turned.clusters.coarse, plain.clusters.coarse, atol=20)
    np.testing.assert_allclose(scores_of(turned, others), scores_of(plain, others), rtol=0.05, atol=0.2)


def test_a_row_of_few_large_numbers_has_none_after_a_rotation_and_four_bits_say_more_of_it() -> None:
    turn = packing_learning._rotation(128)
    np.testing.assert_allclose(turn @ turn.T, np.eye(128), atol=1e-6)
    rows, vectors = CHANCE.normal(size=(50, 128)) * 0.9 ** np.arange(128), CHANCE.normal(size=(40, 128))

    def lost(table: np.ndarray, read: np.ndarray) -> float:
        part = NibbleRows.of(table.astype(np.float32), np.zeros(50, np.float32), with_exact=False)
        return float(np.abs(by_upper_bits(part, read.astype(np.float32)) - read @ table.T).mean())

    assert lost(rows @ turn.T, vectors @ turn.T) < 0.6 * lost(rows, vectors)


def test_labels_are_alike_where_texts_score_them_alike() -> None:
    seen = texts(1200, 2, unseen=4)
    branches = learnt_branches(labels(unseen=4), seen, seen, CPU)
    assert purity(branches) > 0.9


def test_the_likeliest_labels_are_always_scored() -> None:
    own, seen = labels(), texts(1200, 2)
    likely = np.array([7, 400, 2001])
    own.biases[likely] += 50
    own.rows[9], own.biases[9] = 0, 20  # high bias, but what texts make of it counts
    own.biases[11], own.rows[11] = own.biases[11] + 40, 20 * seen.mean(0) / (seen.mean(0) ** 2).sum()
    branches = learnt_branches(own, seen, seen, CPU)
    assert set(branches.order[: branches.starts[0]]) >= {7, 400, 2001, 9, 11}


def test_learnt_rows_find_the_best_labels_clusters_in_few_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of texts that were not learnt from; the encoder's vectors are others than those that labels read."""
    turn = np.linalg.qr(CHANCE.normal(size=(DIM, DIM)))[0].astype(np.float32)
    own, vectors, others = labels(), texts(3000, 2), texts(500, 3)
    shares = {}
    for directions in (2, 8, DIM):
        monkeypatch.setattr(packing_learning, "_DIRECTIONS", directions)
        branches = learnt_branches(own, 1 + 0.01 * vectors @ turn, vectors, CPU)
        assert branches.clusters.dim == directions
        shares[directions] = opened(branches, 1 + 0.01 * others @ turn, others, own)
    assert shares[DIM] > 0.97
    assert shares[2] < 0.6 < 0.9 < shares[8] <= shares[DIM] + 0.01


def test_learning_tells_better_than_least_squares_which_clusters_are_high_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing_learning, "_MOST_CLUSTERS", 32)  # of two topics each, between which no row is right
    own, vectors, others = labels(), texts(3000, 2), texts(500, 3)
    learnt = learnt_branches(own, vectors, vectors, CPU)
    monkeypatch.setattr(packing_learning, "_EPOCHS", 0)
    regressed = learnt_branches(own, vectors, vectors, CPU)
    assert np.array_equal(learnt.order, regressed.order)
    assert divergence(learnt, others, own) < 0.9 * divergence(regressed, others, own)


def divergence(branches: Branches, vectors: np.ndarray, own: LabelRows) -> float:
    """Cross-entropy, less what is left of it where all is known."""
    rows, biases, seen = (torch.from_numpy(part) for part in (*own.ordered(branches.order), vectors))
    heights = packing_learning._heights(rows, biases, branches.starts, seen).float()
    guesses, best = (
        functional.binary_cross_entropy_with_logits(logits, heights.sigmoid())
        for logits in (torch.from_numpy(scores_of(branches, vectors)), heights)
    )
    return float(guesses - best)


def test_many_labels_are_looked_at_with_fewer_texts_and_in_larger_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    own, vectors = labels(), texts(300, 2)
    whole = learnt_branches(own, vectors, vectors, CPU)
    monkeypatch.setattr(packing_learning, "_SCORES", 300 * own.size)
    assert [texts_enough(size, CPU) for size in (own.size, 2 * own.size, 10**9)] == [300, 150, 1]
    monkeypatch.setattr(packing_learning, "_AT_ONCE", 7 * own.size)
    assert np.array_equal(learnt_branches(own, vectors, vectors, CPU).order, whole.order)
    monkeypatch.setattr(packing_learning, "_MOST_CLUSTERS", 32)
    assert learnt_branches(own, vectors, vectors, CPU).clusters.size == 32


def test_a_gpu_looks_at_more_texts_if_its_memory_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, bytes_of_card = torch.device("cuda"), 1 << 38
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=bytes_of_card))
    assert texts_enough(670_091, gpu) == (1 << 36) // 670_091 > 10 * texts_enough(670_091, CPU)
    bytes_of_card = 1 << 34
    assert texts_enough(670_091, gpu) == (1 << 32) // (2 * 65_536)  # two bytes for each cluster
    assert texts_enough(20_000, gpu) == (1 << 32) // (2 * 2048)


def test_clusters_are_more_where_texts_are_many_enough_to_learn_them() -> None:
    sizes = [packing_learning._num_clusters(670_091, texts) for texts in (1000, 8192, 40_000, 100_000, 10**7)]
    assert sizes == [8192, 8192, 32_768, 65_536, 65_536]
    assert packing_learning._num_clusters(25_244, 100_000) == 4096
    assert packing_learning._num_clusters(1, 100_000) == 1


def test_groups_of_clusters_learn_where_the_best_labels_are(monkeypatch: pytest.MonkeyPatch) -> None:
    own, vectors, others = labels(), texts(3000, 2), texts(500, 3)
    assert learnt_branches(own, vectors, vectors, CPU).groups["groups"] is None
    monkeypatch.setattr(packing_learning, "SCANNED", 64)
    branches = learnt_branches(own, vectors, vectors, CPU)
    groups, starts = branches.groups["groups"], branches.groups["group_starts"]
    assert starts.tolist() == list(range(0, branches.clusters.size + 1, 16))
    assert branches.groups["open_groups"] == groups.size // 8 == 2
    learnt, means = (
        share_in_groups(branches, rows, others, own) for rows in (groups, grouped(branches.clusters, 64, 16)["groups"])
    )
    assert learnt > 0.97
    assert learnt > means


def share_in_groups(branches: Branches, groups: NibbleRows, vectors: np.ndarray, own: LabelRows) -> float:
    """The share of the best five labels whose clusters lie in the best four groups, by plain numpy."""
    assert branches.reading is not None
    rows: np.ndarray = groups.coarse * groups.scales[:, None]
    best = np.argsort(-(branches.reading.apply(vectors) @ rows.T + groups.biases), axis=1)[:, :4]
    wanted = np.argsort(-(vectors @ own.rows.T + own.biases), axis=1)[:, :5]
    places = np.argsort(branches.order)[wanted]
    cluster_of = np.searchsorted(branches.starts, places, side="right") - 1
    return float(((cluster_of // 16)[:, :, None] == best[:, None]).any(2)[cluster_of >= 0].mean())


@pytest.mark.parametrize("shift", [0.0, 50.0])
def test_groups_of_own_clusters_learn_where_the_best_clusters_are(shift: float) -> None:
    """Clusters of a group are of several topics, so that their mean is of none."""
    own, apart = labels(), np.arange(KINDS * OF_KIND).reshape(-1, 16, 4).transpose(0, 2, 1).reshape(-1)
    own = LabelRows(own.rows[apart], own.biases[apart] - shift * own.rows[apart].sum(1))
    vectors, others = texts(3000, 2) + np.float32(shift), texts(500, 3) + np.float32(shift)
    learnt = learnt_groups(own, vectors, 80, CPU)
    assert learnt["group_starts"].tolist() == list(range(0, own.size + 1, 16))
    assert learnt["open_groups"] == learnt["groups"].size // 8 == 20
    means = own.rows.reshape(-1, 16, DIM).mean(1)
    rows = learnt["groups"].coarse * learnt["groups"].scales[:, None]
    wanted = np.argsort(-(others @ own.rows.T + own.biases), axis=1)[:, :20] // 16
    by_learnt, by_means = (
        _share_in_best(others @ group.T + biases, wanted)
        for group, biases in ((rows, learnt["groups"].biases), (means, own.biases.reshape(-1, 16).max(1)))
    )
    assert by_learnt > 0.85
    assert by_learnt > by_means + 0.05, by_means


def _share_in_best(scores: np.ndarray, wanted: np.ndarray) -> float:
    best = np.argsort(-scores, axis=1)[:, :20]
    return float((wanted[:, :, None] == best[:, None]).any(2).mean())


def test_own_clusters_are_grouped_where_they_are_many_and_fill_groups() -> None:
    assert [are_grouped(clusters) for clusters in (2048, 2064, 2065, 65_536)] == [False, True, False, True]
    assert texts_enough_for_groups(65_536, CPU) == 1 << 14 < texts_enough_for_groups(65_536, torch.device("cuda"))


@pytest.mark.parametrize("factor", [0.0, 1e-6, 1e4])
def test_vectors_of_any_length_are_learnt_from(factor: float) -> None:
    own, vectors = labels(), texts(1200, 2)
    branches = learnt_branches(own, vectors * np.float32(factor), vectors, CPU)
    assert np.isfinite(branches.clusters.biases).all()
    if factor:
        found = opened(branches, texts(300, 3) * np.float32(factor), texts(300, 3), own)
        assert found > 0.97


def test_heights_are_those_of_clusters_best_labels_above_the_fifth_best() -> None:
    scores = torch.tensor([[9.0, 1, 2, 8, 3, 4, 5, 7], [0, 1, 2, 3, 4, 5, 6, 7]])
    starts = np.array([1, 3, 4, 6, 7, 8])  # label 0 is always scored
    heights = packing_learning._heights(torch.eye(8), torch.zeros(8), starts, scores)
    assert heights.tolist() == [[-2, 4, 0, 1, 3], [0, 1, 3, 4, 5]]


def test_a_gpu_without_room_leaves_clustering_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    own, vectors, asked = labels(), texts(300, 2), list[tuple[str, int]]()

    def learn(rows: LabelRows, encoded: np.ndarray, seen: np.ndarray, device: torch.device) -> Branches:
        asked.append((device.type, len(encoded)))
        assert len(seen) == len(encoded)
        if device.type == "cuda":
            raise torch.OutOfMemoryError("the card is full")
        return learnt_branches(rows, encoded, seen, device)

    monkeypatch.setattr(tree, "learnt_branches", learn)
    monkeypatch.setattr(packing_learning, "_SCORES", 100 * own.size)
    found = tree._learnt_branches(own, vectors, Unchanged(inputs=DIM), torch.device("cuda"))
    assert asked == [("cuda", 300), ("cpu", 100)]
    assert np.array_equal(np.sort(found.order), np.arange(own.size))


def test_a_transformer_reads_no_more_texts_than_it_is_quick_enough_for() -> None:
    own, many = Transformer(graph=np.zeros(1, dtype=np.uint8), width=4, length=3, tokens=9), np.zeros((30_000, 4))
    assert tree._readable(own, many) == tree._readable(Unit(encoder=own), many) == 24_000
    assert tree._readable(own, many[:500]) == 500
    assert tree._readable(Unit(encoder=Given(features=4)), many) == 30_000
