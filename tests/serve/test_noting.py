"""What is noted of a request, and that nothing of what was sent is said back or written down."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.serve.asking import Request, Site, predict

Make = Callable[..., Site]
MARKER = "xyzzy"  # what nobody should hear or read again


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def lines(caplog: pytest.LogCaptureFixture) -> list[Any]:
    """Ours."""
    return [record for record in caplog.records if record.name.startswith("laconic")]


HOSTILE: list[Request] = [
    predict({"text": MARKER, "k": MARKER}),
    predict({"text": MARKER, MARKER: MARKER}),
    predict({"text": "a", "allow": [MARKER]}),
    predict({"text": "a", "block": [MARKER]}),
    predict({"texts": [MARKER * 300]}),
    predict(f'{{"text": "{MARKER}'.encode()),
    predict({"text": MARKER}, content_type=MARKER),
    predict({"text": MARKER}, x_deadline_ms=MARKER),
    predict({"text": MARKER}, content_length=MARKER),
    predict({MARKER: 1}, x_request_id=f"{MARKER}!"),
    Request(path=f"/{MARKER}"),
    Request(path=f"/v1/predict?{MARKER}={MARKER}"),
    Request(method=MARKER.upper(), path="/healthz"),
    Request(method="POST", path=f"/v1/model?{MARKER}", headers={MARKER: MARKER}),
]


@pytest.mark.parametrize("request_", HOSTILE)
def test_nothing_that_was_sent_is_said_back_or_logged(
    site: Make, request_: Request, caplog: pytest.LogCaptureFixture
) -> None:
    reply = site().ask(request_)
    assert 400 <= reply.status < 500
    assert reply.code
    assert MARKER not in f"{reply.headers} {reply.body!r} {[vars(line) for line in caplog.records]}".lower()


def test_a_request_is_noted_without_its_text(site: Make, caplog: pytest.LogCaptureFixture) -> None:
    reply = site().ask(predict({"text": MARKER, "explain": True}, x_request_id="mine"))
    assert MARKER in reply.body.decode()
    (line,) = lines(caplog)
    assert (line.message, line.fields.pop("milliseconds") > 0) == ("request", True)
    assert line.fields == {"request_id": "mine", "method": "POST", "path": "/v1/predict", "status": 200}
    assert MARKER not in str([vars(line) for line in caplog.records])


def test_who_is_turned_away_is_counted_but_has_no_line(site: Make, caplog: pytest.LogCaptureFixture) -> None:
    house = site(queue=1)
    house.service.batcher.texts = 1
    house.ask(predict({"text": "a"}))
    assert (house.service.turned_away, lines(caplog)) == (1, [])
    house.service.batcher.texts = 0


def test_a_quiet_service_has_no_line_a_request(site: Make, caplog: pytest.LogCaptureFixture) -> None:
    site(log_requests=False).ask(predict({"text": "a"}))
    assert not lines(caplog)


def test_paths_and_refusals_are_counted_under_names_that_we_know(site: Make) -> None:
    house = site()
    for asked in (predict({"text": "a"}), predict({}), Request(path=f"/{MARKER}"), Request(path="/healthz")):
        house.ask(asked)
    text = house.service.measures.text().decode()
    for line in (
        'laconic_requests_total{path="/v1/predict",status="200"} 1.0',
        'laconic_requests_total{path="/v1/predict",status="422"} 1.0',
        'laconic_requests_total{path="other",status="404"} 1.0',
        'laconic_requests_total{path="/healthz",status="200"} 1.0',
        'laconic_refusals_total{code="bad_question"} 1.0',
        "laconic_request_seconds_count 4.0",
        "laconic_batch_texts_count 1.0",
    ):
        assert line in text
    assert MARKER not in text
