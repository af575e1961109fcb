"""Error responses: a status, a code for programs, a message for people; never any of the client's content."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field
from pydantic_core import to_json


class Refusal(Exception):  # noqa: N818 - it is an answer too
    """A request that is refused, and why."""

    def __init__(self, status: int, code: str, message: str, where: str = "", *, retry_after: int = 0) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.where = status, code, message, where
        self.retry_after = retry_after  # seconds; 0: trying again will not help

    def body(self, request_id: str) -> bytes:
        said: dict[str, Any] = {"code": self.code, "message": self.message}
        said |= {"where": self.where} if self.where else {}
        return to_json({"error": said, "request_id": request_id})

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"retry-after", str(self.retry_after).encode())] if self.retry_after else []


class Why(BaseModel):
    """The error as the OpenAPI document describes it."""

    code: str
    message: str
    where: str | None = Field(None, description="The part of the question that is wrong.")


class Refused(BaseModel):
    """The body of an error response."""

    error: Why
    request_id: str


def busy() -> Refusal:
    return Refusal(503, "busy", "too many requests are waiting; try again soon", retry_after=1)


def too_late() -> Refusal:
    return Refusal(503, "too_late", "the request's deadline passed before its turn came", retry_after=1)


def too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"the body may have at most {most} bytes")


def too_slow() -> Refusal:
    return Refusal(408, "too_slow", "the body took too long to come")


def failed() -> Refusal:
    return Refusal(500, "internal", "this is a mistake of the service; its log says more")
