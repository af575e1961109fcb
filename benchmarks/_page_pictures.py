"""Pictures of the served page for the docs: a real browser, a real server, and what a model really answers.

`make screenshot` trains the demo's model first, unless build/ has it; MODEL=FOLDER takes another one.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

from benchmarks._browser import chromium, served
from laconic.cli.demo import TEXTS

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
TEXT = TEXTS[0]
DESK = {"viewport": {"width": 1120, "height": 960}, "device_scale_factor": 2}
VIEWS: dict[str, dict[str, Any]] = {  # name of the picture: what the browser is told of its screen
    "page": DESK,
    "page-dark": {**DESK, "color_scheme": "dark"},
    "page-phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}
COLOURS = 128  # of a picture's palette: flat areas and letters need no more
LARGEST = 200_000  # bytes of a picture


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, help="a model folder, packed or with what was packed of it")
    parser.add_argument("--out", type=Path, default=PICTURES, help="where pictures go")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with served(options.model) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        for name, view in VIEWS.items():
            _write(_picture(browser, address, view), options.out / f"{name}.png")
        browser.close()


def _picture(browser: Browser, address: str, view: dict[str, Any]) -> bytes:
    """The page once it has answered the whole text and nothing moves any more."""
    context = browser.new_context(**view, reduced_motion="reduce")
    page = context.new_page()
    page.goto(address)
    expect(page.locator("#summary")).not_to_be_empty()
    page.locator("#question").press_sequentially(TEXT, delay=30)
    expect(page.locator("#answers .words").first).to_contain_text(TEXT.split()[-1])
    expect(page.locator("#answers > li")).to_have_count(5)
    page.locator("#question").press("Enter")  # once more, when the server is warm: its usual latency
    page.wait_for_timeout(500)
    picture = page.screenshot(caret="hide")
    context.close()
    return picture


def _write(picture: bytes, path: Path) -> None:
    small = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path}: {small.width} x {small.height}, {size / 1000:.0f} kB")
    if size > LARGEST:
        sys.exit(f"{path} is {size} bytes, where {LARGEST} are allowed: take fewer COLOURS")


if __name__ == "__main__":
    main()
