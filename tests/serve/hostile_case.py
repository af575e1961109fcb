"""A request that no honest client sends, and what is wrong about what came back of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.chaos.exchange import Exchange
from benchmarks.chaos.wire import Answer

MARKER = "zqxjv"  # planted wherever a client can say something; no answer may hold it
TOKEN = "a-token-of-the-tests"  # which the service under attack wants
FINE, BAD = {200}, {400, 422}
_MOST_SAID = 4096  # bytes of a refusal
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class Hostile:
    name: str
    sends: bytes
    allowed: frozenset[int]  # statuses of the first answer
    may_close: bool = False  # without an answer
    ends: bool = False  # the client says that nothing more comes
    answers: int = 1  # that are waited for


def complaints(case: Hostile, found: Exchange) -> list[str]:
    """What is wrong about what came back; empty: nothing."""
    said = []
    if found.hung:
        said.append("neither an answer nor an end in time")
    if not found.answers and not found.hung and not case.may_close:
        said.append(f"closed without an answer, after {found.rest[:80]!r}")
    if found.answers and found.answers[0].status not in case.allowed:
        said.append(f"status {found.answers[0].status}, but {sorted(case.allowed)} is allowed")
    for answer in found.answers:
        said += _complaints(answer)
    if MARKER.encode() in found.rest:
        said.append("it says back what was sent")
    return [f"{case.name}: {one}" for one in said]


def _complaints(answer: Answer) -> Iterator[str]:
    if answer.status >= 500 and answer.status != 503:
        yield f"status {answer.status}"
    if MARKER.encode() in answer.head + answer.body:
        yield "it says back what was sent"
    if answer.status >= 400 and len(answer.body) > _MOST_SAID:
        yield f"a refusal of {len(answer.body)} bytes"
    if answer.header("content-type") == "application/json":
        yield from _complaints_of_json(answer)


def _complaints_of_json(answer: Answer) -> Iterator[str]:
    name = answer.header("x-request-id") or ""
    if not _REQUEST_ID.fullmatch(name):
        yield f"its request id is {name[:80]!r}"
    told = json.loads(answer.body.decode("utf-8"), parse_constant=_no_constants)
    match told:
        case {"error": {"code": str(), "message": str()}, "request_id": str(said)} if answer.status >= 400:
            if said != name:
                yield "two request ids"
        case _ if answer.status >= 400:
            yield f"an error of another form: {answer.body[:80]!r}"


def _no_constants(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")
