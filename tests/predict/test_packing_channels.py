"""The beams of a combined model's channels, which packing chooses together."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from laconic.data.prepare import prepare
from laconic.export import beams as widths
from laconic.export import learned_tree
from laconic.export.rankers import pack_ranker
from laconic.export.tree import tree_over
from laconic.methods.nearest import Config, build
from laconic.models.encoders import Identity
from laconic.models.fusion.evidence import columns_of, listed, numbers_of
from laconic.models.fusion.network import Combiner
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.siamese_ranker import SiameseRanker
from laconic.packed.engine.fusion import Fused
from laconic.packed.engine.search import Searched
from laconic.packed.engine.texts import Ranked
from tests.engine.test_candidates import candidates
from tests.engine.test_cells import NO_TEXTS, near
from tests.planted import planted_vectors
from tests.predict.test_packing_trees import DIM, LABELS, classifier, flat, topical

TUNING = 600  # texts


@cache
def combined() -> FusedRanker:
    """A ranker of all labels and a space of them, combined with nearest texts."""
    config = Config(neighbours=5)
    data, _ = prepare(planted_vectors(num_labels=LABELS, num_texts=60, dim=DIM), config.text, config.vocabulary)
    space = SiameseRanker(Identity(DIM), classifier(LABELS, seed=4)).eval()
    torch.manual_seed(0)
    network = Combiner(numbers_of(2), 8)
    network.standardise(torch.randn(50, numbers_of(2)) * 3)
    return FusedRanker(flat(), build(data, config), network, torch.zeros(LABELS), width=16, siamese=space).eval()


def packed(monkeypatch: pytest.MonkeyPatch, together: float) -> Fused:
    monkeypatch.setattr(widths, "TOGETHER", together)
    monkeypatch.setattr(widths, "ENOUGH", together)
    part = pack_ranker(combined(), topical(TUNING, 8).numpy())
    assert isinstance(part, Fused)
    return part


def beams(part: Fused) -> list[int]:
    assert isinstance(part.base, Searched)
    assert part.siamese is not None
    return [part.base.beam, part.siamese.beam]


def clusters(part: Fused) -> list[int]:
    assert isinstance(part.base, Searched)
    assert part.siamese is not None
    return [part.base.clusters.size, part.siamese.clusters.size]


def narrowest(part: Fused) -> list[int]:
    return [max(1, min(size // widths.SPARED, size * widths._FIRST // LABELS)) for size in clusters(part)]


def test_a_found_label_counts_as_much_as_its_probability_and_its_place() -> None:
    wanted = Ranked(np.array([[4, 7, 5], [2, -1, -1]]), np.array([[0.5, 0.25, 0.25], [0.25, 0, 0]], dtype=np.float32))
    found = Ranked(np.array([[9, 4], [3, -1]]), np.zeros((2, 2), dtype=np.float32))
    second = 1 / np.log2(3)
    assert widths._share_found(found, wanted) == pytest.approx(0.5 * second / (0.5 + 0.25 * second + 0.25))
    for best in ([[4, 7], [2, -1]], [[4, 5], [2, -1]]):  # of equal probability
        assert widths._share_found(Ranked(np.array(best), found.scores), wanted) == pytest.approx(1.0)


def test_beams_are_as_narrow_as_what_is_to_be_found_permits(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing, usual, all_of_it = (packed(monkeypatch, share) for share in (0.0, 0.99, 2.0))
    assert beams(nothing) == narrowest(nothing)
    assert beams(all_of_it) == clusters(all_of_it)
    assert beams(nothing) < beams(usual)
    assert all(
        few <= some <= most for few, some, most in zip(beams(nothing), beams(usual), beams(all_of_it), strict=True)
    )


def test_chosen_beams_find_what_exact_channels_find_in_new_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    part, texts = packed(monkeypatch, 0.99), topical(300, 9).numpy()
    assert sum(beams(part)) < sum(clusters(part)) // 2
    wanted = widths._best(part.exact(), texts, 20)
    assert widths._share_found(widths._best_five(part, texts), wanted) > 0.985
    least = packed(monkeypatch, 0.0)
    assert widths._share_found(widths._best_five(least, texts), wanted) < 0.98


def test_what_costs_more_than_it_finds_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for worth, is_widened in ((1e9, False), (0.0, True)):
        monkeypatch.setattr(widths, "_WORTH", worth)
        monkeypatch.setattr(widths, "ENOUGH", 0.0)
        monkeypatch.setattr(widths, "TOGETHER", 0.99)
        part = pack_ranker(combined(), topical(TUNING, 8).numpy())
        assert isinstance(part, Fused)
        assert (beams(part) > narrowest(part)) == is_widened


def test_beams_that_read_much_are_widened_only_if_that_finds_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widths, "_HARDLY_FELT", 0.0)
    monkeypatch.setattr(widths, "_WORTH", 1e9)
    part = packed(monkeypatch, 2.0)
    assert beams(part) == narrowest(part)


def test_groups_of_clusters_are_chosen_with_the_beams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_tree, "SCANNED", 64)
    opened = {}
    for share in (0.0, 0.99, 2.0):
        monkeypatch.setattr(widths, "TOGETHER", share)
        monkeypatch.setattr(widths, "ENOUGH", share)
        part = pack_ranker(combined(), topical(3000, 8).numpy())
        assert isinstance(part, Fused)
        assert isinstance(part.base, Searched)
        assert part.base.groups is not None
        assert part.base.groups.size == part.base.clusters.size // 16
        opened[share] = part.base.open_groups, part.base.groups.size
    assert opened[0.0][0] == 1
    assert opened[0.0][0] <= opened[0.99][0] <= opened[2.0][0]
    assert opened[2.0][0] == opened[2.0][1]


@torch.no_grad()
def test_what_a_search_misses_and_another_channel_finds_counts_as_if_it_had_been_found() -> None:
    part, texts = pack_ranker(combined()), topical(200, 9).numpy()
    assert isinstance(part, Fused)
    assert isinstance(part.base, Searched)
    assert part.siamese is not None
    narrow = replace(part, base=part.base.with_beam(1), siamese=part.siamese.with_beam(1))
    found, width, missed = narrow._evidence(texts, 0, None), part.width, 0
    for number, searched in ((0, narrow.base), (1, narrow.siamese)):
        assert isinstance(searched, Searched)
        own = searched.exact().rank(texts, width)
        proposed = searched.propose(searched.vectors(texts), width)
        score, share, _, place, _ = (column for column in columns_of(number))
        for row in range(len(texts)):
            there = found.labels[row] >= 0
            candidates, numbers = found.labels[row, there], found.numbers[row, there]
            every = searched.exact().score(texts[row : row + 1], candidates[None])[0]
            best = np.argsort(-every, kind="stable")[:width]
            expected = np.zeros(len(candidates))
            expected[best] = 1 / np.arange(1, len(best) + 1)
            np.testing.assert_allclose(numbers[:, place], expected, rtol=1e-6)
            # The base says nothing of labels that it does not list; every score of a space says something.
            known = np.where(expected > 0, every, 0) if number == 0 else every
            best = expected > 0
            np.testing.assert_allclose(numbers[best, score], known[best], rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(numbers[best, share], known[best] / every.max(), rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(numbers[~best, score], known[~best], rtol=0.5, atol=5e-3)  # by upper bits
            own_best = candidates[best]
            missed += len(set(own_best.tolist()) & set(own.labels[row].tolist()) - set(proposed[row].tolist()))
    assert missed > 10  # labels of exact lists


@torch.no_grad()
def test_requested_labels_are_scored_by_all_bits_and_change_nothing_of_any_other() -> None:
    part, texts = pack_ranker(combined()), topical(20, 9).numpy()
    assert isinstance(part, Fused)
    assert part.siamese is not None
    narrow = replace(part, base=part.base.with_beam(1), siamese=part.siamese.with_beam(1))
    labels = np.stack([np.random.default_rng(row).permutation(LABELS)[:150] for row in range(20)])
    together = narrow.score(texts, labels)
    for place in range(0, 150, 30):
        alone = narrow.score(texts, labels[:, place : place + 1])
        np.testing.assert_allclose(alone[:, 0], together[:, place], rtol=1e-6)
    found, exact = narrow._evidence(texts, 0, labels), part.siamese.exact()
    (score, share), proposed = columns_of(1)[:2], listed(found)
    for row, wanted in enumerate(labels):
        requested = np.isin(found.labels[row], wanted) & ~proposed[row]
        every = exact.score(texts[row : row + 1], found.labels[row, requested][None])[0]
        np.testing.assert_allclose(found.numbers[row, requested, score], every, rtol=1e-6)
        assert requested.sum() > 50
    assert (found.numbers[:, :, share] <= 1).all()
    best = narrow.rank(texts, 5)
    np.testing.assert_allclose(narrow.score(texts, best.labels), best.scores, rtol=1e-6)


def test_of_labels_that_more_are_scored_for_the_best_are_proposed() -> None:
    part, texts = pack_ranker(combined()), topical(50, 9).numpy()
    assert isinstance(part, Fused)
    assert part.siamese is not None
    for rescored, found in ((1, 0.9), (400, 0.999)):
        space = replace(part.siamese.exact(), rescored=rescored)
        wanted, proposed = space.exact().rank(texts, 30).labels, space.propose(space.vectors(texts), 30)
        assert (wanted[:, :, None] == proposed[:, None]).any(2).mean() > found
        assert all(len(set(row)) == 30 for row in proposed.tolist())


def test_less_is_read_where_fewer_groups_are_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_tree, "SCANNED", 64)
    tree = tree_over(flat(), topical(3000, 8).numpy(), torch.device("cpu"))
    assert tree.groups is not None
    whole = replace(tree, open_groups=tree.groups.size)
    half = replace(tree, open_groups=tree.groups.size // 2)
    assert widths._read(whole) - widths._read(half) == pytest.approx(tree.clusters.upper.nbytes / 2)
    assert widths._read(whole) - widths._read(tree.without_groups()) == tree.groups.upper.nbytes
    labels = int(tree.starts[0]) + (LABELS - int(tree.starts[0])) * tree.beam / tree.clusters.size
    read = tree.clusters.upper.nbytes + labels * tree.rows.upper.shape[1]
    assert widths._read(tree.without_groups()) == pytest.approx(read)


def test_astec_reads_the_upper_bits_of_its_cells_and_the_rows_of_its_shortlist() -> None:
    part = candidates(near=near(**NO_TEXTS), size=20)
    centres = part.near.centres
    assert centres.groups is None
    of_labels = 20 * part.rows.upper.shape[1]
    read = centres.middles.upper.nbytes + 2 * centres.rows.upper.nbytes / centres.middles.size + of_labels
    assert widths._read(part.with_beam(2)) == pytest.approx(read)
    assert widths._read(candidates(size=20)) > widths._read(part)


def test_without_texts_beams_are_the_usual_ones() -> None:
    part = pack_ranker(combined())
    assert isinstance(part, Fused)
    assert all(1 < beam < size for beam, size in zip(beams(part), clusters(part), strict=True))
