"""The server's log: one JSON object per line, in a file of bounded size; a full disk does no harm."""

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

_OLD_FILES = 3


class JsonLines(logging.Formatter):
    """{"time", "level", "logger", "message", ...}; `extra={"fields": {...}}` of a record is merged in."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class LogFile(RotatingFileHandler):
    """Appends to `path`, three older files beside it. What cannot be written is counted and said once on stderr."""

    def __init__(self, path: Path, max_bytes: int):
        super().__init__(path, maxBytes=max_bytes, backupCount=_OLD_FILES, encoding="utf-8")
        self.on_failure: Callable[[], None] = lambda: None
        self._said = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        self.on_failure()
        if not self._said:
            self._said = True
            reason = sys.exc_info()[1]
            sys.stderr.write(f"The log file {self.baseFilename} cannot be written: {reason}; the server goes on.\n")


def set_up(path: Path | None, max_bytes: int) -> LogFile | None:
    """Every record to the file; without one, warnings and worse to stderr. Returns the file's handler."""
    file = None if path is None else LogFile(path, max_bytes)
    handler = file or logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING if path is None else logging.INFO, handlers=[handler])
    return file
