"""Requests and responses of the HTTP API. A request is validated completely before any work is done for it.

Content that a client sent is never repeated in an error or in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import from_json

from laconic.data.attributes import MOST_ATTRIBUTES
from laconic.data.fields import Fields, joined_fields, parse_fields
from laconic.evaluation.thresholds import Threshold
from laconic.predict.min_score import STORED, places
from laconic.serve.errors import Refusal
from laconic.serve.settings import Limits
from laconic.units import counted

MOST_FIELDS = 20  # of a text
_EXAMPLES: list[JsonValue] = [
    {"text": "real-time strategy game"},
    {"texts": ["web server written in Go", "photo editor"], "k": 3, "min_score": 0.1, "explain": True},
]
_ANSWERS: list[JsonValue] = [
    {
        "model": "8b54c26a6293",
        "answers": [
            {
                "predictions": [
                    {"label": "libsdl1.2debian", "score": 0.54, "text": "Simple DirectMedia Layer"},
                    {"label": "freeciv-data", "score": 0.12},
                ],
                "known_words": 4,
            }
        ],
    }
]


Text: TypeAlias = str | dict[str, str]  # a text, or its fields
Value: TypeAlias = str | int | float | bool  # of an attribute of labels


class Question(BaseModel):
    """Texts to label, and options of the prediction."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, json_schema_extra={"examples": _EXAMPLES})

    text: Text = Field("", description="A single text, or an object of its fields. Give either `text` or `texts`.")
    texts: list[Text] = Field([], fail_fast=True, description="Several texts; answers come in the same order.")
    k: int = Field(
        5, ge=1, description="Number of labels to return per text. With a stored threshold: by default its own number."
    )
    min_score: Annotated[float, Field(allow_inf_nan=False)] | Literal["stored"] | None = Field(
        None, description='Omit labels with a lower score; "stored": lower than the threshold stored in the model.'
    )
    allow: list[str] | None = Field(None, fail_fast=True, description="Return only these labels.")
    block: list[str] | None = Field(None, fail_fast=True, description="Return none of these labels.")
    where: dict[str, Value | Annotated[list[Value], Field(fail_fast=True)]] | None = Field(
        None, description="Return only labels with this value, or one of these, of every attribute that is named."
    )
    explain: bool = Field(False, description="Return each word's contribution to each label's score.")

    def places(self, threshold: Threshold | None, most: int) -> int:
        """Return how many labels per text are wanted of a model with this threshold."""
        given = self.k if "k" in self.model_fields_set or self.min_score != STORED else None
        return min(places(given, self.min_score, threshold), most)

    @property
    def asked(self) -> list[Text]:
        return self.texts or [self.text]

    def plain(self, spec: str) -> Question:
        """Return the request with texts as a model with these fields reads them; refuse fields that it lacks."""
        if all(isinstance(text, str) for text in self.asked):
            return self
        fields = parse_fields(spec)
        texts = [text if isinstance(text, str) else _joined(text, fields) for text in self.asked]
        return self.model_copy(update={"texts": texts})


class Word(BaseModel):
    """A word and its contribution to a label's score."""

    word: str
    share: float = Field(description="Decrease of the label's score if the word is removed.")


class NearText(BaseModel):
    """A similar training text that has the label."""

    text: str
    similarity: float


class Predicted(BaseModel):
    """A predicted label of a text."""

    label: str
    score: float
    text: str | None = Field(None, description="Text of the label, if it has one besides its name.")
    words: list[Word] | None = Field(None, description="Contributions of the words, if `explain` was set.")
    texts: list[NearText] | None = Field(None, description="Similar training texts, if the model stores texts.")


class Answer(BaseModel):
    """The predicted labels of one text."""

    predictions: list[Predicted]
    known_words: int = Field(
        description="Number of the text's words that are in the model's vocabulary. If 0, the labels are meaningless."
    )


class Answered(BaseModel):
    """The body of a response of `/v1/predict`."""

    model_config = ConfigDict(json_schema_extra={"examples": _ANSWERS})

    model: str = Field(description="Version of the model that made these predictions.")
    answers: list[Answer] = Field(description="One answer per text, in the order of the request.")


def question_of(body: bytes, limits: Limits) -> Question:
    """Parse and validate a request body."""
    try:
        question = Question.model_validate(_fields(body))
    except ValidationError as error:
        raise _refused(error) from None
    given = question.model_fields_set
    if ("text" in given) == ("texts" in given):
        raise Refusal(422, "bad_question", "give either text or texts")
    if "texts" in given and not question.texts:
        raise Refusal(422, "bad_question", "there must be at least one text", "texts")
    _check(question, limits)
    return question


