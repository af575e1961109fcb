"""What may be asked: every field's limits, whatever bytes come, and that the published schema says the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from laconic.serve.errors import Refusal
from laconic.serve.schemas import Question, question_of, question_schema
from laconic.serve.settings import Limits

LIMITS = Limits(bytes=100_000, texts=4, characters=10, k=7, names=3, explained=2)
MARKER = "xyzzy"  # what nobody should hear again
NOT_JSON = "the body is not valid JSON"
UNKNOWN = "unknown field; the known fields are text, texts, k, min_score, allow, block, where, explain"


def refusal(body: Any) -> Refusal:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(Refusal) as refused:
        question_of(content, LIMITS)
    return refused.value


def accepted(question: Any) -> bool:
    try:
        question_of(json.dumps(question).encode(), LIMITS)
    except Refusal:
        return False
    return True


def test_a_question_is_read_with_all_of_its_fields() -> None:
    said = {
        "texts": ["a", ""],
        "k": 7,
        "min_score": -1,
        "allow": ["b"],
        "block": [],
        "where": {"c": ["d", 1]},
        "explain": True,
    }
    question = question_of(json.dumps(said).encode(), LIMITS)
    assert question.model_dump(exclude={"text"}) == said
    assert question.asked == ["a", ""]
    few = question_of(b'{"text": "\\ud83d\\ude00"}', LIMITS)
    assert (few.asked, few.k, few.min_score, few.allow, few.block, few.explain) == (["😀"], 5, None, None, None, False)
    assert question_of(b'{"text": ""}', LIMITS).asked == question_of(b'{"texts": [""]}', LIMITS).asked == [""]


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({}, "give either text or texts", ""),
    ({"text": "a", "texts": ["b"]}, "give either text or texts", ""),
    ({"text": "a", "texts": []}, "give either text or texts", ""),
    ({"texts": []}, "there must be at least one text", "texts"),
    ({"texts": ["a"] * 5}, "at most 4 texts per request, but there are 5", "texts"),
    ({"texts": ["a"] * 3, "explain": True}, "at most 2 texts per request with explain, but there are 3", "texts"),
    ({"text": "a" * 11}, "at most 10 characters per text, but there are 11", "text"),
    ({"texts": ["a", "b" * 12]}, "at most 10 characters per text, but there are 12", "texts[1]"),
    ({"text": None}, "Input should be a valid string", "text"),
    ({"texts": "a"}, "Input should be a valid list", "texts"),
    ({"texts": ["a", 3]}, "Input should be a valid string", "texts[1]"),
    ({"text": "a", "k": 0}, "Input should be greater than or equal to 1", "k"),
    ({"text": "a", "k": 8}, "k must be at most 7", "k"),
    ({"text": "a", "k": 10**400}, "k must be at most 7", "k"),
    ({"text": "a", "k": "5"}, "Input should be a valid integer", "k"),
    ({"text": "a", "k": True}, "Input should be a valid integer", "k"),
    ({"text": "a", "k": 5.0}, "Input should be a valid integer", "k"),
    ({"text": "a", "min_score": "0"}, "Input should be a valid number", "min_score"),
    ({"text": "a", "allow": "b"}, "Input should be a valid list", "allow"),
    ({"text": "a", "allow": [None]}, "Input should be a valid string", "allow[0]"),
    ({"text": "a", "allow": ["b"] * 4}, "at most 3 labels, but there are 4", "allow"),
    ({"text": "a", "block": ["b"] * 4}, "at most 3 labels, but there are 4", "block"),
    ({"text": "a", "block": {}}, "Input should be a valid list", "block"),
    ({"text": "a", "explain": 1}, "Input should be a valid boolean", "explain"),
    ({"text": "a", MARKER: 1}, UNKNOWN, ""),
    ({MARKER: {}, "k": MARKER}, UNKNOWN, ""),
]


@pytest.mark.parametrize(("question", "message", "where"), WRONG)
def test_a_wrong_field_is_named_with_what_is_wrong(question: dict[str, Any], message: str, where: str) -> None:
    refused = refusal(question)
    assert (refused.status, refused.code) == (422, "bad_question")
    assert (refused.message, refused.where) == (message, where)


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"3", b"true"])
def test_a_question_is_an_object(body: bytes) -> None:
    refused = refusal(body)
    assert (refused.status, refused.message) == (422, "the body must be a JSON object")


NO_JSON = {
    "nothing": b"",
    "a word": b"text",
    "half of it": b'{"text": "a"',
    "more than it": b'{"text": "a"} {}',
    "not a number": b'{"text": "a", "min_score": NaN}',
    "not a number, elsewhere": b'{"text": NaN}',
    "infinity": b'{"text": "a", "min_score": -Infinity}',
    "half a character": rb'{"text": "\ud800"}',
    "half a character, bare": b'{"text": "\xed\xa0\x80"}',
    "half a character in a name": rb'{"\ud800": 1}',
    "not UTF-8": b'{"text": "\xff"}',
    "UTF-16": '{"text": "a"}'.encode("utf-16"),
    "a mark of byte order": b'\xef\xbb\xbf{"text": "a"}',
    "deep": b'{"text": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "deep and open": b"[" * 90_000,
    "a long number": b'{"text": "a", "k": ' + b"9" * 90_000 + b"}",
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
def test_what_is_not_json_is_a_bad_request(body: bytes) -> None:
    refused = refusal(body)
    assert (refused.status, refused.code, refused.message) == (400, "bad_request", NOT_JSON)


def test_a_number_that_overflows_is_not_finite() -> None:
    assert refusal(b'{"text": "a", "min_score": 1e999}').where == "min_score"


@pytest.mark.parametrize("field", ["texts", "allow", "block"])
def test_of_many_wrong_things_the_first_is_enough(field: str) -> None:
    """Or a small body would keep the service busy for seconds."""
    with pytest.raises(ValidationError) as error:
        Question.model_validate({field: [1] * 1000})
    assert error.value.error_count() == (2 if field == "texts" else 1)  # a text may be of two types


def said_of(body: bytes) -> bytes:
    """What the client hears; nothing: the question is a good one."""
    try:
        question = question_of(body, LIMITS)
    except Refusal as refused:
        return refused.body("1") if refused.status in (400, 422) else b"no such status is expected"
    assert 1 <= len(question.asked) <= LIMITS.texts
    assert 1 <= question.k <= LIMITS.k
    return b""


def check_nothing_is_said_back(body: bytes) -> None:
    heard = said_of(body)
    assert len(heard) <= 4096
    assert MARKER.encode() not in heard
    assert not heard or json.loads(heard)["error"].keys() >= {"code", "message"}


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just(MARKER)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([MARKER, "a"]), inner),
    max_leaves=4,
)
SHORT = st.sampled_from(["", "a", "b" * 10, "c" * 11])
FIELDS = {  # mostly good, some just beyond what is
    "text": SHORT,
    "texts": st.lists(SHORT, max_size=5),
    "k": st.integers(0, 8),
    "min_score": st.none() | st.floats(-1, 1) | st.integers(-1, 1),
    "allow": st.none() | st.lists(st.just(MARKER), max_size=4),
    "block": st.none() | st.lists(st.just("a"), max_size=4),
    "explain": st.booleans(),
}
QUESTIONS = st.fixed_dictionaries({}, optional=FIELDS)


@given(st.binary() | st.binary().map(lambda more: f'{{"text": "{MARKER}'.encode() + more))
def test_whatever_bytes_come_nothing_of_them_is_said_back(body: bytes) -> None:
    check_nothing_is_said_back(body)


@given(VALUES | st.fixed_dictionaries({}, optional={**FIELDS, "k": VALUES, "texts": VALUES, MARKER: VALUES}))
def test_whatever_json_comes_nothing_of_it_is_said_back(value: Any) -> None:
    check_nothing_is_said_back(json.dumps(value).encode())


SCHEMA = question_schema(LIMITS)


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """The plain twin of a JSON Schema's reader, for the words that our schema uses and no others."""
    words = sorted(schema.keys() - _REMARKS, key=lambda word: word != "type")  # which other rules take for granted
    return all(_RULES[word](value, schema[word], schema) for word in words)


