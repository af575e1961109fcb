"""Answers from a packed model: those of a plain ranking, whoever asks, in how many threads, and among which labels."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.sparse import csr_array

from laconic.data.tokenizer import Tokenizer
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ConfigError, DataError
from laconic.packed.folder import open_packed, write_packed
from laconic.predict import label_filter as permitting
from laconic.predict import packed_predictor as answering
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.prediction import Prediction
from laconic.types import NO_LABEL
from tests.predict.tiny import KINDS, NAMES, packed, packed_features

TEXTS = ["a red rose", "", "deep blue sea", "xyzzy", "rose rose garden", "white ocean", "red red red"]
WAYS = {"as it is": {}, "always wider": {"_FEW": 0}, "few at once": {"_SCORED_AT_ONCE": 1, "_RANKED_AT_ONCE": 20}}


@pytest.fixture(scope="module", params=["in memory", "from a folder"])
def packed_predictor(request, tmp_path_factory):
    if request.param == "in memory":
        return PackedPredictor(packed())
    folder = tmp_path_factory.mktemp("models") / "packed"
    write_packed(packed(), folder)
    return PackedPredictor(open_packed(folder, kinds=KINDS))


@pytest.fixture(params=WAYS)
def _way(request, monkeypatch):
    for name, value in WAYS[request.param].items():
        monkeypatch.setattr(permitting, name, value)


def expected(texts, k, permitted=NAMES):
    """By the plain way: the tokenizer's rows times the weights, sorted."""
    model = packed()
    rows = Tokenizer(model.splitter, model.vocabulary).rows(texts)
    answers = []
    for scores in rows @ model.ranker.weights:
        best = sorted((name for name in NAMES if name in permitted), key=lambda name: -scores[NAMES.index(name)])
        answers.append([(name, scores[NAMES.index(name)]) for name in best[:k]])
    return answers


def labels_of(answers):
    return [[label for label, _ in answer] for answer in answers]


def check(answers, wanted):
    assert labels_of(answers) == labels_of(wanted)
    for answer, other in zip(answers, wanted, strict=True):
        np.testing.assert_allclose([score for _, score in answer], [score for _, score in other], atol=1e-5)


@pytest.mark.parametrize("k", [1, 5, len(NAMES), 99])
def test_the_best_labels_come_first(packed_predictor, k):
    known = [text for text in TEXTS if text not in ("", "xyzzy")]  # of which all labels are worth nothing, alike
    answers = packed_predictor.predict(known, k)
    check(answers, expected(known, k))
    assert all(isinstance(prediction, Prediction) for prediction in answers[0])
    assert type(answers[0][0].score) is float


def test_a_text_that_says_nothing_is_answered_too(packed_predictor):
    assert [len(answer) for answer in packed_predictor.predict(["", "xyzzy"], 3)] == [3, 3]
    assert (
        packed_predictor.predict([])
        == packed_predictor.predict([], allow=["sea"])
        == packed_predictor.predict([], block=["sea"])
        == []
    )


@pytest.mark.usefixtures("_way")
def test_permitted_labels_come_in_the_order_of_the_full_ranking(packed_predictor):
    generator, known = np.random.default_rng(0), TEXTS[4:]
    for allowed, blocked in ((1, 0), (3, 0), (10, 0), (None, 1), (None, 5), (None, 11), (8, 6), (2, 11)):
        allow = None if allowed is None else [str(name) for name in generator.choice(NAMES, allowed, replace=False)]
        block = [str(name) for name in generator.choice(NAMES, blocked, replace=False)]
        permitted = set(NAMES if allow is None else allow) - set(block)
        check(packed_predictor.predict(known, 4, allow=allow, block=block), expected(known, 4, permitted))


def test_a_list_of_nothing_blocks_nothing_and_allows_nothing(packed_predictor):
    assert packed_predictor.predict(TEXTS, block=[]) == packed_predictor.predict(TEXTS)
    assert (
        packed_predictor.predict(TEXTS, allow=[]) == packed_predictor.predict(TEXTS, block=NAMES) == [[]] * len(TEXTS)
    )


def test_an_allowed_label_is_found_where_no_search_would_find_it():
    narrow = PackedPredictor(packed(found=2))
    assert labels_of(narrow.predict(TEXTS, allow=["l11"])) == [["l11"]] * len(TEXTS)
    assert {label for label, _ in narrow.predict(TEXTS, block=["flower"])[0]} == {"water"}


