"""Every other path: the model's facts, health, figures, the document that describes them, and the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from laconic.errors import ModelError
from laconic.packed.folder import of_version, write_packed
from laconic.predict.load import Speed
from laconic.serve.asgi import PATHS
from laconic.serve.model import Served
from laconic.serve.schemas import question_of
from laconic.serve.settings import Limits, TimeLimits
from laconic.storage.manifest import version_of
from tests.serve.asking import Request, Site, predict
from tests.serve.small import packed, write

Make = Callable[..., Site]


def test_the_model_says_what_it_is_and_what_may_be_asked(site: Make, served: Served) -> None:
    limits = Limits(texts=9, characters=50, bytes=5000, k=8, explained=3, explained_words=40)
    said = site(limits=limits, time_limits=TimeLimits(deadline=0.25)).ask(Request(path="/v1/model")).said
    assert said["model"] == served.now.name
    assert (said["method"], said["labels"], said["calibrated"]) == ("nearest", 12, True)
    assert said["words"] == len(packed().vocabulary.words)  # without the numbers of padding and unknown words
    assert said["bytes"] == served.now.bytes
    wanted = {
        "texts": 9,
        "explained": 3,
        "explained_words": 40,
        "characters": 50,
        "bytes": 5000,
        "k": 8,
        "deadline_ms": 250,
    }
    assert said["limits"] == wanted
    assert said["needs_token"] is False
    assert site(token="hush").ask(Request(path="/v1/model", headers=HUSH)).said["needs_token"] is True


HUSH = {"authorization": "Bearer hush"}


def test_the_models_card_and_figures_are_shown(site: Make, tmp_path: Path) -> None:
    def facts_of(folder: Path) -> dict[str, Any]:
        said: dict[str, Any] = site(Served(folder, Speed(threads=1))).ask(Request(path="/v1/model")).said
        return said

    folder = write(tmp_path / "model")
    assert facts_of(folder)["metrics"] is None
    metrics = {"split": "test", "metrics": {"P@1": 71.5}}
    measured = replace(packed(), facts={**packed().facts, "metrics": metrics})
    write_packed(of_version(measured, version_of(folder)), folder / "packed")
    said = facts_of(folder)
    assert said["metrics"] == metrics
    assert said["card"] == (folder / "README.md").read_text()
    (folder / "README.md").write_bytes(b"x" * 300_000)
    assert facts_of(folder)["card"] is None


def test_health_is_told_until_the_end_and_readiness_only_before_it(site: Make, served: Served) -> None:
    house = site()
    assert (house.ask(Request(path="/healthz")).said, house.ask(Request(path="/readyz")).status) == ALIVE
    assert house.ask(Request(path="/readyz")).said == {"status": "ready", "model": served.now.name}
    house.service.drain()
    stopping = house.ask(Request(path="/readyz"))
    assert (stopping.status, stopping.said["status"]) == (503, "stopping")
    assert house.ask(Request(path="/healthz")).status == 200


ALIVE = ({"status": "alive"}, 200)


def test_figures_can_be_read_by_those_who_gather_them(site: Make) -> None:
    house = site()
    house.ask(predict({"texts": ["a", "b", "c"]}))
    house.ask(predict({}))
    reply = house.ask(Request(path="/metrics"))
    assert reply.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(reply.body.decode())}
    assert families.keys() >= {
        "laconic_requests",
        "laconic_request_seconds",
        "laconic_refusals",
        "laconic_batch_texts",
        "laconic_waiting_texts",
        "laconic_model_swaps",
        "laconic_model_loaded_timestamp_seconds",
    }
    values = {(one.name, *one.labels.values()): one.value for one in families["laconic_requests"].samples}
    assert values["laconic_requests_total", "/v1/predict", "200"] == 1
    (texts,) = [one.value for one in families["laconic_batch_texts"].samples if one.name.endswith("_sum")]
    assert texts == 3
    assert [one.value for one in families["laconic_waiting_texts"].samples] == [0]


def test_the_document_has_every_path_and_says_what_it_refers_to(site: Make) -> None:
    document = site(limits=Limits(k=8)).ask(Request(path="/openapi.json")).said
    assert document["paths"].keys() == PATHS - {"/", "/docs", "/openapi.json"}
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]
    question = document["components"]["schemas"]["Question"]
    assert question["properties"]["k"]["maximum"] == 8
    assert question["examples"]
    for example in question["examples"]:
        assert question_of(json.dumps(example).encode(), Limits()).asked
    statuses = document["paths"]["/v1/predict"]["post"]["responses"].keys()
    assert statuses == {"200", "400", "401", "408", "413", "415", "421", "422", "503"}
    assert not any("security" in method for path in document["paths"].values() for method in path.values())


def test_the_document_says_where_the_token_is_needed(site: Make) -> None:
    document = site(token="hush").ask(Request(path="/openapi.json")).said
    guarded = {
        path for path, methods in document["paths"].items() if all("security" in one for one in methods.values())
    }
    assert guarded == {"/v1/predict", "/v1/model", "/metrics"}
    assert document["components"]["securitySchemes"] == {"bearer": {"type": "http", "scheme": "bearer"}}
    assert "hush" not in json.dumps(document)


def test_people_read_of_every_path_and_field_without_a_script(site: Make) -> None:
    reply = site().ask(Request(path="/docs"))
    page = reply.body.decode()
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    document = site().ask(Request(path="/openapi.json")).said
    for path, methods in document["paths"].items():
        assert all(f"{method.upper()} {path}<" in page for method in methods)
    for field in document["components"]["schemas"]["Question"]["properties"]:
        assert f"<code>{field}</code>" in page
    assert "<script" not in page
    assert "http" not in re.sub(r"HTTP|https?://www.w3", "", page.partition("<main>")[0])


def references(part: Any) -> Iterator[str]:
    match part:
        case {"$ref": str(reference)}:
            yield reference
        case dict():
            for one in part.values():
                yield from references(one)
        case list():
            for one in part:
                yield from references(one)


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/", "/healthz/", "/docs/", "/redoc", "/page/index.html", "//"])
def test_what_is_not_there_is_said_in_our_form(site: Make, path: str) -> None:
    reply = site().ask(Request(path=path))
    assert (reply.status, reply.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("POST", "/healthz", "GET"), ("DELETE", "/v1/model", "GET"), ("OPTIONS", "/readyz", "GET")],
)
def test_a_wrong_method_is_told_the_right_one(site: Make, method: str, path: str, allowed: str) -> None:
    reply = site().ask(Request(method=method, path=path))
    assert (reply.status, reply.code, reply.headers["allow"]) == (405, "wrong_method", allowed)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_questions_are_posted(site: Make, method: str) -> None:
    reply = site().ask(Request(method=method, path="/v1/predict"))
    assert (reply.status, reply.code, reply.headers["allow"]) == (405, "wrong_method", "POST")


def test_the_page_and_all_of_its_files_are_served_and_use_nothing_else(site: Make) -> None:
    house = site()
    names = {file.name for file in (files("laconic.serve") / "page").iterdir()}
    for name in names:
        reply = house.ask(Request(path="/" if name == "index.html" else f"/{name}"))
        assert reply.status == 200
        assert reply.headers["content-type"].startswith(KINDS[name.rpartition(".")[2]])
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "//" not in policy
        assert reply.headers["referrer-policy"] == "no-referrer"
    page = house.ask(Request(path="/")).body.decode()
    assert {name.removeprefix("/") for name in re.findall(r'(?:src|href)="([^"#]+)"', page)} <= names
    assert not re.search(r"<script>|<style|\son\w+=|\sstyle=", page), "what the policy forbids"


KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
ELSEWHERE = {"origin": "https://page.example"}
PREFLIGHT = {
    **ELSEWHERE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-deadline-ms,x-request-id",
}


def test_pages_elsewhere_may_not_ask_unless_it_was_said(site: Make) -> None:
    house = site()
    for asked in (Request(path="/v1/model", headers=ELSEWHERE), predict({"text": "a"}, **ELSEWHERE)):
        reply = house.ask(asked)
        assert reply.status == 200
        assert not [name for name in reply.headers if name.startswith("access-control")]
    preflight = house.ask(Request(method="OPTIONS", path="/v1/predict", headers=PREFLIGHT))
    assert preflight.status == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def test_pages_of_an_origin_that_was_named_may_ask(site: Make) -> None:
    house = site(origins=("https://page.example",), token="hush")
    preflight = house.ask(Request(method="OPTIONS", path="/v1/predict", headers=PREFLIGHT))
    assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (200, "https://page.example")
    reply = house.ask(predict({"text": "a"}, authorization="Bearer hush", **ELSEWHERE))
    assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, "https://page.example")
    assert "x-request-id" in reply.headers["access-control-expose-headers"].lower()
    refused = house.ask(predict({"text": "a"}, **ELSEWHERE))
    assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, "https://page.example")


def test_pages_of_other_origins_may_not(site: Make) -> None:
    house = site(origins=("https://page.example",))
    other = {**PREFLIGHT, "origin": "https://other.example"}
    assert house.ask(Request(method="OPTIONS", path="/v1/predict", headers=other)).status == 400
    reply = house.ask(predict({"text": "a"}, origin="https://other.example"))
    assert "access-control-allow-origin" not in reply.headers


def test_a_mistake_of_ours_is_told_in_our_form_and_raised_for_the_log(
    site: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = site()

    def fail(*arguments: Any) -> None:
        raise ModelError("xyzzy")

    monkeypatch.setattr("laconic.serve.routes.facts_of", fail)
    with pytest.raises(ModelError):
        house.ask(Request(path="/v1/model"))
    reply = house.reply()
    assert reply is not None
    assert (reply.status, reply.code) == (500, "internal")
    assert b"xyzzy" not in reply.body
    assert 'laconic_requests_total{path="/v1/model",status="500"} 1.0' in house.service.measures.text().decode()
