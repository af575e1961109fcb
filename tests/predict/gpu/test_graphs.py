"""Answers of a few fixed shapes: what inputs are filled up with changes nothing, and a GPU's graphs answer alike."""

import logging
from itertools import chain, repeat
from threading import Thread

import pytest
import torch

from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import WORD_ENCODERS, Identity, InceptionEncoder
from laconic.models.rankers import FlatRanker, Ranker
from laconic.predict.gpu import graphs, optimise_ranker
from laconic.predict.gpu.attempts import Attempts, may_pass
from laconic.predict.gpu.graphs import GraphRanker, filled
from laconic.types import PAD, Ranking, Tokens
from tests.variants import some_slow

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
WORDS, LENGTH, LABELS = 40, 12, 50


def ranker(name="inception", device="cpu", labels=LABELS):
    torch.manual_seed(0)
    encoder = WORD_ENCODERS[name](num_ids=WORDS, length=LENGTH, embedding=64)
    classifier = LinearClassifier(encoder.dim, labels)
    classifier.spread(1.0)
    return FlatRanker(encoder, classifier).to(device).eval()


def tokens(texts, words):
    ids = torch.randint(2, WORDS, (texts, words), dtype=torch.int32)
    ids[torch.arange(words) > torch.randint(1, words + 1, (texts, 1))] = PAD
    return Tokens(ids, torch.rand(texts, words) * (ids != PAD))


