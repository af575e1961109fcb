"""Logs as JSON objects, one per line, on the standard error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

LOG = "laconic.serve"
_KEYS = "fields"  # what else a line says, as a dict: log.info("stopped", extra={"fields": {...}})


class JsonLines(logging.Formatter):
    """Formats a record as {"time": ..., "level": ..., "event": ..., and the record's own fields}."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "process": record.process,
            **getattr(record, _KEYS, {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_settings(level: str = "INFO") -> dict[str, Any]:
    """Return settings for logging.config that cover our lines and granian's."""
    one = {"handlers": ["lines"], "level": level, "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": JsonLines}},
        "handlers": {"lines": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "loggers": {"laconic": one, "_granian": {**one, "level": "WARNING"}, "granian.access": one},
    }
