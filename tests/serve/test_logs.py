"""Lines of the log, as machines read them."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from laconic.serve.logs import JsonLines, log_settings


def line(message: str, *arguments: Any, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord("laconic.serve", logging.WARNING, "", 1, message, arguments, more.pop("error", None))
    vars(record).update(more)
    written = JsonLines().format(record)
    assert "\n" not in written
    said: dict[str, Any] = json.loads(written)
    return said


def test_a_line_is_one_object_with_what_it_tells() -> None:
    said = line("too %s", "busy", fields={"refused": 3, "folder": __file__})
    assert said["time"].endswith("+00:00")
    assert {name: said[name] for name in ("level", "event", "refused", "folder")} == {
        "level": "warning",
        "event": "too busy",
        "refused": 3,
        "folder": __file__,
    }
    assert said["process"]


def test_whatever_is_told_stays_in_its_line() -> None:
    nasty = 'a "name"\nwith\u2028ends\r\x00 and größe'
    said = line("%s", nasty, fields={"name": nasty, "object": logging})
    assert said["event"] == said["name"] == nasty
    assert "module" in said["object"]


def test_a_mistake_has_its_traceback() -> None:
    try:
        raise ValueError("a mistake")
    except ValueError:
        said = line("failed", error=sys.exc_info())
    assert said["traceback"].endswith("ValueError: a mistake")


def test_our_lines_and_the_servers_go_to_one_place() -> None:
    settings = log_settings("DEBUG")
    assert settings["loggers"]["laconic"] == {"handlers": ["lines"], "level": "DEBUG", "propagate": False}
    assert settings["loggers"]["_granian"]["handlers"] == ["lines"]
    assert settings["disable_existing_loggers"] is False
