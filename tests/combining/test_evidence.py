"""What is gathered of texts and labels, against a plain loop over everything."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic.kernels.csr import Lists
from laconic.kernels.spares import Spares
from laconic.models.fusion import NUMBERS, Asked, Channels, Evidence, Listed, gather_evidence
from laconic.models.fusion.evidence import FURTHER, make_workspace
from laconic.types import NO_LABEL

TEXTS, TRAINING, LABELS, WORDS, WIDTH = 7, 20, 15, 12, 4


def sparse(rows: int, columns: int, generator: np.random.Generator, *, unit: bool) -> csr_array:
    table = generator.random((rows, columns)) * (generator.random((rows, columns)) < 0.3)
    if unit:
        table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
    return csr_array(table.astype(np.float32))


class World:
    """Random texts, neighbours, label texts and a ranking; some rows have no neighbours or no words."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.queries = sparse(TEXTS, WORDS, generator, unit=True)
        self.label_texts = sparse(LABELS, WORDS, generator, unit=True)
        self.votes = sparse(TRAINING, LABELS, generator, unit=False)
        self.neighbours = np.stack([generator.permutation(TRAINING)[:5] for _ in range(TEXTS)])
        self.weights = -np.sort(-generator.random((TEXTS, 5)).astype(np.float32), axis=1)
        self.neighbours[1, 2:], self.neighbours[2] = NO_LABEL, NO_LABEL
        self.queries = csr_array(self.queries.multiply((np.arange(TEXTS) != 3)[:, None]))
        self.queries.eliminate_zeros()
        self.listed = np.stack([generator.permutation(LABELS)[:3] for _ in range(TEXTS)])
        self.scores = -np.sort(-generator.random((TEXTS, 3)).astype(np.float32), axis=1)
        self.listed[4, 2], self.scores[4, 2] = NO_LABEL, 0
        self.others = np.stack([generator.permutation(LABELS)[:4] for _ in range(TEXTS)])
        self.their_scores = -np.sort(-generator.random((TEXTS, 4)).astype(np.float32), axis=1)
        self.wanted = generator.integers(0, LABELS, (TEXTS, 2))
        self.frequency = generator.random(LABELS).astype(np.float32) * 5

    def gathered(self) -> Evidence:
        channels = Channels(
            self.neighbours,
            self.weights,
            Lists.of(self.votes),
            Lists.of(self.queries),
            Lists.inverted(self.label_texts),
            np.float32(1),
        )
        rankers = Listed(self.listed, self.scores), Listed(self.others, self.their_scores)
        spaces = Spares(partial(make_workspace, len(self.frequency)))
        return gather_evidence(channels, Asked(rankers, self.wanted), self.frequency, WIDTH, spaces)

    def plainly(self, row: int) -> dict[int, dict[str, float]]:
        """The numbers of every candidate of a text, by name."""
        votes, nearest = np.zeros(LABELS), np.zeros(LABELS)
        full, words = self.votes.toarray(), self.label_texts.toarray()
        for text, weight in zip(self.neighbours[row], self.weights[row], strict=True):
            if text == NO_LABEL:
                break
            votes += weight * full[text]
            nearest = np.maximum(nearest, weight * (full[text] > 0))
        text = self.queries.toarray()[row]
        cosines, common = words @ text, (words**2) @ (text > 0)
        by_votes = [label for label in np.argsort(-votes, kind="stable") if votes[label] > 0][:WIDTH]
        by_words = [label for label in np.argsort(-cosines, kind="stable") if cosines[label] > 0][:WIDTH]
        listed = [label for label in self.listed[row] if label != NO_LABEL]
        ranked = dict(zip(self.listed[row], self.scores[row], strict=True))
        second = dict(zip(self.others[row], self.their_scores[row], strict=True))
        found = {}
        for label in {*listed, *second, *by_votes, *by_words, *self.wanted[row]}:
            own = ranked.get(label, 0.0)
            share, log_share = own / self.scores[row].max(), math.log(1e-4 + own / self.scores[row].max())
            vote, often = votes[label] / (votes.max() or 1), self.frequency[label]
            found[int(label)] = {
                "there": 1,
                "ranker's score": own,
                "ranker's share": share,
                "log of the ranker's share": log_share,
                "ranker's place": 1 / (1 + listed.index(label)) if label in listed else 0,
                "votes": vote,
                "log of votes": math.log(1e-3 + vote),
                "place by votes": 1 / (1 + by_votes.index(label)) if label in by_votes else 0,
                "nearest with it": nearest[label],
                "cosine": cosines[label],
                "share of the cosine": cosines[label] / max(cosines.max(), 1e-6),
                "place by cosine": 1 / (1 + by_words.index(label)) if label in by_words else 0,
                "label text found": common[label],
                "frequency": often,
                "frequency × log of the ranker's share": often * log_share,
                "frequency × votes": often * vote,
                "frequency × cosine": often * cosines[label],
                "nearest text": self.weights[row, 0],
                "largest cosine": max(cosines.max(), 0),
                "words": math.log1p((text > 0).sum()),
            }
            share = second.get(label, 0.0) / self.their_scores[row].max()
            found[int(label)] |= {
                "score": second.get(label, 0.0),
                "share": share,
                "log of the share": math.log(1e-4 + share),
                "place": 1 / (1 + list(second).index(label)) if label in second else 0,
                "frequency × log of the share": often * math.log(1e-4 + share),
            }
        return found


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_a_plain_loop(seed: int) -> None:
    world = World(seed)
    found = world.gathered()
    for row in range(TEXTS):
        expected = world.plainly(row)
        labels = [label for label in found.labels[row] if label != NO_LABEL]
        assert sorted(labels) == sorted(expected)
        for place, label in enumerate(labels):
            plain = [expected[label][name] for name in (*NUMBERS, *FURTHER)]
            np.testing.assert_allclose(found.numbers[row, place], plain, rtol=2e-5, atol=2e-5, err_msg=f"{row} {label}")
        assert not found.numbers[row, len(labels) :].any()


def test_one_text_leaves_nothing_behind_for_the_next() -> None:
    world = World(0)
    together, again = world.gathered(), world.gathered()
    np.testing.assert_array_equal(together.numbers, again.numbers)
    world.neighbours, world.weights = world.neighbours[::-1].copy(), world.weights[::-1].copy()
    world.queries = csr_array(world.queries.toarray()[::-1])
    for part in ("listed", "scores", "others", "their_scores", "wanted"):
        setattr(world, part, getattr(world, part)[::-1].copy())
    np.testing.assert_array_equal(world.gathered().numbers[::-1], together.numbers)


def test_neighbours_of_too_much_weight_go_and_others_move_up() -> None:
    world = World(0)
    lists = Lists.of(world.votes), Lists.of(world.queries), Lists.inverted(world.label_texts)
    channels = Channels(world.neighbours, world.weights, *lists, np.float32(1))
    most = float(np.median(world.weights))
    found = channels.without(most, slice(0, None, 2))
    for row in range(TEXTS):
        kept = (world.weights[row] <= most) | (row % 2 == 1)
        assert np.array_equal(found.neighbours[row, : kept.sum()], world.neighbours[row, kept])
        assert np.array_equal(found.weights[row, : kept.sum()], world.weights[row, kept])
        assert (found.neighbours[row, kept.sum() :] == NO_LABEL).all()
        assert not found.weights[row, kept.sum() :].any()
