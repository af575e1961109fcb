"""Questions asked of the page, and what it shows of the answers."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import MOST, TOKEN, Visit
from tests.planted import words_of

FIRST, SECOND = " ".join(words_of(5)), " ".join(words_of(7))  # texts whose best labels are L5 and L7
PREDICT = "**/v1/predict"
HOLDING = """const real = window.fetch;
    window.fetch = async (path, {signal, ...options}) => {
        const answer = await real(path, options);
        if (String(options.body).includes(held)) await new Promise(done => { window.release = done; });
        return answer;
    };"""


def ask(page: Page, text: str) -> None:
    """As fingers do it, so that the page asks about beginnings too; what it shows in the end answers the whole."""
    page.locator("#question").press_sequentially(text, delay=10)
    expect(page.locator("#answers .words").first).to_contain_text(text.split()[-1])


def best(page: Page, label: str) -> None:
    expect(page.locator("#answers .label").first).to_have_text(label)


def answered(address: str, text: str, k: int) -> list[dict[str, Any]]:
    """What the server says to those who ask without a page."""
    body = json.dumps({"text": text, "k": k, "explain": True}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    with urlopen(Request(f"{address}/v1/predict", body, headers)) as answer:
        predictions: list[dict[str, Any]] = json.load(answer)["answers"][0]["predictions"]
    return predictions


def test_typing_shows_what_the_server_answers(page: Page, address: str) -> None:
    ask(page, FIRST)
    best(page, "L5")
    expected = answered(address, FIRST, 5)
    assert len(expected) == 5
    expect(page.locator("#answers .label")).to_have_text([str(one["label"]) for one in expected])
    expect(page.locator("#answers .text").first).to_have_text(str(expected[0]["text"]))
    expect(page.locator("#latency")).to_have_text(re.compile(r"^[\d.]+ ms · server [\d.]+ ms$"))


def test_a_question_is_asked_when_fingers_pause(visit: Visit, address: str) -> None:
    page = visit("about:blank")
    page.clock.install(time=0)
    page.goto(address)
    expect(page.locator("#summary")).not_to_be_empty()
    page.clock.pause_at(3600)  # seconds; from here on time passes by the test's word alone
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/v1/predict") else None)
    for end in range(1, len(FIRST) + 1):
        page.locator("#question").fill(FIRST[:end])
        page.clock.run_for(100)
    assert asked == []
    page.clock.run_for(30)
    best(page, "L5")
    assert len(asked) == 1


def test_an_answer_that_comes_late_does_not_take_the_place_of_a_newer_one(page: Page) -> None:
    held: list[Route] = []
    page.route(PREDICT, lambda route: held.append(route) if words_of(5)[0] in asked_in(route) else route.continue_())
    with page.expect_request(PREDICT):
        page.locator("#question").fill(FIRST)
    page.locator("#question").fill(SECOND)
    best(page, "L7")
    late = {"model": "late", "answers": [{"predictions": [{"label": "late", "score": 1.0, "words": []}]}]}
    for route in held:
        route.fulfill(json=late)
    page.wait_for_timeout(200)  # time enough for it to do harm
    assert held
    best(page, "L7")
    expect(page.locator("#message")).to_be_empty()


def test_a_late_answer_is_dropped_even_where_it_cannot_be_called_off(visit: Visit, address: str) -> None:
    """A browser may have the whole answer already when the next question is sent."""
    page = visit("about:blank")
    page.add_init_script(f"const held = '{words_of(5)[0]}';" + HOLDING)
    page.goto(address)
    with page.expect_response(PREDICT):
        page.locator("#question").fill(FIRST)
    page.locator("#question").fill(SECOND)
    best(page, "L7")
    page.evaluate("release()")
    page.wait_for_timeout(200)
    best(page, "L7")


def asked_in(route: Route) -> str:
    return str(json.loads(route.request.post_data or "{}").get("text"))


def test_k_is_the_number_of_answers(page: Page) -> None:
    ask(page, FIRST)
    rows = page.locator("#answers > li")
    expect(rows).to_have_count(5)
    page.get_by_role("button", name="One answer more").click()
    expect(rows).to_have_count(6)
    for _ in range(3):
        page.get_by_role("button", name="One answer fewer").click()
    expect(rows).to_have_count(3)
    page.get_by_label("Answers", exact=True).fill("8")
    expect(rows).to_have_count(8)


def test_k_stays_within_what_the_server_allows(page: Page) -> None:
    page.locator("#question").fill(FIRST)
    expect(page.locator("#summary")).not_to_be_empty()
    k = page.get_by_label("Answers", exact=True)
    for given, used in ((str(MOST), MOST), ("0", 1), ("99", MOST), ("-3", 1), ("", 5), ("2.6", 3)):
        k.fill(given)
        k.blur()
        expect(k).to_have_value(str(used))
        expect(page.locator("#answers > li")).to_have_count(used)
    expect(page.locator("#message")).to_be_empty()


def test_words_that_mattered_are_shown_unless_nobody_asks_why(page: Page, address: str) -> None:
    ask(page, FIRST)
    best(page, "L5")
    words = page.locator("#answers > li").first.get_by_role("list", name="Words that mattered").locator("li")
    expect(words).to_have_count(3)
    shown = [text.split()[0] for text in words.all_inner_texts()]
    assert shown == [one["word"] for one in answered(address, FIRST, 1)[0]["words"]]
    assert all(re.search(r" \+\d", text) for text in words.all_inner_texts())
    page.get_by_role("switch", name="Why").click()
    expect(page.locator("#answers .words li")).to_have_count(0)
    best(page, "L5")


def test_scores_that_are_no_probabilities_are_drawn_beside_the_best_one(page: Page, address: str) -> None:
    ask(page, FIRST)
    best(page, "L5")
    scores = [one["score"] for one in answered(address, FIRST, 5)]
    assert drawn(page) == pytest.approx([score / scores[0] for score in scores], abs=0.01)
    expect(page.locator("#facts")).to_contain_text("for ranking only")


def test_probabilities_are_drawn_as_such(visit: Visit, guarded: str) -> None:
    page = visit("about:blank")
    page.add_init_script(f"if (location.protocol === 'http:') sessionStorage.setItem('laconic token', '{TOKEN}')")
    page.goto(f"{guarded}/#q={FIRST}")
    expect(page.locator("#facts")).to_contain_text("probabilities")
    best(page, "L5")
    scores = [one["score"] for one in answered(guarded, FIRST, 5)]
    assert scores[0] < 0.9
    assert drawn(page) == pytest.approx(scores, abs=0.01)
    expect(page.locator("#answers .score").first).to_have_text(f"{100 * scores[0]:.1f} %")


def drawn(page: Page) -> list[float]:
    """The coloured part of each bar, as it is painted when nothing moves any more."""
    page.emulate_media(reduced_motion="reduce")
    shares = page.locator("#answers .bar").evaluate_all(
        """bars => bars.map(bar => {
            const moved = new DOMMatrix(getComputedStyle(bar, "::before").transform).m41;
            return 1 + moved / bar.getBoundingClientRect().width;
        })"""
    )
    return list(shares)


def test_the_model_says_what_it_is(page: Page) -> None:
    facts = page.locator("#facts")
    for said in ("nearest", "12", "for ranking only"):
        expect(facts).to_contain_text(said)
    expect(page.locator("#summary")).to_have_text("12 labels, nearest")


def test_a_question_without_an_answer_says_so(page: Page) -> None:
    page.route(PREDICT, lambda route: route.fulfill(json={"model": "m", "answers": [{"predictions": []}]}))
    page.locator("#question").fill("nothing")
    expect(page.locator("#message")).to_have_text("No label was found for this text.")


def test_a_text_without_a_known_word_is_marked(page: Page) -> None:
    answer = {"predictions": [{"label": "L5", "score": 0.5}], "known_words": 0}
    page.route(PREDICT, lambda route: route.fulfill(json={"model": "m", "answers": [answer]}))
    page.locator("#question").fill("xyzzy plugh")
    expect(page.locator("#message")).to_contain_text("The model knows no word of this text")


def test_an_emptied_box_shows_nothing(page: Page) -> None:
    ask(page, FIRST)
    best(page, "L5")
    page.locator("#question").fill("")
    expect(page.locator("#answers > li")).to_have_count(0)
    expect(page.locator("#latency")).to_be_empty()
