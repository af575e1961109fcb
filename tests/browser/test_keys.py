"""The page without a mouse, and as those hear it who do not see it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.test_asking import FIRST, SECOND, best


@pytest.fixture
def asked(page: Page) -> Page:
    expect(page.locator("#question")).to_be_focused()  # from the beginning, but not before the page is there
    page.keyboard.type(FIRST)
    expect(page.locator("#answers .words").first).to_contain_text(FIRST.split()[-1])
    expect(page.locator("#answers > li")).to_have_count(5)
    return page


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent"))


def test_arrows_walk_through_the_answers_and_back_to_the_box(asked: Page) -> None:
    names = asked.locator("#answers .label").all_inner_texts()
    walked = []
    for key in ("ArrowDown", "ArrowDown", "End", "ArrowDown", "Home", "ArrowUp"):
        asked.keyboard.press(key)
        walked.append(focused(asked))
    assert walked == [names[0], names[1], names[4], names[4], names[0], "question"]


def test_a_slash_leads_to_the_box_and_is_typed_there(asked: Page) -> None:
    asked.keyboard.press("ArrowDown")
    asked.keyboard.press("/")
    assert focused(asked) == "question"
    expect(asked.locator("#question")).to_have_value(FIRST)
    asked.keyboard.press("End")
    asked.keyboard.press("/")
    expect(asked.locator("#question")).to_have_value(f"{FIRST}/")


def test_escape_clears_from_anywhere(asked: Page) -> None:
    asked.keyboard.press("ArrowDown")
    asked.keyboard.press("Escape")
    assert focused(asked) == "question"
    expect(asked.locator("#question")).to_have_value("")
    expect(asked.locator("#answers > li")).to_have_count(0)


def test_enter_copies_a_label(visit: Visit, address: str) -> None:
    page = visit(f"{address}/#q={FIRST}", permissions=["clipboard-read", "clipboard-write"])
    best(page, "L5")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#announcement")).to_have_text("Copied L5")
    expect(page.locator("#answers > li").first).to_have_class("copied-now")
    assert page.evaluate("navigator.clipboard.readText()") == "L5"


def test_labels_are_copied_where_a_page_has_no_clipboard(visit: Visit, address: str) -> None:
    """So it is when the server is another machine without encryption."""
    page = visit("about:blank", permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(
        "window.clipboard = navigator.clipboard; Object.defineProperty(Navigator.prototype, 'clipboard', {})"
    )
    page.goto(f"{address}/#q={SECOND}")
    best(page, "L7")
    page.locator("#answers .label").first.click()
    expect(page.locator("#announcement")).to_have_text("Copied L7")
    assert page.evaluate("clipboard.readText()") == "L7"


def test_the_tab_key_passes_everything_that_can_be_operated_once(asked: Page) -> None:
    passed = []
    for _ in range(5):
        asked.keyboard.press("Tab")
        passed.append(focused(asked))
    assert passed == ["fewer", "k", "more", "why", "L5"]
    asked.keyboard.press("Shift+Tab")
    asked.keyboard.press("Space")
    expect(asked.locator("#answers .words li")).to_have_count(0)


def test_a_row_that_goes_takes_the_focus_to_the_one_before(asked: Page) -> None:
    asked.keyboard.press("ArrowDown")
    asked.keyboard.press("End")
    asked.evaluate("fewer.click()")
    expect(asked.locator("#answers > li")).to_have_count(4)
    assert focused(asked) == asked.locator("#answers .label").nth(3).inner_text()


def test_everything_has_a_name_and_a_role(asked: Page) -> None:
    expect(asked.get_by_role("searchbox", name="Text to find labels for")).to_be_visible()
    expect(asked.get_by_role("spinbutton", name="Answers")).to_be_visible()
    expect(asked.get_by_role("switch", name="Why")).to_be_checked()
    expect(asked.get_by_role("list", name="Answers, best first").get_by_role("button")).to_have_count(5)
    expect(asked.get_by_role("complementary", name="Model")).to_be_visible()
    expect(asked.get_by_role("heading", level=1)).to_have_text("laconic")
    unnamed = "everything => everything.filter(one => !one.labels?.length && !one.ariaLabel && !one.textContent).length"
    assert asked.locator("input, button").evaluate_all(unnamed) == 0


def test_bars_and_answers_are_told(asked: Page) -> None:
    meter = asked.get_by_role("meter", name="Score").first
    shown = asked.locator("#answers .score").first.inner_text()
    expect(meter).to_have_attribute("aria-valuetext", shown)
    told = [float(meter.get_attribute(f"aria-value{which}") or "nan") for which in ("min", "now", "max")]
    assert told == sorted(told)
    expect(asked.locator("#announcement")).to_have_text("5 answers, the best is L5")
    expect(asked.locator("#announcement")).to_have_attribute("role", "status")


def test_typing_goes_on_while_answers_come(page: Page) -> None:
    page.locator("#question").press_sequentially(f"{FIRST} {SECOND}", delay=60)
    expect(page.locator("#question")).to_have_value(f"{FIRST} {SECOND}")
    assert focused(page) == "question"