def check(found, expected, tolerance=1e-5):
    assert found.labels.tolist() == expected.labels.tolist()
    torch.testing.assert_close(found.scores, expected.scores, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("words", some_slow([1, 3, 5, 9, LENGTH, 20], 2))
@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_filling_up_does_not_change_the_answers(name, words):
    plain, inputs = ranker(name), tokens(5, words)
    with torch.no_grad():
        check(GraphRanker(plain, plain, longest=LENGTH).rank(inputs, 7), plain.rank(inputs, 7))
        check(GraphRanker(plain, plain).rank(inputs, 7), plain.rank(inputs, 7))


def test_features_are_filled_up_too():
    plain = FlatRanker(Identity(6), LinearClassifier(6, 20))
    vectors = torch.randn(3, 6)
    check(GraphRanker(plain, plain).rank(vectors, 4), plain.rank(vectors, 4))


@pytest.mark.parametrize(
    ("texts", "words", "shape"),
    [(1, 1, (1, 4)), (3, 5, (4, 8)), (8, 8, (8, 8)), (9, 9, (16, 12)), (2, 40, (2, 12)), (1000, 3, (1024, 4))],
)
def test_shapes_are_few(texts, words, shape):
    assert filled(tokens(texts, words), longest=LENGTH).ids.shape == shape
    assert filled(tokens(texts, words), longest=LENGTH).weights.shape == shape


def test_no_texts_and_very_many_are_answered_as_they_are(monkeypatch):
    monkeypatch.setattr(graphs, "_MOST_TEXTS", 4)
    plain, inputs = ranker(), tokens(6, 5)
    with torch.no_grad():
        check(GraphRanker(plain, plain).rank(inputs, 3), plain.rank(inputs, 3))
    nothing = GraphRanker(plain, plain).rank(Tokens(*(part[:0] for part in inputs)), 3)
    assert nothing.labels.shape == nothing.scores.shape == (0, 3)


class Broken(Ranker):
    """One that no compiler will have or, with other errors, one that has bad moments: None is a good one."""

    def __init__(self, errors=None, good=None):
        super().__init__()
        self.errors, self.good, self.calls = errors or repeat(RuntimeError("PTXAS error:\nand pages of it")), good, 0

    def rank(self, inputs, k):
        self.calls += 1
        error = next(self.errors)
        if error is not None:
            raise error
        return self.good.rank(inputs, k)

    def score(self, inputs, labels):
        raise RuntimeError


def asked(both, plain, times):
    """Asks so many times, and gets right answers."""
    inputs = tokens(5, 4)
    with torch.no_grad():
        for _ in range(times):
            check(both.rank(inputs, 3), plain.rank(inputs, 3))


def test_where_the_quick_way_never_works_the_ranker_itself_answers_and_it_is_given_up(caplog):
    plain, broken = ranker(), Broken()
    with caplog.at_level(logging.WARNING):
        asked(GraphRanker(plain, broken), plain, 50)
    assert broken.calls == 3
    assert [record.message for record in caplog.records] == [
        "the quick way failed (RuntimeError: PTXAS error:); next attempt after 1 calls without it",
        "the quick way failed (RuntimeError: PTXAS error:); next attempt after 3 calls without it",
        "the quick way failed (RuntimeError: PTXAS error:) 3 times and is not tried again",
    ]


def test_one_bad_moment_does_not_end_the_quick_way():
    plain = ranker()
    moments = chain([None, RuntimeError("cuBLAS had a bad moment")] * 9, repeat(None))
    broken = Broken(moments, good=plain)
    asked(GraphRanker(plain, broken), plain, 60)
    assert broken.calls == 60 - 9  # after each bad moment one call goes without


def test_lack_of_memory_is_waited_for_however_long_it_lasts(caplog):
    plain = ranker()
    broken = Broken(chain([torch.OutOfMemoryError("CUDA out of memory")] * 6, repeat(None)), good=plain)
    both = GraphRanker(plain, broken)
    with caplog.at_level(logging.WARNING):
        asked(both, plain, 1 + 2 + 4 + 8 + 16 + 32 + 63)
    assert broken.calls == 6
    asked(both, plain, 10)
    assert broken.calls == 6 + 10
    assert len(caplog.records) == 6


def test_what_passes_is_told_from_what_does_not():
    for passing in (torch.OutOfMemoryError(), MemoryError(), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling")):
        assert may_pass(passing)
    for lasting in (RuntimeError("PTXAS error"), NotImplementedError(), RuntimeError("out of resource: shared memory")):
        assert not may_pass(lasting)


def test_attempts_rest_longer_but_not_for_ever():
    attempts = Attempts("a way")
    rests = []
    for _ in range(12):
        attempts.failed(MemoryError())
        rests.append(0)
        while not attempts.due():
            rests[-1] += 1
    assert rests == [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023, 1023]
    attempts.succeeded()
    assert attempts.due()


def test_what_the_ranker_itself_refuses_is_an_error_and_the_quick_way_not_to_blame(caplog):
    plain, inputs = ranker(), Tokens(torch.full((1, 4), WORDS + 1), torch.ones(1, 4))
    with caplog.at_level(logging.WARNING), pytest.raises(IndexError):
        GraphRanker(plain, plain).rank(inputs, 3)
    assert not caplog.records
    broken = Broken()
    both = GraphRanker(plain, broken)
    for _ in range(4):
        with pytest.raises(IndexError):
            both.rank(inputs, 3)
    assert broken.calls == 4
    assert not caplog.records


class Replayed:
    """In place of a graph, where there is no GPU: runs the ranker. Each error makes one capture or one replay fail."""

    captures, replays = (), ()

    def __init__(self, ranker, inputs, shape, other):
        self.ranker, self.k = ranker, shape.k
        Replayed.fail(Replayed.captures)

    def __call__(self, inputs):
        Replayed.fail(Replayed.replays)
        return self.ranker.rank(inputs, self.k)

    @staticmethod
    def fail(errors):
        error = next(errors, None)
        if error is not None:
            raise error


@pytest.fixture
def captured(monkeypatch):
    """A ranker that captures as it would on a GPU, with errors of captures and of replays; gives what it has captured
    after each of some calls.
    """
    monkeypatch.setattr(graphs, "Graph", Replayed)
    monkeypatch.setattr(graphs, "leave_capture", lambda device: None)

    def made(calls, captures=(), replays=()):
        monkeypatch.setattr(Replayed, "captures", iter(captures))
        monkeypatch.setattr(Replayed, "replays", iter(replays))
        plain, inputs = ranker(), tokens(5, 4)
        both = GraphRanker(plain, plain)
        both._captures = True
        counts = []
        with torch.no_grad():
            for _ in range(calls):
                check(both.rank(inputs, 3), plain.rank(inputs, 3))
                counts.append(len(both.captured))
        return counts

    return made


def test_a_shape_is_captured_when_it_is_asked_for_again(captured):
    assert captured(3) == [0, 1, 1]


def test_a_capture_that_fails_once_is_tried_again(captured, caplog):
    assert captured(6, captures=[RuntimeError("a bad moment")]) == [0, 0, 0, 1, 1, 1]
    assert sum("capturing answers as a CUDA graph failed" in record.message for record in caplog.records) == 1


def test_a_replay_that_fails_once_is_answered_and_captured_again(captured):
    assert captured(7, replays=[None, torch.OutOfMemoryError()]) == [0, 1, 0, 0, 1, 1, 1]


def test_captures_that_always_fail_are_given_up(captured, caplog):
    assert captured(30, captures=repeat(RuntimeError("no capture"))) == [0] * 30
    assert [("not tried again" in record.message) for record in caplog.records] == [False, False, True]


def test_replays_that_always_fail_are_given_up(captured, caplog):
    assert captured(30, replays=repeat(RuntimeError("no replay"))) == [0] * 30
    assert len(caplog.records) == 3


def test_captures_that_lack_memory_are_tried_for_ever(captured):
    assert captured(100, captures=[torch.OutOfMemoryError()] * 5)[-1] == 1


def test_labels_are_scored_as_they_are_ranked():
    quick, inputs = GraphRanker(ranker(), ranker()), tokens(5, 4)
    found = quick.rank(inputs, 7)
    torch.testing.assert_close(quick.score(inputs, found.labels).detach(), found.scores)


@on_gpu
@pytest.mark.parametrize("labels", [LABELS, 20_000])
@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_a_graph_answers_as_the_ranker_does(name, labels):
    plain, quick = ranker(name, labels=labels), optimise_ranker(ranker(name, "cuda", labels))
    with torch.inference_mode():
        for number, texts in enumerate((5, 6, 8, 1, 1, 1, 7)):  # the first time eagerly, then captured
            inputs = tokens(texts, 5 + number % 3)
            expected = plain.rank(inputs, 7)
            for given in (inputs, Tokens(*(part.cuda() for part in inputs))):
                found = quick.rank(given, 7)
                assert {part.device.type for part in found} == {given.ids.device.type}
                labels_found, scores = (part.cpu() for part in found)
                torch.testing.assert_close(scores, expected.scores, rtol=1e-3, atol=1e-4)
                torch.testing.assert_close(plain.score(inputs, labels_found), scores, rtol=1e-3, atol=1e-4)
    assert {shape.batch for shape in quick.captured} == {1, 8}


@on_gpu
def test_an_answer_stays_what_it_was_when_the_next_is_given():
    quick = optimise_ranker(ranker(device="cuda"))
    inputs = [tokens(4, 6) for _ in range(6)]
    kept = [quick.rank(one, 5) for one in inputs]
    for one, answer in zip(inputs, kept, strict=True):
        assert quick.rank(one, 5).labels.tolist() == answer.labels.tolist()


class Asking(FlatRanker):
    """One that asks the host, which no capture survives."""

    def rank(self, inputs, k):
        ranking = super().rank(inputs, k)
        assert ranking.scores.sum().item() > 0
        return ranking


@on_gpu
def test_what_cannot_be_captured_is_answered_all_the_same(caplog):
    plain = ranker(device="cuda")
    both = GraphRanker(plain, Asking(plain.encoder, plain.classifier))
    inputs = tokens(4, 6)
    with torch.inference_mode():
        expected = Ranking(*(part.cpu() for part in plain.rank(Tokens(*(part.cuda() for part in inputs)), 5)))
        for _ in range(20):
            check(both.rank(inputs, 5), expected)
    assert sum("capturing answers as a CUDA graph failed" in record.message for record in caplog.records) == 3
    assert "not tried again" in caplog.records[-1].message


@on_gpu
def test_a_graph_that_fails_once_is_captured_again(monkeypatch, caplog):
    plain, quick = ranker(), optimise_ranker(ranker(device="cuda"))
    inputs = tokens(4, 6)
    expected, replay, failures = plain.rank(inputs, 5), graphs.Graph.__call__, [torch.OutOfMemoryError("no memory")]

    def failing(graph, given):
        if failures:
            raise failures.pop()
        return replay(graph, given)

    monkeypatch.setattr(graphs.Graph, "__call__", failing)
    with torch.inference_mode():
        for captured in (0, 0, 0, 1, 1):
            found = quick.rank(inputs, 5)
            torch.testing.assert_close(found.scores.cpu(), expected.scores, rtol=1e-3, atol=1e-4)
            assert len(quick.captured) == captured
    assert sum("OutOfMemoryError" in record.message for record in caplog.records) == 1


@on_gpu
def test_threads_take_turns():
    quick = optimise_ranker(ranker(device="cuda"))
    inputs = [tokens(4, 6) for _ in range(8)]
    expected = [quick.rank(one, 5).labels.tolist() for one in inputs]
    found = {}

    def ask(number):
        for _ in range(20):
            found[number] = quick.rank(inputs[number], 5).labels.tolist()
            assert found[number] == expected[number]

    threads = [Thread(target=ask, args=(number,)) for number in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(len(inputs))] == expected


def test_inception_is_the_encoder_that_is_folded():
    """Or the tests above would compare a ranker with itself."""
    assert isinstance(ranker().encoder, InceptionEncoder)
    assert not isinstance(optimise_ranker(ranker()).quick.encoder, InceptionEncoder)
