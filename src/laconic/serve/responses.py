"""Computes the response bodies of a batch of requests, in the batcher's thread, with one version of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_core import to_json

from laconic.errors import UserError
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.prediction import Answer, Prediction
from laconic.serve.errors import Refusal
from laconic.serve.model import Served
from laconic.serve.schemas import Question
from laconic.serve.version import Version


def answering(served: Served) -> Callable[[Sequence[Question]], list[bytes | Refusal]]:
    """Return the function that the batcher calls with each batch."""
    return lambda questions: answered(served.now, questions)


def answered(version: Version, questions: Sequence[Question]) -> list[bytes | Refusal]:
    """Return a response body or a refusal for each request."""
    answers: list[bytes | Refusal] = [b""] * len(questions)
    for places in _alike(questions):
        found = _predicted(version.packed_predictor, [questions[place] for place in places])
        for place, own in zip(places, found, strict=True):
            answers[place] = own if isinstance(own, Refusal) else _body(version, questions[place], own)
    return answers


def _alike(questions: Sequence[Question]) -> list[list[int]]:
    """Group requests that can be predicted together: those with the same k and without a label filter."""
    groups: dict[Any, list[int]] = {}
    for place, question in enumerate(questions):
        alone = question.allow is not None or question.block is not None
        groups.setdefault((question.k, place if alone else None), []).append(place)
    return list(groups.values())


def _predicted(packed_predictor: PackedPredictor, alike: Sequence[Question]) -> list[list[Answer] | Refusal]:
    """Return the predictions for the texts of each request, or a refusal."""
    first, texts = alike[0], [text for question in alike for text in question.asked]
    try:
        found = iter(packed_predictor.answer(texts, first.k, allow=first.allow, block=first.block))
    except UserError:  # its message would repeat what the client sent
        return [Refusal(422, "bad_question", "allow or block names a label that this model does not have")]
    return [[next(found) for _ in question.asked] for question in alike]


def _body(version: Version, question: Question, found: Sequence[Answer]) -> bytes:
    one_by_one = [
        {
            "predictions": _told(version.packed_predictor, question, text, own.predictions),
            "known_words": own.known_words,
        }
        for text, own in zip(question.asked, found, strict=True)
    ]
    return to_json({"model": version.name, "answers": one_by_one})


def _told(
    packed_predictor: PackedPredictor, question: Question, text: str, found: Sequence[Prediction]
) -> list[dict[str, Any]]:
    least = question.min_score
    kept = found if least is None else [one for one in found if one.score >= least]
    texts = packed_predictor.texts_of([one.label for one in kept])
    listed = [_one(*own) for own in zip(kept, texts, strict=True)]
    if question.explain:
        for one, explained in zip(listed, packed_predictor.explained(text, kept), strict=True):
            one["words"] = [word._asdict() for word in explained.words]
            one |= {"texts": [near._asdict() for near in explained.texts]} if explained.texts else {}
    return listed


def _one(prediction: Prediction, text: str) -> dict[str, Any]:
    return {**prediction._asdict(), "text": text} if text else prediction._asdict()
