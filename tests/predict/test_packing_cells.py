"""How many cells of labels and of texts packed Astec probes."""

from __future__ import annotations

import numpy as np
import pytest

from laconic.export import beams
from laconic.export.cells import cells_of
from laconic.packed.engine.candidates import Candidates
from laconic.packed.engine.near_labels import NearLabels
from laconic.packed.engine.nibble_rows import NibbleRows
from tests.engine.making import DIM, given, numbers, units

LABELS, TEXTS = 4200, 9000


def part(*, texts: bool = True) -> Candidates:
    """Labels around directions of their own, and texts around their labels."""
    centres = units(LABELS, DIM)
    labels = np.random.default_rng(2).integers(LABELS, size=TEXTS).astype(np.int32)
    near = NearLabels(
        num_labels=LABELS,
        centres=cells_of(centres),
        owners=np.arange(LABELS, dtype=np.int32),
        texts=cells_of(around(labels, seed=3)) if texts else None,
        text_starts=np.arange(TEXTS + 1) if texts else np.zeros(1, np.int64),
        text_labels=labels if texts else labels[:0],
        counted=100,
        neighbours=20,
        power=3.0,
        votes=0.3,
    )
    rows = NibbleRows.of(8 * centres, np.zeros(LABELS, np.float32))
    return Candidates(**given(), rows=rows, near=near, beta=0.5, size=150)


def around(labels: np.ndarray, *, seed: int) -> np.ndarray:
    vectors = units(LABELS, DIM)[labels] + 0.4 * units(len(labels), DIM, seed=seed)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def cells(one: Candidates) -> tuple[int, int]:
    return one.near.centres.beam, 0 if one.near.texts is None else one.near.texts.beam


def all_cells(one: Candidates) -> tuple[int, int]:
    return one.near.centres.middles.size, 0 if one.near.texts is None else one.near.texts.middles.size


def found(one: Candidates, vectors: np.ndarray) -> float:
    wanted = one.exact().rank(vectors, 5).labels
    return float((wanted[:, :, None] == one.rank(vectors, 5).labels[:, None]).any(2).mean())


HELD_OUT = around(np.arange(0, LABELS, 20), seed=4)


def test_as_few_cells_are_probed_as_find_nearly_all() -> None:
    chosen = beams.with_cells(part(), HELD_OUT, lambda done: None)
    assert found(chosen, HELD_OUT) >= beams.MOSTLY
    assert cells(chosen)[0] <= all_cells(chosen)[0] / 2
    assert cells(chosen)[1] <= all_cells(chosen)[1] / 2


def test_cells_of_labels_alone_are_chosen_where_no_text_votes() -> None:
    chosen = beams.with_cells(part(texts=False), HELD_OUT, lambda done: None)
    assert found(chosen, HELD_OUT) >= beams.MOSTLY
    assert found(chosen.with_cells(cells(chosen)[0] // 2, 0), HELD_OUT) < found(chosen, HELD_OUT)


def test_every_cell_is_probed_where_that_is_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beams, "MOSTLY", 2.0)
    monkeypatch.setattr(beams, "NEARLY", 2.0)
    chosen = beams.with_cells(part(), HELD_OUT, lambda done: None)
    assert cells(chosen) == all_cells(chosen)


def test_where_much_is_read_more_cells_must_be_worth_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beams, "_HARDLY_FELT", 0.0)
    monkeypatch.setattr(beams, "_WORTH_OF_CELLS", 1e9)
    steps: list[float] = []
    chosen = beams.with_cells(part(), HELD_OUT, steps.append)
    assert cells(chosen) == (1, 1)
    assert steps == sorted(steps)
    assert 0 < steps[0] <= steps[-1] <= 1


def test_without_texts_the_usual_number_of_cells_is_probed() -> None:
    assert cells(beams.with_cells(part(), None, lambda done: None)) == cells(part())
    assert cells(beams.with_cells(part(), numbers(0, DIM), lambda done: None)) == cells(part())
