"""What the page looks like where it is narrow or dark, and that nothing foreign runs in it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import HOSTILE, HOSTILE_NAME, HOSTILE_TEXT, MOST, Visit
from tests.browser.test_asking import FIRST, best
from tests.planted import words_of

PHONE = {"viewport": {"width": 320, "height": 640}}
LONGEST = "w" * 300  # a word that no line holds
# Every element that shows letters of its own, its colour, and what is behind it: colours as a screen has them.
PAINTED = """() => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const pixel = (...colours) => {
        pen.clearRect(0, 0, 1, 1);
        for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
        return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const behind = element => {
        const colours = [];
        for (let one = element; one; one = one.parentElement) colours.unshift(getComputedStyle(one).backgroundColor);
        return colours;
    };
    const lettered = element => element.matches("input:not([type=checkbox])")
        || [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    return [...document.body.querySelectorAll("*")]
        .filter(element => lettered(element) && element.checkVisibility({checkOpacity: true}))
        .map(element => [element.id || element.className || element.localName,
            pixel(...behind(element), getComputedStyle(element).color), pixel(...behind(element))]);
}"""


def luminance(colour: list[int]) -> float:
    """WCAG 2's relative luminance."""
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in (c / 255 for c in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[int], other: list[int]) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_what_wcag_says() -> None:
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    assert contrast([119, 119, 119], [255, 255, 255]) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out(visit: Visit, address: str, scheme: str) -> None:
    page = visit(f"{address}/#q={FIRST} {' '.join(words_of(1))} {words_of(2)[0]}", color_scheme=scheme)
    best(page, "L5")
    expect(page.locator("#facts dd").first).to_be_visible()
    page.evaluate("message.textContent = 'trouble', message.className = 'trouble'")
    for more in ("no-preference", "more"):
        page.emulate_media(contrast=more)  # type: ignore[arg-type]  # a parametrised string, where playwright wants a literal
        painted = page.evaluate(PAINTED)
        seen = {name for name, *_ in painted}
        assert {"question", "label", "score", "text", "for", "latency", "message", "dd", "kbd"} <= seen
        faint = [(name, round(contrast(*colours), 2)) for name, *colours in painted if contrast(*colours) < 4.5]
        assert faint == []


def test_dark_is_dark_and_light_is_light(page: Page) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # a parametrised string, where playwright wants a literal
        colours = {name: colours for name, *colours in page.evaluate(PAINTED)}
        brightness[scheme] = luminance(colours["question"][1]), luminance(colours["question"][0])
    (light_paper, light_ink), (dark_paper, dark_ink) = brightness["light"], brightness["dark"]
    assert light_paper > 0.9 > 0.1 > light_ink
    assert dark_paper < 0.05 < 0.7 < dark_ink


def test_a_narrow_phone_needs_no_scrolling_sideways(visit: Visit, address: str) -> None:
    page = visit(f"{address}/#q={FIRST} {' '.join(words_of(HOSTILE))} {LONGEST}&k={MOST}", **PHONE)
    expect(page.locator("#answers > li")).to_have_count(MOST)
    expect(page.locator("#facts dd").first).to_be_visible()
    assert sideways(page) == 0
    page.evaluate("entrance.hidden = false, message.textContent = 'w'.repeat(300)")
    assert sideways(page) == 0


def sideways(page: Page) -> int:
    """By how many pixels something sticks out on the right."""
    widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    return int(widths[0] - widths[1])


def test_nothing_moves_for_those_who_want_it_still(page: Page) -> None:
    page.locator("#question").fill(FIRST)
    best(page, "L5")
    moving = "() => getComputedStyle(document.querySelector('.bar'), '::before').transitionDuration"
    assert page.evaluate(moving) != "0s"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moving) == "0s"


def test_a_label_that_is_html_is_shown_as_it_is_written(page: Page) -> None:
    page.locator("#question").fill(" ".join(words_of(HOSTILE)))
    best(page, HOSTILE_NAME)
    expect(page.locator("#answers .text").first).to_contain_text(HOSTILE_TEXT)
    assert page.locator("#answers img, #answers script").count() == 0
    assert page.evaluate("window.hostile") is None


def test_a_hostile_text_is_not_run(visit: Visit, address: str) -> None:
    text = "<script>hostile = 1</script><img src=x onerror=hostile=1>"
    page = visit(f"{address}/#q={text.replace('=', '%3D')} {FIRST}")
    best(page, "L5")
    expect(page.locator("#answers .words li").first).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.hostile") is None


def test_the_browser_stops_scripts_that_are_not_the_pages_own(page: Page, complaints: list[str]) -> None:
    page.evaluate(
        """() => {
            const script = Object.assign(document.createElement("script"), {textContent: "window.hostile = 1"});
            document.body.append(script);
            const more = "<img src='x' onerror='window.hostile = 1'><p style='color: red'>";
            document.body.insertAdjacentHTML("beforeend", more);
        }"""
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.hostile") is None
    stopped = [one for one in complaints if "Content Security Policy" in one]
    assert len(stopped) >= 3
    complaints.clear()


def test_nothing_is_fetched_from_elsewhere(visit: Visit, address: str) -> None:
    page = visit("about:blank")
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(f"{address}/#q={FIRST}")
    best(page, "L5")
    assert {f"{address}/page.css", f"{address}/page.js", f"{address}/v1/predict"} <= set(fetched)
    assert [one for one in fetched if not one.startswith(f"{address}/")] == []
