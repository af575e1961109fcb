"""The page as a reader meets it: a real server of a planted model, and a real Chromium without a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks._browser import chromium, served
from playwright.sync_api import Browser, Page, expect, sync_playwright

from laconic.data.corpus import Corpus, Labels
from laconic.export.pack import pack
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.packed.folder import PackedModel, write_packed
from laconic.training.run import Run
from tests.planted import planted_texts

HOSTILE = 3  # the number of a label whose name and text would run if they were taken for HTML
HOSTILE_NAME = '<img src="x" onerror="window.hostile = 1">'
HOSTILE_TEXT = "<script>window.hostile = 1</script>&amp;"
UNREACHED = "Failed to load resource"  # how Chromium complains of a refusal or of a server that is gone

MOST = 10  # answers that the server gives
TOKEN = "open-sesame"

Visit = Callable[..., Page]


@pytest.fixture(scope="session")
def packed_model() -> PackedModel:
    corpus = with_hostile_label(planted_texts(with_label_texts=True))
    return pack(train_model(corpus, "nearest", config_of("nearest", {"calibration": 0.0}), Run.unkept()), corpus)


@pytest.fixture(scope="session")
def model(packed_model: PackedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its scores are no probabilities."""
    folder = tmp_path_factory.mktemp("models") / "model"
    write_packed(packed_model, folder)
    return folder


@pytest.fixture(scope="session")
def calibrated_model(packed_model: PackedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model with a planted calibration curve, so that its scores count as probabilities."""
    curve = {"scores": [0.5, 1.0], "probabilities": [0.3, 0.8]}
    folder = tmp_path_factory.mktemp("models") / "calibrated"
    write_packed(replace(packed_model, facts={**packed_model.facts, "calibration": curve}), folder)
    return folder


def with_hostile_label(corpus: Corpus) -> Corpus:
    names, texts = list(corpus.labels.names), list(corpus.labels.texts or ())
    names[HOSTILE], texts[HOSTILE] = HOSTILE_NAME, f"{texts[HOSTILE]} {HOSTILE_TEXT}"
    return replace(corpus, labels=Labels(names=names, texts=texts))


@pytest.fixture(scope="session")
def address(model: Path) -> Iterator[str]:
    with served(model, "--max-k", str(MOST)) as address:
        yield address


@pytest.fixture(scope="session")
def guarded(calibrated_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another server: it asks for a token, and its scores are probabilities."""
    token = tmp_path_factory.mktemp("secret") / "token"
    token.write_text(TOKEN)
    with served(calibrated_model, "--token-file", str(token)) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        yield browser
        browser.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console had to say; a test that expects some takes it away."""
    return []


@pytest.fixture
def visit(browser: Browser, complaints: list[str]) -> Iterator[Visit]:
    """Opens an address in a fresh profile; whatever the console complains of in the end is a failure."""
    contexts = []
    expect.set_options(timeout=20_000)  # milliseconds: a machine may be busy with other things

    def visited(address: str, **options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield visited
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(visit: Visit, address: str) -> Page:
    return visit(address)
