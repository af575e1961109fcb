"""A request's body: how much of it is read, for how long, and what its headers must say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.serve import body as bodies
from laconic.serve.body import Gone, check_announced, check_is_json, header, read_body
from laconic.serve.errors import Refusal


def sender(*parts: bytes | None, seconds: float = 0.0) -> Callable[[], Awaitable[dict[str, Any]]]:
    """Sends parts, each after some seconds; None: it goes away."""
    messages = [
        {"type": "http.disconnect"}
        if part is None
        else {"type": "http.request", "body": part, "more_body": place < len(parts)}
        for place, part in enumerate(parts, 1)
    ]

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(seconds)
        return messages.pop(0)

    return receive


def body(*parts: bytes | None, most: int = 10, time_limits: float = 30.0, seconds: float = 0.0) -> bytes:
    return asyncio.run(read_body(sender(*parts, seconds=seconds), most, time_limits))


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=6), st.integers(1, 30))
def test_a_body_is_its_parts_up_to_so_many_bytes(parts: list[bytes], most: int) -> None:
    whole = b"".join(parts)
    if len(whole) <= most:
        assert body(*parts, most=most) == whole
        return
    with pytest.raises(Refusal, match=f"the body must have at most {most} bytes") as refused:
        body(*parts, most=most)
    assert (refused.value.status, refused.value.code) == (413, "too_large")


def test_a_body_may_not_come_in_crumbs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_MOST_PARTS", 3)
    assert body(b"1", b"", b"2") == b"12"
    with pytest.raises(Refusal, match="at most 10 bytes"):
        body(b"1", b"", b"2", b"3")


def test_nothing_is_read_beyond_what_is_too_much() -> None:
    with pytest.raises(Refusal, match="at most 10 bytes"):
        body(b"12345", b"678901", None)


def test_a_message_without_a_body_is_an_empty_one() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    assert asyncio.run(read_body(receive, 10, 30.0)) == b""


@pytest.mark.parametrize("parts", [[None], [b"1", None]])
def test_a_client_that_goes_away_is_gone(parts: list[bytes | None]) -> None:
    with pytest.raises(Gone):
        body(*parts)


def test_a_body_that_does_not_come_is_too_slow() -> None:
    with pytest.raises(Refusal, match="not arrive in time") as refused:
        body(b"", time_limits=0.01, seconds=60)
    assert (refused.value.status, refused.value.code) == (408, "too_slow")


def test_patience_is_for_all_parts_together() -> None:
    with pytest.raises(Refusal, match="not arrive in time"):
        body(b"1", b"2", time_limits=0.1, seconds=0.06)


@pytest.mark.parametrize("length", [b"11", b"-1", b"+5", b"5.0", b"1e1", b"five", b"9" * 19, b"9" * 9000])
def test_an_announced_length_that_is_too_much_or_no_number_is_refused(length: bytes) -> None:
    with pytest.raises(Refusal, match="at most 10 bytes"):
        check_announced([(b"content-length", length)], 10)


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"10")], [(b"content-length", b"0")]])
def test_an_announced_length_within_the_limit_is_none_of_our_business(headers: list[tuple[bytes, bytes]]) -> None:
    check_announced(headers, 10)


@pytest.mark.parametrize("kind", [b"application/json", b"Application/JSON; charset=utf-8", b"application/json;"])
def test_json_is_json_however_it_is_spelt(kind: bytes) -> None:
    check_is_json([(b"content-type", kind)])


@pytest.mark.parametrize("kind", [b"", b"text/plain", b"application/jsonp", b"application/x-www-form-urlencoded"])
def test_anything_else_is_the_wrong_type(kind: bytes) -> None:
    """Or a form of any web page could ask, which browsers send without asking us first."""
    with pytest.raises(Refusal, match="must be application/json") as refused:
        check_is_json([(b"content-type", kind)])
    assert (refused.value.status, refused.value.code) == (415, "wrong_type")


def test_of_a_header_that_came_twice_the_first_counts() -> None:
    assert header([(b"a", b"1"), (b"b", b"2"), (b"b", b"3")], b"b") == b"2"
    assert header([], b"b") == b""
