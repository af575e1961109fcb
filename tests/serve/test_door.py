"""Who may come in, with how much, and how long they are waited for."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from laconic.serve.schemas import Question
from laconic.serve.settings import Limits, TimeLimits
from tests.serve.asking import JSON, Gone, Pause, Request, Site, predict
from tests.serve.small import TEXTS

Make = Callable[..., Site]
QUESTION = {"text": TEXTS[0]}


def test_a_question_is_answered(site: Make) -> None:
    reply = site().ask(predict(QUESTION))
    assert (reply.status, len(reply.said["answers"])) == (200, 1)
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["server-timing"].startswith("app;dur=")


EVERY_ANSWER = [
    predict(QUESTION),
    predict({}),
    predict(b"{"),
    Request(path="/healthz"),
    Request(path="/"),
    Request(path="/nowhere"),
    Request(path="/metrics"),
    Request(method="PUT", path="/v1/predict"),
]


@pytest.mark.parametrize("request_", EVERY_ANSWER, ids=lambda request: f"{request.method} {request.path}")
def test_every_answer_has_these_headers(site: Make, request_: Request) -> None:
    reply = site().ask(request_)
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["x-frame-options"] == "DENY"
    assert reply.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["x-request-id"]
    assert "connection" not in reply.headers


@pytest.mark.parametrize("path", ["/healthz", "/v1/predict"])
def test_a_request_keeps_the_name_that_it_came_with(site: Make, path: str) -> None:
    given = "Az09._-" + "a" * 57
    reply = site().ask(Request(path=path, headers={"x-request-id": given}))
    assert reply.headers["x-request-id"] == given


@pytest.mark.parametrize("given", [b"", b"a" * 65, b"a b", b"a\nb", b"caf\xc3\xa9", b"\xff", b"a;b", b"a\n"])
def test_a_request_gets_a_name_of_ours_where_it_has_no_good_one(site: Make, given: bytes) -> None:
    house = site()
    first, second = (house.ask(Request(path="/nowhere", headers={"x-request-id": given})) for _ in range(2))
    assert first.code == "not_found"
    names = {first.headers["x-request-id"], second.headers["x-request-id"]}
    assert len(names) == 2
    assert all(len(name) == 16 and name.isalnum() for name in names)


GUARDED = [predict(QUESTION), Request(path="/v1/model"), Request(path="/metrics"), Request(path="/v1/nothing")]


@pytest.mark.parametrize("request_", GUARDED, ids=lambda request: request.path)
@pytest.mark.parametrize(
    "given", [b"", b"hush", b"Bearer", b"Bearer hus", b"Bearer hushh", b"Basic hush", b"Bearer \xff\x00"]
)
def test_without_the_token_there_is_no_way_in(site: Make, request_: Request, given: bytes) -> None:
    asked = replace(request_, headers={**request_.headers, "authorization": given})
    reply = site(token="hush").ask(asked)
    assert (reply.status, reply.code) == (401, "unauthorised")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert asked.read == 0


def test_with_the_token_all_doors_are_open(site: Make) -> None:
    house = site(token="hush")
    assert house.ask(predict(QUESTION, authorization="Bearer hush")).status == 200
    for path in ("/v1/model", "/metrics"):
        assert house.ask(Request(path=path, headers={"authorization": "Bearer hush"})).status == 200


@pytest.mark.parametrize("path", ["/", "/page.js", "/healthz", "/readyz", "/openapi.json"])
def test_what_says_nothing_of_the_model_needs_no_token(site: Make, path: str) -> None:
    assert site(token="hush").ask(Request(path=path)).status == 200


def test_tokens_are_compared_in_a_time_that_says_nothing(site: Make) -> None:
    with mock.patch("hmac.compare_digest", wraps=hmac.compare_digest) as compare:
        site(token="hush").ask(predict(QUESTION, authorization="Bearer wrong"))
    compare.assert_called_once_with(b"wrong", b"hush")


def test_a_large_body_is_refused_by_its_announced_length_before_any_of_it_is_read(site: Make) -> None:
    asked = predict(QUESTION, content_length="1001")
    reply = site(limits=Limits(bytes=1000)).ask(asked)
    assert (reply.status, reply.code, asked.read) == (413, "too_large", 0)
    assert reply.headers["connection"] == "close"


def test_a_body_without_an_announced_length_is_read_as_far_as_it_may_go(site: Make) -> None:
    asked = Request(method="POST", path="/v1/predict", headers=JSON, body=(b"1" * 600,) * 9)
    reply = site(limits=Limits(bytes=1000)).ask(asked)
    assert (reply.status, reply.code, asked.read) == (413, "too_large", 2)
    assert reply.headers["connection"] == "close"


def test_other_paths_take_no_large_bodies_either(site: Make) -> None:
    reply = site().ask(Request(method="POST", path="/healthz", headers={"content-length": "9999999"}))
    assert reply.code == "too_large"


def test_a_body_may_come_in_parts(site: Make) -> None:
    asked = Request(method="POST", path="/v1/predict", headers=JSON, body=(b'{"te', b'xt": "', b'a"}'))
    assert site().ask(asked).status == 200


def test_a_body_that_stops_coming_is_not_waited_for(site: Make) -> None:
    asked = Request(method="POST", path="/v1/predict", headers=JSON, body=(b"{", Pause(60)))
    reply = site(time_limits=TimeLimits(body=0.01)).ask(asked)
    assert (reply.status, reply.code, reply.headers["connection"]) == (408, "too_slow", "close")


def test_a_body_that_breaks_off_is_refused_for_whoever_is_still_there(site: Make) -> None:
    house = site()
    asked = Request(method="POST", path="/v1/predict", headers=JSON, body=(b"{", Gone()))
    reply = house.ask(asked)
    assert (reply.status, reply.code) == (400, "bad_request")
    assert house.service.batcher.texts == 0


def test_a_body_of_another_type_is_not_read(site: Make) -> None:
    asked = predict(QUESTION, content_type="text/plain")
    reply = site().ask(asked)
    assert (reply.status, reply.code, asked.read) == (415, "wrong_type", 0)


def test_who_comes_when_the_queue_is_full_is_refused_unread(site: Make) -> None:
    house = site(queue=3)
    house.service.batcher.texts = 3
    asked = predict(QUESTION)
    reply = house.ask(asked)
    assert (reply.status, reply.code, reply.headers["retry-after"], asked.read) == (503, "busy", "1", 0)
    house.service.batcher.texts = 0
    assert house.ask(predict(QUESTION)).status == 200


def test_who_comes_when_it_is_to_stop_is_answered_and_asked_to_go(site: Make) -> None:
    house = site()
    house.service.drain()
    for asked, status in ((predict(QUESTION), 200), (predict({}), 422), (Request(path="/healthz"), 200)):
        reply = house.ask(asked)
        assert (reply.status, reply.headers["connection"]) == (status, "close")


def test_a_client_may_wait_for_less_than_usual_but_not_for_more(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    house, given = site(time_limits=TimeLimits(deadline=2.0)), list[float]()

    async def noted(question: Question, seconds: float) -> bytes:
        given.append(seconds)
        return b"{}"

    monkeypatch.setattr(house.service, "answer", noted)
    house.ask(predict(QUESTION))
    for milliseconds in ("500", "1", "60000"):
        house.ask(predict(QUESTION, x_deadline_ms=milliseconds))
    assert 0.5 < given[0] <= 2.0
    assert given[1] <= 0.5
    assert given[2] <= 0.001
    assert 0.5 < given[3] <= 2.0


@pytest.mark.parametrize("milliseconds", ["", "0", "60001", "-5", "1.5", "soon", "9" * 5000, "٣", " "])
def test_a_deadline_is_a_whole_number_of_milliseconds(site: Make, milliseconds: str) -> None:
    reply = site().ask(predict(QUESTION, x_deadline_ms=milliseconds))
    assert (reply.status, reply.code, reply.said["error"]["where"]) == (422, "bad_question", "x-deadline-ms")


def test_what_came_too_slowly_for_its_deadline_is_too_late(site: Make) -> None:
    asked = Request(method="POST", path="/v1/predict", headers=JSON, body=(b'{"text": ', Pause(0.01), b'"a"}'))
    reply = site(time_limits=TimeLimits(deadline=0.001)).ask(asked)
    assert (reply.status, reply.code, reply.headers["retry-after"]) == (503, "too_late", "1")


KNOWN = ["localhost", "localhost:8000", "LocalHost.", "127.0.0.1:1", "[::1]:8000", "[::1]", "xmc.example.org:443", ""]
UNKNOWN = ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]", "a:b:c"]


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/model", "/", "/metrics", "/healthz"])
@pytest.mark.parametrize("host", UNKNOWN)
def test_by_a_name_that_is_not_its_own_the_service_on_the_loopback_answers_nothing(
    site: Make, path: str, host: str
) -> None:
    reply = site(hosts=("xmc.example.org",)).ask(Request(path=path, headers={"host": host}))
    assert (reply.status, reply.code) == (421, "wrong_host")


@pytest.mark.parametrize("host", KNOWN)
def test_by_its_own_names_it_answers(site: Make, host: str) -> None:
    assert site(hosts=("xmc.example.org",)).ask(Request(path="/healthz", headers={"host": host})).status == 200


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"host": "::"}, {"hosts": ("*",)}])
def test_where_its_names_are_not_known_it_answers_by_any(site: Make, settings: dict[str, Any]) -> None:
    assert site(**settings).ask(Request(path="/healthz", headers={"host": "evil.example"})).status == 200


def test_other_machines_may_be_served_by_some_names_alone(site: Make) -> None:
    house = site(host="0.0.0.0", hosts=("xmc.example.org",))
    for host, status in (("xmc.example.org", 200), ("127.0.0.1", 200), ("evil.example", 421)):
        assert house.ask(Request(path="/healthz", headers={"host": host})).status == status


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/v1/model", "/docs", "/page.css", "/openapi.json"])
def test_head_has_the_headers_of_get_and_no_body(site: Make, path: str) -> None:
    house = site()
    head, get = (house.ask(Request(method=method, path=path)) for method in ("HEAD", "GET"))
    assert (head.status, head.body) == (get.status, b"")
    for name in ("content-type", "content-length", "content-security-policy"):
        assert head.headers[name] == get.headers[name]


def test_head_is_no_way_to_predict(site: Make) -> None:
    reply = site().ask(Request(method="HEAD", path="/v1/predict"))
    assert (reply.status, reply.headers["allow"], reply.body) == (405, "POST", b"")
