"""Computes the response bodies of a batch of requests, in the batcher's thread, with one version of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from pydantic_core import to_json

from laconic.data.attributes import Where, having
from laconic.errors import UserError
from laconic.predict.min_score import STORED, reaching
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.prediction import Answer, Prediction
from laconic.serve.errors import Refusal, too_late
from laconic.serve.model import Served
from laconic.serve.schemas import Question
from laconic.serve.settings import Limits
from laconic.serve.version import Version
from laconic.units import counted

_SHOWN = 8  # attributes in a message


class Asked(NamedTuple):
    """A request, and the time of the monotonic clock after which nobody waits for its answer."""

    question: Question
    deadline: float


def answering(served: Served, limits: Limits) -> Callable[[Sequence[Asked]], list[bytes | Refusal]]:
    """Return the function that the batcher calls with each batch."""
    return lambda asked: answered(served.now, asked, limits)


def answered(version: Version, asked: Sequence[Asked], limits: Limits) -> list[bytes | Refusal]:
    """Return a response body or a refusal for each request."""
    read = [_read(one, version.packed_predictor.fields) for one in asked]
    answers: list[bytes | Refusal] = [one if isinstance(one, Refusal) else b"" for one in read]
    good = [place for place, one in enumerate(read) if not isinstance(one, Refusal)]
    asked = [old if isinstance(new, Refusal) else new for old, new in zip(asked, read, strict=True)]
    for alike in _alike([asked[place].question for place in good]):
        places = [good[place] for place in alike]
        found = _predicted(version.packed_predictor, [asked[place].question for place in places], limits)
        for place, own in zip(places, found, strict=True):
            answers[place] = own if isinstance(own, Refusal) else _response(version, asked[place], own, limits)
    return answers


def _read(asked: Asked, fields: str) -> Asked | Refusal:
    """Return a request with plain texts, or a refusal of fields that the model does not have."""
    try:
        return asked._replace(question=asked.question.plain(fields))
    except Refusal as refusal:
        return refusal


def _texts(question: Question) -> list[str]:
    """Return the texts of a request that was read."""
    return [text for text in question.asked if isinstance(text, str)]


def _response(version: Version, asked: Asked, found: Sequence[Answer], limits: Limits) -> bytes | Refusal:
    try:
        return _body(version, asked, found, limits)
    except Refusal as refusal:
        return refusal


def _alike(questions: Sequence[Question]) -> list[list[int]]:
    """Group requests that can be predicted together: with the same k and kind of limit, and without a label filter."""
    groups: dict[Any, list[int]] = {}
    for place, question in enumerate(questions):
        alone = any(part is not None for part in (question.allow, question.block, question.where))
        kind = question.k, "k" in question.model_fields_set, question.min_score == STORED
        groups.setdefault((kind, place if alone else None), []).append(place)
    return list(groups.values())


def _predicted(
    packed_predictor: PackedPredictor, alike: Sequence[Question], limits: Limits
) -> list[list[Answer] | Refusal]:
    """Return the predictions for the texts of each request, or a refusal."""
    first, texts = alike[0], [text for question in alike for text in _texts(question)]
    if first.min_score == STORED and packed_predictor.threshold is None:
        refusal = Refusal(422, "bad_question", "this model has no stored threshold; give a number", "min_score")
        return [refusal] * len(alike)
    if first.where is not None and (unknown := _unknown_groups(packed_predictor, first.where)):
        return [unknown]
    k = first.places(packed_predictor.threshold, limits.k)
    try:
        found = iter(packed_predictor.answer(texts, k, allow=first.allow, block=first.block, where=first.where))
    except UserError:  # its message would repeat what the client sent
        return [Refusal(422, "bad_question", "allow or block names a label that this model does not have")]
    return [[next(found) for _ in question.asked] for question in alike]


def _unknown_groups(packed_predictor: PackedPredictor, where: Where) -> Refusal | None:
    """Return a refusal of attributes or values that the model does not have; it repeats the model's names alone."""
    try:
        having(packed_predictor.attributes, where)
    except UserError:
        known = packed_predictor.attributes
        has = "its labels have no attributes" if known is None else f"its attributes: {', '.join(known.names[:_SHOWN])}"
        message = f"where names an attribute or a value that this model does not have; {has}"
        return Refusal(422, "bad_question", message, "where")
    return None


def _body(version: Version, asked: Asked, found: Sequence[Answer], limits: Limits) -> bytes:
    question, predictor = asked.question, version.packed_predictor
    if question.explain:
        _check_words(predictor, question, limits.explained_words)
    one_by_one = []
    for text, own in zip(_texts(question), found, strict=True):
        if question.explain and monotonic() > asked.deadline:
            raise too_late()
        told = _told(predictor, question, text, own.predictions)
        one_by_one.append({"predictions": told, "known_words": own.known_words})
    return to_json({"model": version.name, "answers": one_by_one})


def _check_words(packed_predictor: PackedPredictor, question: Question, most: int) -> None:
    """Refuse to explain very long texts: a text is scored once more without each of its words."""
    words = sum(map(packed_predictor.count_words, _texts(question)))
    if words > most:
        message = f"at most {counted(most, 'word')} per request with explain, but there are {words:,}"
        raise Refusal(422, "bad_question", message, "texts" if question.texts else "text")


def _told(
    packed_predictor: PackedPredictor, question: Question, text: str, found: Sequence[Prediction]
) -> list[dict[str, Any]]:
    kept = reaching(found, question.min_score, packed_predictor.threshold)
    texts = packed_predictor.texts_of([one.label for one in kept])
    listed = [_one(*own) for own in zip(kept, texts, strict=True)]
    if question.explain:
        for one, explained in zip(listed, packed_predictor.explained(text, kept), strict=True):
            one["words"] = [word._asdict() for word in explained.words]
            one |= {"texts": [near._asdict() for near in explained.texts]} if explained.texts else {}
    return listed


def _one(prediction: Prediction, text: str) -> dict[str, Any]:
    return {**prediction._asdict(), "text": text} if text else prediction._asdict()