_REMARKS = {"title", "description", "default", "examples", "then"}
_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_RULES: dict[str, Any] = {
    "type": lambda value, kind, _: _is(value, kind),
    "properties": lambda value, parts, _: all(fits(value[name], parts[name]) for name in parts.keys() & value.keys()),
    "additionalProperties": lambda value, _, schema: value.keys() <= schema["properties"].keys(),
    "required": lambda value, names, _: value.keys() >= {*names},
    "items": lambda value, part, _: all(fits(one, part) for one in value),
    "minItems": lambda value, least, _: len(value) >= least,
    "maxItems": lambda value, most, _: len(value) <= most,
    "maxLength": lambda value, most, _: len(value) <= most,
    "minimum": lambda value, least, _: value >= least,
    "maximum": lambda value, most, _: value <= most,
    "const": lambda value, only, _: value is only,
    "anyOf": lambda value, ways, _: any(fits(value, way) for way in ways),
    "oneOf": lambda value, ways, _: sum(fits(value, way) for way in ways) == 1,
    "if": lambda value, condition, schema: not fits(value, condition) or fits(value, schema["then"]),
}


def _is(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):  # 5.0 is an integer to JSON Schema, but not to us
        return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, _TYPES[kind])


@pytest.mark.parametrize("question", [question for question, _, _ in WRONG if question.get("k") != 5.0])
def test_the_schema_refuses_what_we_refuse(question: dict[str, Any]) -> None:
    assert not fits(question, SCHEMA)


@given(QUESTIONS)
def test_the_schema_allows_what_we_allow(question: dict[str, Any]) -> None:
    assert fits(question, SCHEMA) == accepted(question)


def test_the_schemas_examples_are_answered() -> None:
    examples = question_schema(Limits())["examples"]
    assert len(examples) >= 2
    for example in examples:
        assert question_of(json.dumps(example).encode(), Limits()).asked
