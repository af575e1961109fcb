"""Rows in cells against plain numpy, and labels by the cells of their centres and of texts against torch."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laconic.models.shortlisters.merge import Voters, merge
from laconic.packed.engine.cell_kernels import nearest_places
from laconic.packed.engine.cells import Cells
from laconic.packed.engine.near_labels import NearLabels
from laconic.packed.engine.rows import Rows
from laconic.types import NO_LABEL, Ranking
from tests.engine.making import DIM, by_upper_bits, cells, exactly, numbers, units
from tests.variants import examples

SIZES = [9, 0, 14, 3, 8, 1, 15]
LABELS = 50


def nearest(part: Cells, vector: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    limits, best, cosines = part.limits, np.empty(wanted, np.int32), np.empty(wanted, np.float32)
    found, places = np.empty(limits.capacity, np.float32), np.empty(limits.capacity, np.int32)
    kept = nearest_places(part.tree, limits, vector, found, places, wanted, best, cosines)
    order = np.argsort(-cosines[:kept], kind="stable")
    return part.order[best[:kept][order]], cosines[:kept][order]


def plain(part: Cells, vectors: np.ndarray) -> np.ndarray:
    """The products of all rows by all of their bits, by their numbers; -inf for rows of cells that are not opened.

    Cells and groups of cells are opened by their upper bits.
    """
    by_row, by_cell = exactly(part.rows, vectors), by_upper_bits(part.middles, vectors)
    found = np.full(by_row.shape, -np.inf)
    for text in range(len(vectors)):
        inside = np.arange(part.middles.size)
        if part.groups is not None:
            groups = np.argsort(-by_upper_bits(part.groups, vectors[text : text + 1])[0])[: part.open_groups]
            inside = np.concatenate([np.arange(*part.group_starts[group : group + 2]) for group in groups])
        for cell in inside[np.argsort(-by_cell[text, inside], kind="stable")][: part.beam]:
            places = slice(*part.starts[cell : cell + 2])
            found[text, part.order[places]] = by_row[text, places]
    return found


@examples(40)
@given(st.data())
def test_the_nearest_places_of_the_best_cells_are_found(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=9).filter(any))
    groups = [1, len(sizes) - 1] if len(sizes) > 1 and data.draw(st.booleans()) else ()
    part = cells(units(sum(sizes), DIM), sizes, beam=data.draw(st.integers(1, 10)), groups=groups)
    vectors, wanted = units(3, DIM, seed=8), data.draw(st.integers(1, 30))
    for vector, expected in zip(vectors, plain(part, vectors), strict=True):
        best, cosines = nearest(part, vector, wanted)
        order = np.argsort(-expected, kind="stable")[: min(wanted, int(np.isfinite(expected).sum()))]
        assert best.tolist() == order.tolist()
        np.testing.assert_allclose(cosines, expected[order], rtol=1e-4, atol=1e-5)


def test_with_all_cells_opened_nothing_is_passed_over() -> None:
    part = cells(units(50, DIM), SIZES, beam=1, groups=[3, 4])
    vectors = units(5, DIM, seed=8)
    assert np.isinf(plain(part, vectors)).any()
    assert np.isfinite(plain(part.exact(), vectors)).all()
    assert np.isfinite(plain(part.with_beam(99), vectors)).all()
    assert len(nearest(part.exact(), vectors[0], 99)[0]) == 50


def outlying(count: int, seed: int = 0) -> np.ndarray:
    """Rows with one large coordinate, nearly the same for all, so that four bits say little of the others."""
    vectors = units(count, DIM, seed=seed)
    vectors[:, 3] += 9
    return vectors


def test_an_exact_search_scores_every_row_by_all_bits() -> None:
    part = cells(outlying(900), [300, 200, 400], beam=3)
    vectors = units(20, DIM, seed=8)
    wanted = np.argsort(-plain(part, vectors), axis=1, kind="stable")[:, :5]
    assert np.array_equal([nearest(part.exact(), vector, 5)[0] for vector in vectors], wanted)
    by_upper = [len(set(nearest(part, vector, 5)[0]) & set(best)) for vector, best in zip(vectors, wanted, strict=True)]
    assert sum(by_upper) < 5 * len(vectors)  # 69 rows are scored again, and they are not always the right ones


def test_old_cells_had_rows_of_whole_bytes_and_answer_the_same() -> None:
    part = cells(units(50, DIM), SIZES, beam=3, groups=[3, 4])
    old = {field.name: getattr(part, field.name) for field in fields(part)}
    for name in ("rows", "middles", "groups"):
        own = old[name]
        old[name] = Rows(coarse=own.coarse, scales=own.scales, biases=own.biases, fine=own.fine)
    again = Cells(**Cells.upgraded({name: value for name, value in old.items() if name != "spare"}))
    for vector in units(5, DIM, seed=8):
        for one, other in zip(nearest(again, vector, 9), nearest(part, vector, 9), strict=True):
            assert np.array_equal(one, other)


def test_cells_are_opened_that_have_enough_rows_whichever_they_are() -> None:
    part = cells(units(50, DIM), SIZES, beam=2, groups=[3, 4])
    for count in (1, 2, 5, 30, 50):
        for vector in units(5, DIM, seed=8):
            assert len(nearest(part.enough_for(count), vector, count)[0]) == count
    assert part.enough_for(0) is part


@pytest.mark.parametrize("odd", [np.nan, np.inf, 0.0])
def test_a_vector_that_says_nothing_finds_rows_all_the_same(odd: float) -> None:
    part, vector = cells(units(50, DIM), SIZES, beam=7), units(DIM)
    vector[3] = odd
    best, _ = nearest(part, vector * (odd != 0), 9)
    assert len(set(best.tolist())) == 9


def near(**changes: Any) -> NearLabels:
    """Every label has one to three texts and, where `several`, the first ten have further centres."""
    several, labels = changes.pop("several", 0), np.random.default_rng(3).integers(LABELS, size=80)
    centres, texts = units(LABELS + several, DIM), units(40, DIM, seed=1)
    return NearLabels(
        **{
            "num_labels": LABELS,
            "centres": cells(centres, [*SIZES, several], beam=8),
            "owners": np.concatenate([np.arange(LABELS), np.arange(several) % 10]).astype(np.int32),
            "texts": cells(texts, [10, 9, 0, 21], beam=4),
            "text_starts": np.arange(0, 81, 2),
            "text_labels": labels.astype(np.int32),
            "counted": 20,
            "neighbours": 6,
            "power": 3.0,
            "votes": 0.3,
            **changes,
        }
    )


def by_centres(part: NearLabels, vectors: np.ndarray) -> np.ndarray:
    """A label is as near as its nearest centre."""
    found = np.full((len(vectors), part.num_labels), -np.inf)
    np.maximum.at(found.T, part.owners, plain(part.centres, vectors).T)
    return found


def by_torch(part: NearLabels, vectors: np.ndarray, size: int) -> Ranking:
    """What the merging of lists, of which the kernel is a faster twin, makes of the same cosines.

    Those of labels of the texts that vote are known, whichever cells are opened.
    """
    starts, labels = torch.from_numpy(part.text_starts), torch.from_numpy(part.text_labels).long()
    by_texts = torch.zeros((len(vectors), 0)) if part.texts is None else torch.from_numpy(plain(part.texts, vectors))
    asked = by_texts.float().topk(min(part.neighbours, by_texts.shape[1]))
    opened, known = by_centres(part, vectors), by_centres(part.with_beam(part.cells), vectors)
    for row, texts in enumerate(asked.indices.tolist()):
        named = np.concatenate([np.arange(0), *(part.text_labels[slice(*part.text_starts[t : t + 2])] for t in texts)])
        unseen = named[np.isinf(opened[row, named])]
        opened[row, unseen] = known[row, unseen]
    every, votes = torch.from_numpy(opened).float().topk(part.num_labels), asked.values.clamp(min=0) ** part.power
    return merge(
        Ranking(every.indices, every.values),
        Voters(asked.indices, votes, starts, labels),
        counted=part.counted,
        votes_weight=part.votes if asked.indices.shape[1] else 0.0,
        num_labels=part.num_labels,
        size=size,
    )


NO_TEXTS: dict[str, Any] = {
    "texts": None,
    "text_starts": np.zeros(1, np.int64),
    "text_labels": np.zeros(0, np.int32),
}
WAYS: dict[str, dict[str, Any]] = {
    "usual": {},
    "few centres": {"counted": 3},
    "nearly all centres": {"counted": 45},
    "more centres than labels": {"counted": 400},
    "no texts": NO_TEXTS,
    "no neighbours": {"neighbours": 0},
    "more neighbours than texts": {"neighbours": 99},
    "votes alone": {"votes": 1.0},
    "several centres": {"several": 30},
    "many labels a text": {
        "text_starts": np.arange(0, 1201, 30),
        "text_labels": np.random.default_rng(4).integers(LABELS, size=1200).astype(np.int32),
    },
}


@pytest.mark.parametrize("size", [1, 12, 30, LABELS, LABELS + 9])
@pytest.mark.parametrize("way", WAYS)
def test_near_labels_are_those_of_both_lists_merged(way: str, size: int) -> None:
    part, vectors = near(**WAYS[way]), units(10, DIM, seed=8)
    found = part.listed(vectors, vectors * 3, size)  # how long a vector is says nothing
    np.testing.assert_allclose(found.scores, by_torch(part, vectors, size).scores.numpy(), atol=2e-5)
    every, there = by_torch(part, vectors, LABELS), found.labels != NO_LABEL
    nearness = np.take_along_axis(every.scores.numpy(), every.labels.argsort(1).numpy(), 1)
    of_found = np.take_along_axis(nearness, found.labels.clip(0), 1)
    np.testing.assert_allclose(found.scores[there], of_found[there], atol=2e-5)  # of equals any
    assert all(len(set(row) - {NO_LABEL}) == min(size, LABELS) for row in found.labels.tolist())


def test_of_cells_that_are_not_opened_no_label_is_near_by_its_centre() -> None:
    part, vectors = near(**NO_TEXTS, counted=3).with_beam(2), units(10, DIM, seed=8)
    found = part.listed(vectors, vectors, 3)
    enough = replace(part, centres=part.centres.enough_for(3))
    np.testing.assert_allclose(found.scores, np.sort(by_centres(enough, vectors), axis=1)[:, :-4:-1], atol=2e-5)
    assert (found.scores < part.exact().listed(vectors, vectors, 3).scores - 1e-3).any()


def test_a_list_is_full_however_many_centres_its_nearest_labels_have() -> None:
    vectors = units(3, DIM, seed=8)
    crowd = np.repeat(vectors[:1], 200, axis=0) + units(200, DIM, seed=9) / 9  # all of them are of ten labels
    part = near(
        centres=cells(np.concatenate([units(LABELS, DIM), crowd]), [100, 150], beam=2),
        owners=np.concatenate([np.arange(LABELS), np.arange(200) % 10]).astype(np.int32),
        neighbours=0,
    )
    labels = part.listed(vectors, vectors, 30).labels
    assert all(len(set(row) - {NO_LABEL}) == 30 for row in labels.tolist())
    assert set(labels[0, :10].tolist()) == set(range(10))


def test_opening_opens_as_large_a_share_of_texts() -> None:
    part = near().with_beam(2)
    assert part.texts is not None
    assert (part.centres.beam, part.texts.beam, part.cells) == (2, 1, 8)
    assert near(**NO_TEXTS).with_beam(2).texts is None


def test_labels_with_votes_are_compared_whichever_cells_are_opened() -> None:
    part, vectors = near(counted=30).with_cells(1, 4), units(10, DIM, seed=8)
    found = part.listed(vectors, vectors, 3)
    opened = replace(part, centres=part.centres.enough_for(30))
    np.testing.assert_allclose(found.scores, by_torch(opened, vectors, 3).scores.numpy(), atol=2e-5)
    assert np.isinf(by_centres(opened, vectors)[np.arange(10)[:, None], found.labels]).any()


def test_a_text_without_direction_is_near_to_as_many_labels() -> None:
    part = near()
    for vectors in (np.zeros((2, DIM), np.float32), np.full((2, DIM), np.nan, np.float32)):
        labels = part.listed(vectors, vectors, 12).labels
        assert all(len(set(row)) == 12 for row in labels.tolist())


def test_numbers_of_the_other_text_do_not_matter() -> None:
    part, vectors = near(), numbers(4, DIM)
    together = part.listed(vectors, vectors, 12)
    for text in range(4):
        alone = part.listed(vectors[text : text + 1], vectors[text : text + 1], 12)
        assert np.array_equal(alone.labels[0], together.labels[text])
        assert np.array_equal(alone.scores[0], together.scores[text])
    assert replace(part, votes=0.9).listed(vectors, vectors, 12).scores.max() != together.scores.max()