def question_schema(limits: Limits) -> dict[str, Any]:
    """Return the JSON schema of a request body for the OpenAPI document."""
    schema = Question.model_json_schema()
    of = schema["properties"]
    for part in (of["text"], of["texts"]["items"]):
        part["anyOf"][0] |= {"maxLength": limits.characters}
        part["anyOf"][1] |= {"maxProperties": MOST_FIELDS}
    of["texts"] |= {"minItems": 1, "maxItems": limits.texts}
    of["k"] |= {"maximum": limits.k}
    for name in ("allow", "block"):
        of[name]["anyOf"][0] |= {"maxItems": limits.names}
    of["where"]["anyOf"][0] |= {"maxProperties": MOST_ATTRIBUTES}
    for name in ("text", "texts"):
        del of[name]["default"]
    return schema | {
        "oneOf": [{"required": ["text"]}, {"required": ["texts"]}],
        "if": {"properties": {"explain": {"const": True}}, "required": ["explain"]},
        "then": {"properties": {"texts": {"maxItems": limits.explained}}},
    }


def _fields(body: bytes) -> dict[str, Any]:
    """Return the fields of a body. Refuse unknown fields here: pydantic would report each of them, however many."""
    try:
        said = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise Refusal(400, "bad_request", "the body is not valid JSON") from None
    if not isinstance(said, dict):
        raise Refusal(422, "bad_question", "the body must be a JSON object")
    if not said.keys() <= Question.model_fields.keys():
        known = ", ".join(Question.model_fields)
        raise Refusal(422, "bad_question", f"unknown field; the known fields are {known}")
    # Before pydantic, which would report every entry of a large object.
    many = said.get("texts")
    for text in (said.get("text"), *(many if isinstance(many, list) else ())):
        if isinstance(text, dict) and len(text) > MOST_FIELDS:
            raise Refusal(422, "bad_question", f"at most {counted(MOST_FIELDS, 'field')} of a text", "text")
    if isinstance(where := said.get("where"), dict) and len(where) > MOST_ATTRIBUTES:
        message = f"at most {counted(MOST_ATTRIBUTES, 'attribute')}, but there are {len(where):,}"
        raise Refusal(422, "bad_question", message, "where")
    return said


def _check(question: Question, limits: Limits) -> None:
    texts = question.asked
    many = limits.explained if question.explain else limits.texts
    if len(texts) > many:
        why = " with explain" if question.explain else ""
        raise Refusal(
            422,
            "bad_question",
            f"at most {counted(many, 'text')} per request{why}, but there are {len(texts)}",
            "texts",
        )
    for number, text in enumerate(texts):
        if _length(text) > limits.characters:
            where = f"texts[{number}]" if question.texts else "text"
            raise Refusal(
                422,
                "bad_question",
                f"at most {counted(limits.characters, 'character')} per text, but there are {_length(text):,}",
                where,
            )
    if question.k > limits.k:
        raise Refusal(422, "bad_question", f"k must be at most {limits.k}", "k")
    for where, names in (("allow", question.allow), ("block", question.block)):
        if names is not None and len(names) > limits.names:
            raise Refusal(
                422, "bad_question", f"at most {counted(limits.names, 'label')}, but there are {len(names)}", where
            )
    values = sum(len(wanted) if isinstance(wanted, list) else 1 for wanted in (question.where or {}).values())
    if values > limits.names:
        message = f"at most {counted(limits.names, 'value')} of attributes, but there are {values:,}"
        raise Refusal(422, "bad_question", message, "where")


def _joined(text: dict[str, str], fields: Fields) -> str:
    if not fields:
        raise Refusal(422, "bad_question", "this model reads plain texts, not objects of fields", "text")
    if not text.keys() <= {field.name for field in fields}:
        known = ", ".join(field.name for field in fields)
        raise Refusal(422, "bad_question", f"unknown field of a text; this model reads {known}", "text")
    return joined_fields([text.get(field.name, "") for field in fields], [field.weight for field in fields])


def _length(text: Text) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text.values()))


def _refused(error: ValidationError) -> Refusal:
    """Report the first validation error; pydantic's messages about our fields hold none of the client's content."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return Refusal(422, "bad_question", first["msg"], _place(first["loc"]))


def _place(parts: Sequence[str | int]) -> str:
    """Return the path of a field in the request, made of its name and indices only."""
    return "".join(f"[{part}]" if isinstance(part, int) else str(part) * (at == 0) for at, part in enumerate(parts))
