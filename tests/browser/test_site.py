"""The documentation site as a reader meets it; `make docs` builds it, and the first test does where it is not built."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
PHONE = {"width": 390, "height": 844}


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the site."""
    if not (SITE / "index.html").exists():
        subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"], cwd=ROOT, check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def pages() -> list[str]:
    """Return the addresses of all pages, by the site's own map."""
    return sorted(str(path.parent.relative_to(SITE)) for path in SITE.rglob("index.html"))


def test_tabs_lead_to_the_sections_and_the_section_to_its_pages(visit: Visit, site: str) -> None:
    page = visit(site)
    page.get_by_role("link", name="Reference", exact=True).first.click()
    expect(page.get_by_role("heading", name="Reference", level=1)).to_be_visible()
    page.locator(".md-sidebar--primary").get_by_role("link", name="Exit codes").click()
    expect(page.get_by_role("heading", name="Exit codes", level=1)).to_be_visible()
    page.get_by_role("link", name="Papers", exact=True).first.click()
    expect(page.get_by_role("heading", name="Papers", level=1)).to_be_visible()


def test_the_search_finds_a_setting(visit: Visit, site: str) -> None:
    page = visit(site)
    page.get_by_role("textbox", name="Search").fill("neighbour_power")
    found = page.locator(".md-search-result__link", has_text="Settings of astec")
    expect(found.first).to_be_visible()
    found.first.click()
    expect(page.get_by_role("heading", name="Settings of astec", level=1)).to_be_visible()
    expect(page.get_by_text("shortlist.neighbour_power", exact=True)).to_be_visible()


def test_the_search_finds_an_option_of_the_command_line(visit: Visit, site: str) -> None:
    page = visit(site)
    page.get_by_role("textbox", name="Search").fill("ignore-memory")
    expect(page.locator(".md-search-result__link").first).to_contain_text("laconic train")


def test_all_pictures_of_all_pages_load(visit: Visit, site: str) -> None:
    with_pictures = [one for one in pages() if "<img" in article(SITE / one / "index.html")]
    assert len(with_pictures) >= 4
    page = visit(site)
    for one in with_pictures:
        page.goto(f"{site}/{one}/")
        pictures = page.locator("article img")
        assert pictures.count() > 0
        for number in range(pictures.count()):
            pictures.nth(number).scroll_into_view_if_needed()
            expect(pictures.nth(number)).to_have_js_property("complete", True)
            assert pictures.nth(number).evaluate("picture => picture.naturalWidth") > 100, f"{one}: picture {number}"


def article(path: Path) -> str:
    """Return the part of a page between its first and its last heading's section, without header and navigation."""
    return path.read_text(encoding="utf-8").partition("<article")[2].partition("</article")[0]


def test_no_page_asks_anybody_else(visit: Visit, site: str) -> None:
    page, asked = visit(site), []
    page.on("request", lambda request: asked.append(request.url))
    for one in ("", "reference/python/estimator", "reference/http-api", "papers/deepxml", "guides/production"):
        page.goto(f"{site}/{one}/")
        expect(page.locator("h1")).to_be_visible()
    assert asked
    assert [url for url in asked if not url.startswith((site, "data:"))] == []


def test_no_page_names_an_asset_elsewhere() -> None:
    outside = re.compile(r"""(?:<(?:script|img|iframe)[^>]*\ssrc=|<link[^>]*\shref=)["']?(?:https?:)?//[^"'\s>]+""")
    found = {one: outside.findall((SITE / one / "index.html").read_text(encoding="utf-8")) for one in pages()}
    assert len(found) > 50
    assert {one: urls for one, urls in found.items() if urls} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_palette_follows_the_system_and_can_be_changed(visit: Visit, site: str, scheme: str) -> None:
    page = visit(site, color_scheme=scheme)
    assert is_dark(page) == (scheme == "dark")
    page.get_by_title("Use the light palette" if scheme == "dark" else "Use the dark palette").click()
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "default" if scheme == "dark" else "slate")
    assert is_dark(page) == (scheme == "light")


def is_dark(page: Page) -> bool:
    colour = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    red, green, blue = map(float, re.findall(r"[\d.]+", colour)[:3])
    return red + green + blue < 3 * 128


@pytest.mark.parametrize("one", ["", "reference/settings/astec", "reference/cli/train", "papers/decaf", "architecture"])
def test_a_page_is_not_wider_than_a_phone(visit: Visit, site: str, one: str) -> None:
    page = visit(f"{site}/{one}/", viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_navigation_opens_on_a_phone(visit: Visit, site: str) -> None:
    page = visit(site, viewport=PHONE)
    page.locator("label.md-header__button[for=__drawer]").click()
    page.locator(".md-sidebar--primary").get_by_text("Papers", exact=True).first.click()
    expect(page.locator(".md-sidebar--primary").get_by_role("link", name="DECAF", exact=True)).to_be_visible()


@pytest.mark.parametrize("name", ["first-model", "library-subjects", "tail-and-label-text", "serving"])
def test_a_tutorial_shows_its_output_and_pictures_and_can_be_downloaded(visit: Visit, site: str, name: str) -> None:
    page = visit(f"{site}/tutorials/{name}/")
    assert page.locator(".highlight.output").count() >= 3
    pictures = page.locator("img.output")
    assert pictures.count() >= 1
    assert all(one.evaluate("picture => picture.complete && picture.naturalWidth > 0") for one in pictures.all())
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as a notebook").click()
    notebook = json.loads(download.value.path().read_text())
    assert any(cell.get("outputs") for cell in notebook["cells"])
