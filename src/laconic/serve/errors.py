"""Error responses: a status, a code for programs, a message for people; never any of the client's content."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field
from pydantic_core import to_json


class Refusal(Exception):  # noqa: N818 - it becomes a response
    """A request that is refused, with the status, code and message of the response."""

    def __init__(self, status: int, code: str, message: str, where: str = "", *, retry_after: int = 0) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.where = status, code, message, where
        self.retry_after = retry_after  # seconds; 0: a retry will not help

    def body(self, request_id: str) -> bytes:
        said: dict[str, Any] = {"code": self.code, "message": self.message}
        said |= {"where": self.where} if self.where else {}
        return to_json({"error": said, "request_id": request_id})

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"retry-after", str(self.retry_after).encode())] if self.retry_after else []


class Why(BaseModel):
    """The error as the OpenAPI document describes it."""

    code: str = Field(description="Code for programs; codes do not change.")
    message: str = Field(description="Explanation for people; it may change.")
    where: str | None = Field(None, description="The invalid field or header of the request.")


class Refused(BaseModel):
    """The body of an error response."""

    error: Why
    request_id: str = Field(description="Identifies the request in the log of the service.")


def busy() -> Refusal:
    return Refusal(503, "busy", "too many requests are waiting; retry later", retry_after=1)


def too_late() -> Refusal:
    return Refusal(503, "too_late", "the request cannot be answered before its deadline; retry later", retry_after=1)


def too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"the body must have at most {most} bytes")


def too_slow() -> Refusal:
    return Refusal(408, "too_slow", "the body did not arrive in time")


def failed() -> Refusal:
    return Refusal(500, "internal", "internal error; the log of the service has the details")
