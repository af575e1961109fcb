"""The verb serve as a user types it, up to where a server would start; test_chaos.py has what comes after that."""

from __future__ import annotations

import io
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from laconic.cli import serve as cli_serve
from laconic.predict.load import Speed
from laconic.serve.settings import Limits, Serving, TimeLimits
from tests.serve.small import write
from tests.test_cli import laconic


@pytest.fixture(autouse=True)
def _logs_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are this process's, and other tests read them."""
    monkeypatch.setattr("logging.config.dictConfig", lambda settings: None)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, Serving, Speed]]:
    """What would be served."""
    calls: list[tuple[Path, Serving, Speed]] = []
    monkeypatch.setattr("laconic.serve.server.serve", lambda *given, started: calls.append(given))
    return calls


def test_the_usual_settings_are_the_librarys_own(model: Path, started: list[Any]) -> None:
    laconic("serve", model)
    assert started == [(model, Serving(), Speed(threads=1))]


def test_every_option_arrives(model: Path, started: list[Any], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush\n")
    options = "--host 0.0.0.0 --port 81 --workers 2 --deadline-ms 50 --queue 9 --max-body 2kB --max-texts 3 --quiet"
    more = "--max-characters 4 --max-k 5 --origin https://a.example --origin https://b.example --drain 2 --no-watch"
    known = ("--allow-host", "x.org")
    laconic("serve", model, *options.split(), *more.split(), "--token-file", tmp_path / "token", "--beam", 6, *known)
    wanted = Serving(
        host="0.0.0.0",
        port=81,
        workers=2,
        queue=9,
        limits=Limits(bytes=2000, texts=3, characters=4, k=5),
        time_limits=TimeLimits(deadline=0.05, drain=2.0, look=0.0),
        token="hush",
        hosts=("x.org",),
        origins=("https://a.example", "https://b.example"),
        log_requests=False,
    )
    assert started == [(model, wanted, Speed(beam=6, threads=1))]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:81"),
        ("0.0.0.0", "http://localhost:81"),
        ("::1", "http://[::1]:81"),
        ("shop.example", "http://shop.example:81"),
    ],
)
def test_people_are_told_the_address_and_programs_are_not(host: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal in (True, False):
        told = io.StringIO()
        monkeypatch.setattr(
            cli_serve, "err", Console(file=told, force_terminal=terminal, no_color=True, highlight=False, width=200)
        )
        cli_serve._print_address(Serving(host=host, port=81))
        assert told.getvalue() == f"Serving at {url} (API: {url}/docs). Ctrl-C stops.\n" * terminal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "65536"], "Invalid value for '--port'"),
        (["--port", "http"], "Invalid value for '--port'"),
        (["--workers", "0"], "Invalid value for '--workers'"),
        (["--workers", "2000"], "workers must be within 1..1024, but is 2000"),
        (["--deadline-ms", "0"], "Invalid value for '--deadline-ms'"),
        (["--deadline-ms", "9999999"], "deadline must be within 0.001..3600 seconds, but is 9999.999"),
        (["--queue", "0"], "Invalid value for '--queue'"),
        (["--max-body", "much"], "a size must look like 16MB, 500MB or 2GB, but is 'much'"),
        (["--max-body", "0"], "the limit of bytes must be 1 or more, but is 0"),
        (["--max-texts", "0"], "Invalid value for '--max-texts'"),
        (["--max-k", "0"], "Invalid value for '--max-k'"),
        (["--drain", "-1"], "Invalid value for '--drain'"),
        (["--drain", "3601"], "drain must be within 0..3600 seconds, but is 3601"),
        (["--beam", "3", "--exact"], "exact answers take no beam, but it is 3"),
        (["--token", "hush"], "No such option: --token"),
        (["--token-file", "nowhere"], "nowhere: the token cannot be read"),
    ],
)
def test_an_option_that_is_wrong_is_said_and_nothing_starts(
    model: Path, started: list[Any], options: list[str], message: str
) -> None:
    assert message in laconic("serve", model, *options, code=2)
    assert not started


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "the file is empty, but should hold the token"), ("two words", "must be printable ASCII without spaces")],
)
def test_a_token_that_cannot_be_used_is_said_but_not_shown(
    model: Path, started: list[Any], tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "token").write_text(content)
    complained = laconic("serve", model, "--token-file", tmp_path / "token", code=2)
    assert message in complained
    assert not content or content not in complained


def test_what_serving_needs_is_named_where_it_is_not_installed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "granian", None)
    monkeypatch.delitem(sys.modules, "laconic.serve.server", raising=False)
    complained = laconic("serve", model, code=2)
    assert "laconic serve needs granian, which is not installed; pip install '.' in a checkout" in complained


def test_what_is_no_model_is_said(tmp_path: Path) -> None:
    assert "this is not a model folder: it has no manifest.json" in laconic("serve", tmp_path, "--port", 0, code=2)
    (tmp_path / "manifest.json").write_text("{")
    assert "manifest.json: it is not JSON" in laconic("serve", tmp_path, "--port", 0, code=2)


def test_a_port_that_is_taken_is_said(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        complained = laconic("serve", model, "--port", port, code=2)
    assert f"127.0.0.1:{port} cannot be used" in complained
    assert "choose another --host or --port" in complained
