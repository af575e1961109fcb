"""What a service may be told, and how a token is read."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Any

import pytest

from laconic.errors import ConfigError
from laconic.serve.settings import Limits, Serving, TimeLimits, read_token

WRONG: list[tuple[type, dict[str, Any], str]] = [
    *((Limits, {name: 0}, f"the limit of {name} must be 1 or more, but is 0") for name in vars(Limits())),
    *(
        (TimeLimits, {name: -1.0}, rf"{name} must be within 0.*\.\.3600 seconds, but is -1")
        for name in vars(TimeLimits())
    ),
    *((TimeLimits, {name: nan}, "but is nan") for name in ("deadline", "look")),
    (TimeLimits, {"deadline": 0.0}, r"deadline must be within 0\.001\.\.3600 seconds, but is 0"),
    (TimeLimits, {"stop": 3601.0}, "but is 3601"),
    (Serving, {"port": 65536}, r"port must be within 0\.\.65535, but is 65536"),
    (Serving, {"port": -1}, "but is -1"),
    (Serving, {"workers": 0}, r"workers must be within 1\.\.1024, but is 0"),
    (Serving, {"queue": 0}, "queue must be within 1"),
    (Serving, {"batch": 0}, "batch must be within 1"),
]


@pytest.mark.parametrize(("kind", "settings", "message"), WRONG)
def test_what_is_outside_its_range_is_said_with_the_range(kind: type, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**settings)


def test_nothing_need_be_drained_or_looked_at() -> None:
    assert (TimeLimits(drain=0.0, look=0.0).drain, TimeLimits(deadline=0.001).deadline) == (0.0, 0.001)


@pytest.mark.parametrize("token", ["two words", "tab\there", "line\nline", "schlüssel", "\x00"])
def test_a_token_that_no_header_can_hold_is_refused_without_being_said(token: str) -> None:
    with pytest.raises(ConfigError, match="the token must be printable ASCII without spaces") as error:
        Serving(token=token)
    assert token not in str(error.value)


def test_settings_that_are_shown_do_not_show_the_token() -> None:
    assert "hush" not in repr(Serving(token="hush"))


def test_where_a_browser_finds_the_service() -> None:
    assert Serving(port=80).url == "http://127.0.0.1:80"
    assert Serving(host="::1", port=80).url == "http://[::1]:80"


def test_a_token_is_a_files_only_line(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("  hush\n")
    assert (read_token(tmp_path / "token"), read_token(None)) == ("hush", "")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "the token cannot be read"), (b" \n", "the file is empty"), (b"\xff\xfe", "the token cannot be read")],
)
def test_a_token_file_without_a_token_is_named(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match=f"token: {message}"):
        read_token(tmp_path / "token")
    with pytest.raises(ConfigError, match="the token cannot be read"):
        read_token(tmp_path)
