"""A question is in the page's address: it can be shared, and the browser's history leads back to it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import MOST, Visit
from tests.browser.test_asking import FIRST, SECOND, ask, best


def test_the_address_brings_a_question_back(page: Page, visit: Visit) -> None:
    ask(page, FIRST)
    page.get_by_role("button", name="One answer fewer").click()
    page.get_by_role("switch", name="Why").click()
    expect(page).to_have_url(re.compile(r"#q=\w+\+\w+\+\w+&k=4&why=0$"))
    other = visit(page.url)
    best(other, "L5")
    expect(other.locator("#question")).to_have_value(FIRST)
    expect(other.locator("#answers > li")).to_have_count(4)
    expect(other.get_by_role("switch", name="Why")).not_to_be_checked()


def test_signs_that_addresses_use_themselves_are_kept(visit: Visit, page: Page) -> None:
    text = "50% off & more = <b>#1</b>? +ünï 日本"
    page.locator("#question").fill(text)
    expect(page).to_have_url(re.compile("#q="))
    expect(visit(page.url).locator("#question")).to_have_value(text)


def test_back_and_forward_walk_through_questions(page: Page) -> None:
    for text in (FIRST, SECOND):
        page.locator("#question").fill(text)
        page.locator("#question").press("Enter")
    best(page, "L7")
    page.go_back()
    best(page, "L5")
    expect(page.locator("#question")).to_have_value(FIRST)
    page.go_back()
    expect(page.locator("#question")).to_have_value("")
    expect(page.locator("#answers > li")).to_have_count(0)
    page.go_forward()
    page.go_forward()
    best(page, "L7")


def test_typing_on_does_not_fill_the_history(page: Page) -> None:
    before = page.evaluate("history.length")
    for end in range(4, len(FIRST), 4):
        page.locator("#question").fill(FIRST[:end])
        page.wait_for_timeout(450)  # longer than the address rests, shorter than a question stands
    assert page.evaluate("history.length") <= before + 1


def test_an_address_with_a_bad_k_is_mended(visit: Visit, address: str) -> None:
    for given, used in (("0", "5"), ("9999", str(MOST)), ("many", "5")):
        page = visit(f"{address}/#q={FIRST}&k={given}")
        best(page, "L5")
        expect(page.locator("#k")).to_have_value(used)
        expect(page.locator("#message")).to_be_empty()
