"""What every packed ranker must keep to, on planted data: it answers as the ranker that it was made from.

A new method is tested by its line in METHODS.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from laconic.config import Settings, configure
from laconic.data.prepare import input_rows, prepare
from laconic.data.tokenizer import inputs_of
from laconic.export.rankers import pack_ranker
from laconic.methods.registry import METHODS, ensemble_of
from laconic.models.rankers import Ranker, ShortlistRanker
from laconic.models.trees_ranker import TreesRanker
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.texts import Inputs, size_of, some
from laconic.training.run import Run
from laconic.types import NO_LABEL
from laconic.types import Inputs as TorchInputs
from tests.engine.making import mapped, texts_of
from tests.planted import planted_texts, planted_vectors
from tests.test_rankers import FUSION, RERANKER, SETTINGS
from tests.variants import some_slow

EPOCHS = {"inceptionxml": 2, "inceptionxml+": 2, "astec": 7, "decaf": 3, "xml-cnn": 3, "mach": 3}
RERANKED: Settings = {"reranker": {**RERANKER, "epochs": 3}}
FUSED: Settings = {"fusion": {**FUSION, "epochs": 10}}
DENSE: Settings = {"encoder": "dense", "embedding": 16, "dropout": 0.0}
NUM_LABELS = 12


class Case(NamedTuple):
    """A method, what it is told, how many members it has, and whether it reads dense features."""

    method: str
    settings: Settings = {}  # noqa: RUF012 - nobody writes to it
    members: int = 1
    dense: bool = False


CASES = {
    **{name: Case(name) for name in METHODS},
    "members, re-ranked and fused": Case("astec", RERANKED | FUSED, members=2),
    "nearest of features": Case("nearest", dense=True),
    "astec of several centres": Case("astec", {"shortlist": {**SETTINGS["astec"]["shortlist"], "centres": 2}}),  # type: ignore[dict-item]
    "astec of clusters": Case("astec", {"shortlister": "clusters"}),
    "astec with label texts": Case("astec", {"label_texts": 3}),
    "astec of clusters with label texts": Case("astec", {"shortlister": "clusters", "label_texts": 3}),
    "decaf of nearest labels": Case("decaf", {"shortlist": "nearest"}),
    "members": Case("xml-cnn", members=2),
    "re-ranked": Case("nearest", RERANKED),
    "fused": Case("mach", FUSED),
    "trees of features": Case("trees", dense=True),
    "xml-cnn of features": Case("xml-cnn", DENSE, dense=True),
    "astec of features": Case("astec", DENSE, dense=True),
    "fused, of features": Case("xml-cnn", DENSE | FUSED, dense=True),
}


class Pair(NamedTuple):
    ranker: Ranker
    part: PackedRanker
    asked: TorchInputs
    inputs: Inputs
    nothing: Inputs | None  # texts without words that are known


@pytest.fixture(scope="module", params=some_slow(CASES.values(), len(METHODS) + 2), ids=CASES)
def pair(request: pytest.FixtureRequest) -> Pair:
    case: Case = request.param
    over = case.settings.keys() & {"reranker", "fusion"}
    method = ensemble_of(case.method, case.members, over=over)
    own: dict[str, Any] = {**SETTINGS.get(case.method, {})}
    own |= {"epochs": EPOCHS[case.method]} if case.method in EPOCHS else {}
    config = configure(method.config, own | ({"validation": 0.2} if "fusion" in over else {}) | case.settings)
    corpus = planted_vectors() if case.dense else planted_texts(num_labels=NUM_LABELS, with_label_texts=True)
    data, tokenizer = prepare(corpus, config.text, config.vocabulary)
    ranker = method.train(data, config, Run.unkept()).ranker.eval()
    rows = input_rows(corpus.split("test"), tokenizer)
    if tokenizer is None:
        return Pair(ranker, pack_ranker(ranker), inputs_of(rows), rows, None)
    return Pair(
        ranker, pack_ranker(ranker), inputs_of(rows), texts_of(rows), texts_of(tokenizer.rows(["", "xyzzy", "!?"]))
    )


def test_every_part_is_counted_while_it_is_packed(pair: Pair) -> None:
    for texts in (None, pair.inputs):
        seen = list[tuple[float, int]]()
        pack_ranker(pair.ranker, texts, on_part=lambda done, parts, seen=seen: seen.append((done, parts)))
        done, totals = zip(*seen, strict=True)
        assert set(totals) == {done[-1]}
        assert list(done) == sorted(done)
        assert {*range(1, totals[0] + 1)} <= {*done}


@torch.no_grad()
def test_the_best_labels_are_those_of_the_ranker(pair: Pair) -> None:
    learnt = isinstance(pair.ranker, ShortlistRanker | TreesRanker)  # whose ranker passes over some labels too
    labels, scores = (pair.part if learnt else pair.part.exact()).rank(pair.inputs, 5)
    wanted, expected = (answer.numpy() for answer in pair.ranker.rank(pair.asked, 6))
    assert pair.part.num_labels == pair.ranker.num_labels
    found = (wanted[:, :5, None] == labels[:, None]).any(2)
    found |= expected[:, :5] - expected[:, 5:] < 2e-3  # nearly as good as the sixth: either will do
    assert found.mean() >= 0.99
    assert (np.abs(scores - expected[:, :5]) < 1e-2).mean() >= 0.99
    of_its_labels = pair.ranker.score(pair.asked, torch.from_numpy(labels)).numpy()
    assert (np.abs(scores - of_its_labels) < 1e-2).mean() >= 0.99


def test_the_scores_of_a_ranking_are_those_of_its_labels(pair: Pair) -> None:
    labels, scores = pair.part.rank(pair.inputs, 7)
    np.testing.assert_allclose(pair.part.score(pair.inputs, labels), scores, rtol=1e-5, atol=1e-6)
    backwards = pair.part.score(pair.inputs, np.ascontiguousarray(labels[:, ::-1]))
    np.testing.assert_allclose(backwards, scores[:, ::-1], rtol=1e-5, atol=1e-6)


def test_labels_come_best_first_none_of_them_twice_and_rows_end_in_no_label(pair: Pair) -> None:
    known = pair.part.num_labels
    labels, scores = pair.part.rank(pair.inputs, known + 3)
    assert labels.shape == scores.shape == (size_of(pair.inputs), known + 3)
    assert (labels.dtype, scores.dtype) == (np.int64, np.float32)
    assert (scores[:, : known - 1] >= scores[:, 1:known]).all()
    assert np.array_equal(np.sort(labels[:, :known]), np.tile(np.arange(known), (len(labels), 1)))
    assert (labels[:, known:] == NO_LABEL).all()
    assert (scores[:, known:] == 0).all()
    assert (pair.part.score(pair.inputs, labels)[:, known:] == 0).all()


def test_a_text_is_answered_alone_as_in_a_batch(pair: Pair) -> None:
    together = pair.part.rank(pair.inputs, 5)
    for text in range(size_of(pair.inputs)):
        alone = pair.part.rank(some(pair.inputs, text, text + 1), 5)
        assert np.array_equal(alone.labels[0], together.labels[text])
        np.testing.assert_allclose(alone.scores[0], together.scores[text], rtol=1e-5, atol=1e-7)


def test_several_threads_are_answered_as_one(pair: Pair) -> None:
    count, expected = size_of(pair.inputs), pair.part.rank(pair.inputs, 5)
    asked = [some(pair.inputs, text, text + 1) for text in (*range(count), *range(count))]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda one: pair.part.rank(one, 5), asked))
    for text, answer in enumerate(answers):
        assert np.array_equal(answer.labels[0], expected.labels[text % count])
        np.testing.assert_allclose(answer.scores[0], expected.scores[text % count], rtol=1e-5, atol=1e-7)


def test_a_packed_ranker_comes_back_from_files_that_cannot_be_written(pair: Pair, folder: Path) -> None:
    back, expected = mapped(pair.part, folder), pair.part.rank(pair.inputs, 7)
    found = back.rank(pair.inputs, 7)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)
    assert np.array_equal(back.score(pair.inputs, found.labels), pair.part.score(pair.inputs, found.labels))


def test_no_texts_and_texts_that_say_nothing_are_answered(pair: Pair) -> None:
    assert pair.part.rank(some(pair.inputs, 0, 0), 5).labels.shape == (0, 5)
    assert pair.part.rank(pair.inputs, 0).scores.shape == (size_of(pair.inputs), 0)
    if pair.nothing is not None:
        labels, scores = pair.part.rank(pair.nothing, 5)
        assert ((labels >= 0) & (labels < NUM_LABELS)).all()
        assert np.isfinite(scores).all()


def test_dials_change_what_is_opened_and_nothing_else(pair: Pair) -> None:
    for part in (pair.part.with_beam(1), pair.part.with_beam(1 << 20), pair.part.exact()):
        labels, scores = part.rank(pair.inputs, 3)
        assert type(part) is type(pair.part)
        assert ((labels >= 0) & (labels < part.num_labels)).all()
        np.testing.assert_allclose(part.score(pair.inputs, labels), scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", some_slow([0, 1, 2, 40], 2))
def test_probes_set_dials_however_few_they_are(pair: Pair, count: int) -> None:
    part = pack_ranker(pair.ranker, some(pair.inputs, 0, count))
    wanted, found = (one.rank(pair.inputs, 5).labels for one in (pair.part, part))
    assert type(part) is type(pair.part)
    assert (wanted[:, :, None] == found[:, None]).any(2).mean() > 0.7
