"""Bodies of answers: what the model itself says, whoever else is asked for in the same batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from laconic.export.pack import with_texts
from laconic.packed.folder import write_packed
from laconic.predict.load import Speed
from laconic.predict.packed_predictor import PackedPredictor
from laconic.serve import responses
from laconic.serve.errors import Refusal
from laconic.serve.model import Served
from laconic.serve.responses import Asked, answering
from laconic.serve.schemas import Answered, Question
from laconic.serve.settings import Limits
from laconic.serve.version import Version, opened
from tests.serve.small import CORPUS, TEXTS, in_process, packed, write


def patient(questions: Sequence[Question]) -> list[Asked]:
    return [Asked(question, float("inf")) for question in questions]


def answered(version: Version, questions: Sequence[Question]) -> list[bytes | Refusal]:
    return responses.answered(version, patient(questions), Limits())


def predictions(body: bytes | Refusal) -> list[list[dict[str, Any]]]:
    assert isinstance(body, bytes)
    said = json.loads(body)
    assert Answered.model_validate(said).model_dump(exclude_none=True) == said, "as the OpenAPI document has it"
    return [answer["predictions"] for answer in said["answers"]]


def expected(packed_predictor: PackedPredictor, question: Question) -> list[list[dict[str, Any]]]:
    """As the model answers each text alone."""
    return [
        [
            one._asdict() | {"text": packed_predictor.text_of(one.label)}
            for one in packed_predictor.predict([text], question.k, allow=question.allow, block=question.block)[0]
            if question.min_score is None or one.score >= question.min_score
        ]
        for text in question.asked
    ]


def test_an_answer_says_how_many_words_are_known(served: Served) -> None:
    known = len(TEXTS[0].split())
    (body,) = answered(served.now, [Question(texts=[TEXTS[0], "", "xyzzy plugh", f"xyzzy {TEXTS[0]}"])])
    assert isinstance(body, bytes)
    assert [answer["known_words"] for answer in json.loads(body)["answers"]] == [known, 0, 0, known]


MIXED = [
    Question(text=TEXTS[0]),
    Question(texts=TEXTS[1:4], k=3),
    Question(text=TEXTS[4], k=3),
    Question(texts=TEXTS[5:7], k=3, allow=["L1", "L2", "L3", "L4"]),
    Question(text="", k=1),
    Question(texts=TEXTS[7:9], block=["L0"]),
    Question(text=TEXTS[9], k=3, allow=[]),
    Question(texts=TEXTS[10:14], min_score=0.2),
    Question(text=TEXTS[14], k=100),
    Question(text=TEXTS[15], min_score=1e9),
]


def test_questions_of_all_kinds_in_one_batch_are_answered_as_each_would_be_alone(served: Served) -> None:
    version = served.now
    bodies = answered(version, MIXED)
    for question, body in zip(MIXED, bodies, strict=True):
        assert predictions(body) == expected(version.packed_predictor, question)
        assert isinstance(body, bytes)
        assert json.loads(body)["model"] == version.name
        assert answered(version, [question]) == [body]


def test_those_that_ask_alike_are_ranked_together(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = list[list[str]](), served.now.packed_predictor.answer

    def noted(texts: list[str], *more: Any, **options: Any) -> Any:
        asked.append(texts)
        return answer(texts, *more, **options)

    monkeypatch.setattr(served.now.packed_predictor, "answer", noted)
    answered(served.now, [Question(text=text) for text in "abc"] + [Question(text="d", k=2), Question(text="e")])
    assert asked == [["a", "b", "c", "e"], ["d"]]


def test_a_low_score_is_left_out_and_the_rest_stays(served: Served) -> None:
    every, few = (answered(served.now, [Question(text=TEXTS[0], k=9, min_score=least)]) for least in (None, 0.2))
    all_of_them, kept = predictions(every[0])[0], predictions(few[0])[0]
    assert 0 < len(kept) < len(all_of_them)
    assert kept == [one for one in all_of_them if one["score"] >= 0.2]


@pytest.mark.parametrize("field", ["allow", "block"])
def test_an_unknown_name_is_refused_without_being_said_and_others_are_answered(served: Served, field: str) -> None:
    asked = Question(**{"text": "a", field: ["L1", "xyzzy"]})
    before, refused, after = answered(served.now, [Question(text="a"), asked, Question(text="b")])
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (422, "bad_question")
    assert b"xyzzy" not in refused.body("1")
    assert predictions(before)
    assert predictions(after)


def test_an_explained_answer_says_what_each_word_is_worth(served: Served) -> None:
    question = Question(texts=TEXTS[:2], k=2, explain=True)
    answers = predictions(answered(served.now, [question])[0])
    for text, answer in zip(question.asked, answers, strict=True):
        found = served.now.packed_predictor.predict([text], 2)[0]
        wanted = served.now.packed_predictor.explained(text, found)
        assert [one["words"] for one in answer] == [[word._asdict() for word in one.words] for one in wanted]
        assert {word["word"] for word in answer[0]["words"]} == {*text.split()}
    plain = predictions(answered(served.now, [Question(texts=TEXTS[:2], k=2)])[0])
    assert [[{key: one[key] for key in one if key != "words"} for one in answer] for answer in answers] == plain


@pytest.mark.parametrize(("question", "where"), [({"text": "b c d e"}, "text"), ({"texts": ["b c", "d e"]}, "texts")])
def test_more_words_than_may_be_explained_are_refused_and_may_be_asked_about_without(
    served: Served, question: dict[str, Any], where: str
) -> None:
    asked = patient([Question(**question, explain=True), Question(**question)])
    refused, plain = responses.answered(served.now, asked, Limits(explained_words=3))
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.where) == (422, where)
    assert refused.message == "at most 3 words per request with explain, but there are 4"
    assert predictions(plain)
    explained, _ = responses.answered(served.now, asked, Limits(explained_words=4))
    assert predictions(explained)


def test_texts_are_explained_until_the_deadline_and_no_longer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    explained, clock = list[str](), iter(range(10))
    explain = served.now.packed_predictor.explained
    monkeypatch.setattr(responses, "monotonic", lambda: next(clock))
    monkeypatch.setattr(
        served.now.packed_predictor, "explained", lambda text, found: explained.append(text) or explain(text, found)
    )
    asked = Asked(Question(texts=TEXTS[:4], explain=True), 1.0)
    (refused,) = responses.answered(served.now, [asked], Limits())
    assert isinstance(refused, Refusal)
    assert refused.code == "too_late"
    assert explained == TEXTS[:2]


def test_an_explained_answer_has_near_training_texts_where_the_model_keeps_them(tmp_path: Path) -> None:
    write_packed(with_texts(packed(), CORPUS), tmp_path / "packed")
    version = opened(tmp_path / "packed", Speed(threads=1), verify=True)
    own = str((CORPUS.split("train").texts or ())[0])
    explained, plain = answered(version, [Question(text=own, k=1, explain=True), Question(text=own, k=1)])
    ((told,),) = predictions(explained)
    assert (told["texts"][0]["text"], told["texts"][0]["similarity"]) == (own, pytest.approx(1, abs=1e-5))
    assert "texts" not in predictions(plain)[0][0]


def test_a_batch_is_answered_by_one_version_whatever_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(write(tmp_path / "model"), Speed(threads=1), trial=in_process)
    old, answer = served.now, served.now.packed_predictor.answer

    def exchange(*arguments: Any, **options: Any) -> Any:
        found = answer(*arguments, **options)
        if served.now is old:
            write(tmp_path / "model", neighbours=1)
            assert served.refresh()
        return found

    monkeypatch.setattr(old.packed_predictor, "answer", exchange)
    questions = [Question(text=TEXTS[0], k=k) for k in (2, 3, 4)]
    bodies = answering(served, Limits())(patient(questions))
    assert served.now is not old
    assert {json.loads(body)["model"] for body in bodies} == {old.name}
    assert [predictions(body) for body in bodies] == [expected(PackedPredictor(packed()), one) for one in questions]
    later = answering(served, Limits())(patient(questions))
    assert {json.loads(body)["model"] for body in later} == {served.now.name}
