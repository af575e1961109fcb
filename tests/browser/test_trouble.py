"""When there is no answer: the page says why, keeps what was typed, and goes on by itself where it can."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks._browser import free_port, served
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import TOKEN, UNREACHED, Visit
from tests.browser.test_asking import FIRST, PREDICT, SECOND, best


def forgive(complaints: list[str]) -> None:
    """Takes away what the console says of refusals, and nothing else."""
    complaints[:] = [one for one in complaints if UNREACHED not in one]


def test_a_server_that_is_gone_costs_no_text_and_is_found_again(
    visit: Visit, model: Path, complaints: list[str]
) -> None:
    port = free_port()
    with served(model, port=port) as address:
        page = visit(f"{address}/#q={FIRST}")
        best(page, "L5")
    page.locator("#question").fill(SECOND)
    expect(page.locator("#message")).to_contain_text("cannot be reached")
    expect(page.locator("#question")).to_have_value(SECOND)
    expect(page.locator("#answers")).to_have_class("faded")
    with served(model, port=port):
        best(page, "L7")
        expect(page.locator("#message")).to_be_empty()
        expect(page.locator("#answers")).not_to_have_class("faded")
        page.context.close()
    forgive(complaints)


def test_a_busy_server_is_asked_again_when_it_says(page: Page, complaints: list[str]) -> None:
    asked: list[Route] = []

    def busy_once(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()
        else:
            error = {"error": {"code": "busy", "message": "too many"}, "request_id": "r"}
            route.fulfill(status=503, headers={"retry-after": "1"}, json=error)

    page.route(PREDICT, busy_once)
    page.locator("#question").fill(FIRST)
    expect(page.locator("#message")).to_have_text("The server is busy. It is asked again in 1 s.")
    best(page, "L5")
    expect(page.locator("#message")).to_be_empty()
    assert len(asked) == 2
    forgive(complaints)


def test_a_busy_server_is_not_stormed_whatever_it_says(page: Page, complaints: list[str]) -> None:
    for given in ("", "Wed, 21 Oct 2026 07:28:00 GMT", "-5"):
        asked = answer_with(page, status=503, headers={"retry-after": given}, json={"error": {"message": "too many"}})
        page.locator("#question").fill(FIRST)
        expect(page.locator("#message")).to_have_text("The server is busy. It is asked again in 1 s.")
        page.wait_for_timeout(400)
        assert len(asked) == 1, given
        page.locator("#question").fill("")
        expect(page.locator("#message")).to_be_empty()
    forgive(complaints)


def answer_with(page: Page, **answer: Any) -> list[Route]:
    """Every question gets this answer from now on; returns where they are noted."""
    asked: list[Route] = []

    def answered(route: Route) -> None:
        asked.append(route)
        route.fulfill(**answer)

    page.unroute_all()
    page.route(PREDICT, answered)
    return asked


def test_a_text_that_is_too_long_is_kept_and_explained(page: Page, complaints: list[str]) -> None:
    text = "many words " * 100
    page.locator("#question").fill(text)
    expect(page.locator("#message")).to_have_text(re.compile(r"The server cannot answer this \(.*1,000 characters.*\)"))
    expect(page.locator("#question")).to_have_value(text)
    page.locator("#question").fill(FIRST)
    best(page, "L5")
    expect(page.locator("#message")).to_be_empty()
    forgive(complaints)


def test_an_answer_that_makes_no_sense_is_said_to_be_none(page: Page, complaints: list[str]) -> None:
    senseless = ["", "null", "[]", '{"answers": []}', '"text"']
    for status, body in [(502, "<html>Bad gateway</html>"), (502, "null"), *((200, body) for body in senseless)]:
        answer_with(page, status=status, body=body)
        page.locator("#question").fill(f"{FIRST} {body}")
        expect(page.locator("#message")).to_contain_text(f"The server gave no answer ({status}).")
        expect(page.locator("#question")).to_have_value(f"{FIRST} {body}")
        page.locator("#question").fill("")
        expect(page.locator("#message")).to_be_empty()
    forgive(complaints)


def test_a_token_is_asked_for_once(visit: Visit, guarded: str, complaints: list[str]) -> None:
    page = visit(guarded)
    expect(page.locator("#message")).to_have_text("This server answers those who have its token.")
    page.locator("#question").fill(FIRST)
    for token, said in (("wrong", "That token was not accepted."), (TOKEN, "")):
        page.get_by_label("Token").fill(token)
        page.get_by_label("Token").press("Enter")
        expect(page.locator("#message")).to_have_text(said)
        expect(page.locator("#question")).to_have_value(FIRST)
    best(page, "L5")
    expect(page.locator("#entrance")).to_be_hidden()
    expect(page.locator("#summary")).to_contain_text("nearest")
    expect(page).to_have_url(re.compile("#q="))
    page.reload()
    best(page, "L5")
    assert TOKEN not in page.url
    assert page.evaluate("localStorage.length") == 0
    forgive(complaints)
