"""Structured logs: one JSON object a line, for people with ``jq`` and for collectors.

Each line has ``time``, ``level``, ``event`` (a short fixed text to search for) and the event's own fields. Audit lines
are events at level ``audit``: they are never left out. Metrics and answers to peers do not belong here.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

Write = Callable[[str], object]

WARNINGS_PER_SECOND_MAX: Final = 50
"""A flood of bad peers must not become a full disk: beyond this many warnings a second, they are only counted."""
TRACE_LINES_MAX: Final = 40


class Level(IntEnum):
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    AUDIT = 50


def _to_stderr(line: str) -> None:
    if sys.stderr is None:  # the server was started without
        return
    with contextlib.suppress(OSError):  # a collector that is gone, or a full disk below the log, must not stop a server
        sys.stderr.write(line)
        sys.stderr.flush()


class EventLog:
    """Where the events of one process go. ``clock`` gives seconds since 1970."""

    def __init__(
        self, *, least: Level = Level.INFO, write: Write = _to_stderr, clock: Callable[[], float] = time.time
    ) -> None:
        self.least = least
        self._write = write
        self._clock = clock
        self._second = 0
        self._warnings = 0

    def debug(self, event: str, **fields: object) -> None:
        if self.least <= Level.DEBUG:
            self._line(Level.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        if self.least <= Level.INFO:
            self._line(Level.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """For what peers do wrong: shown up to a number a second, the rest counted."""
        second = int(self._clock())
        if second != self._second:
            left_out, self._second, self._warnings = self._warnings - WARNINGS_PER_SECOND_MAX, second, 0
            if left_out > 0:
                self._line(Level.WARNING, "warnings left out", {"count": left_out})
        self._warnings += 1
        if self._warnings <= WARNINGS_PER_SECOND_MAX:
            self._line(Level.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._line(Level.ERROR, event, fields)

    def mistake(self, event: str, error: Exception, **fields: object) -> None:
        """What nobody foresaw: with the last lines of its traceback, for those who mend it."""
        lines = "".join(traceback.format_exception(error)).splitlines()
        self._line(Level.ERROR, event, {**fields, "trace": "\n".join(lines[-TRACE_LINES_MAX:])})

    def audit(self, event: str, **fields: object) -> None:
        """Who did something that others must be able to find out later."""
        self._line(Level.AUDIT, event, fields)

    def _line(self, level: Level, event: str, fields: dict[str, object]) -> None:
        moment = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        head = {"time": moment.replace("+00:00", "Z"), "level": level.name.lower(), "event": event}
        self._write(json.dumps({**head, **fields}, default=_shown, ensure_ascii=False) + "\n")


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)