@pytest.mark.parametrize("argument", ["allow", "block"])
def test_unknown_names_are_listed(packed_predictor, argument):
    with pytest.raises(ConfigError, match=rf"{argument} names labels that the model does not have: 'fog'$"):
        packed_predictor.predict(TEXTS, **{argument: ["sea", "fog"]})
    with pytest.raises(ConfigError, match=r"have: 'n0', 'n1', 'n2', 'n3', 'n4' and 3 more$"):
        packed_predictor.predict(TEXTS, **{argument: (f"n{number}" for number in range(8))})
    with pytest.raises(ConfigError, match=rf"{argument} must be a list of label names, but is one string: 'sea'"):
        packed_predictor.predict(TEXTS, **{argument: "sea"})


def test_k_and_threads_are_one_or_more(packed_predictor):
    with pytest.raises(ConfigError, match="k must be 1 or more, but is 0"):
        packed_predictor.predict(TEXTS, 0)
    with pytest.raises(ConfigError, match="threads must be 1 or more, but is 0"):
        PackedPredictor(packed(), threads=0)


@pytest.mark.parametrize("asking", [{}, {"allow": ["sea", "l7", "flower"]}, {"block": ["sea"]}])
def test_a_batch_is_answered_alike_by_any_number_of_threads(monkeypatch, asking):
    monkeypatch.setattr(answering, "_FEW", 2)
    texts = [f"{one} {other}" for one in TEXTS for other in TEXTS]
    wanted = PackedPredictor(packed()).predict(texts, 3, **asking)
    for threads, at_once in ((1, 4), (2, 256), (3, 5)):
        monkeypatch.setattr(answering, "_AT_ONCE", at_once)
        assert PackedPredictor(packed(), threads).predict(texts, 3, **asking) == wanted


def test_many_may_ask_at_once(packed_predictor):
    wanted = [packed_predictor.predict([text]) for text in TEXTS]
    with ThreadPoolExecutor(8) as pool:
        for answers in pool.map(lambda _: [packed_predictor.predict([text]) for text in TEXTS], range(40)):
            assert answers == wanted


def test_what_a_label_says_of_itself(packed_predictor):
    assert packed_predictor.text_of("sea") == "about sea"
    assert packed_predictor.text_of("fog") == PackedPredictor(packed_features()).text_of("sea") == ""


@pytest.mark.parametrize("config", [VocabularyConfig(), VocabularyConfig(subwords=20)])
def test_rows_that_were_read_before_are_ranked_as_texts_are(config):
    model = packed(config)
    rows = Tokenizer(model.splitter, model.vocabulary).rows(TEXTS)
    for threads in (1, 2):
        labels, scores = PackedPredictor(model, threads).rank_rows(rows, 4)
        answers = PackedPredictor(model).predict(TEXTS, 4)
        assert [[NAMES[label] for label in row] for row in labels.tolist()] == labels_of(answers)
        np.testing.assert_allclose(scores, [[score for _, score in answer] for answer in answers], atol=1e-5)
    ranked = PackedPredictor(model).rank_rows(rows, len(NAMES) + 2)
    assert (ranked.labels[:, -2:] == NO_LABEL).all()


def test_features_are_ranked_as_they_are():
    model = packed_features(width=4)
    rows = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    ranked = PackedPredictor(model).rank_rows(rows, 3)
    assert ranked.labels.tolist() == (-rows @ model.ranker.weights).argsort(axis=1)[:, :3].tolist()
    assert PackedPredictor(model).rank_rows(rows[:0], 3).labels.shape == (0, 3)


def test_a_model_answers_what_it_was_trained_on_and_nothing_else():
    with pytest.raises(DataError, match="trained on features"):
        PackedPredictor(packed_features()).predict(["text"])
    for rows in (np.zeros((2, 5), np.float32), csr_array((2, 4), dtype=np.float32)):
        with pytest.raises(DataError, match="the model reads 4 dense inputs, but this data has"):
            PackedPredictor(packed_features()).rank_rows(rows, 3)
    with pytest.raises(DataError, match="text inputs, but this data has 3 text ones"):
        PackedPredictor(packed()).rank_rows(csr_array((2, 3), dtype=np.float32), 3)


def test_answering_does_without_torch():
    code = "import sys, laconic.predict.packed_predictor; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
