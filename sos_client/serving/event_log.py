"""Structured logs: one JSON object a line, for people with ``jq`` and for collectors.

Each line has ``time``, ``level``, ``event`` (a short fixed text to search for) and the event's own fields. Audit lines
are events at level ``audit``. What was done is never left out; what anybody can cause without a right (warnings,
refusals) is bounded and the rest counted. A log that nobody reads loses lines, counted, and stops nothing. Metrics and
answers to peers do not belong here.
"""

from __future__ import annotations

import json
import time
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

from sos_client.printable import printable
from sos_client.serving.recent_events import RecentEvents
from sos_client.serving.stderr_lines import StderrLines

Write = Callable[[str], object]
"""False: the line was dropped."""

WARNINGS_PER_SECOND_MAX: Final = 50
"""A flood of bad peers must not become a full disk: beyond this many warnings a second, they are only counted."""
WARNINGS_PER_MINUTE_MAX: Final = 300
"""As long as the flood lasts: at 300 bytes each 130 MB a day."""
REFUSALS_PER_MINUTE_MAX: Final = 120
REFUSALS_PER_PEER_MAX: Final = 10
"""So that one host that tries tokens does not hide another that does."""
TRACE_LINES_MAX: Final = 40


class Level(IntEnum):
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    AUDIT = 50


class Bound:
    """This many in each stretch of time, in all and for each peer; the others are counted."""

    def __init__(self, *, seconds: int, in_all: int, per_peer: int | None = None) -> None:
        self._seconds = seconds
        self._in_all = in_all
        self._per_peer = in_all if per_peer is None else per_peer
        self._stretch = 0
        self._shown = 0
        self._peers: Counter[str] = Counter()  # no more of them than are shown in all
        self._left_out = 0

    def ended(self, now: float) -> int:
        """How many were left out in the stretch that is over, when there is a new one; else 0."""
        stretch = int(now) // self._seconds
        if stretch == self._stretch:
            return 0
        left_out, self._stretch, self._shown, self._left_out = self._left_out, stretch, 0, 0
        self._peers.clear()
        return left_out

    def takes(self, peer: str) -> bool:
        """Whether one more may be shown now."""
        if self._shown >= self._in_all or self._peers[peer] >= self._per_peer:
            self._left_out += 1
            return False
        self._shown += 1
        self._peers[peer] += 1
        return True


class EventLog:
    """Where the events of one process go. ``clock`` gives seconds since 1970."""

    def __init__(
        self, *, least: Level = Level.INFO, write: Write | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """`write` takes a line, and answers False when it had to drop it; without one, lines go to standard error."""
        self.least = least
        self.lines_lost = 0
        """Dropped because nobody took them."""
        self.lines_left_out = 0
        """Of warnings and refusals beyond their bounds."""
        self.recent = RecentEvents()
        self._write = write or StderrLines()
        self._clock = clock
        self._lost_untold = 0
        self._second = Bound(seconds=1, in_all=WARNINGS_PER_SECOND_MAX)
        self._minute = Bound(seconds=60, in_all=WARNINGS_PER_MINUTE_MAX)
        self._refusals = Bound(seconds=60, in_all=REFUSALS_PER_MINUTE_MAX, per_peer=REFUSALS_PER_PEER_MAX)

    def debug(self, event: str, **fields: object) -> None:
        if self.least <= Level.DEBUG:
            self._line(Level.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        if self.least <= Level.INFO:
            self._line(Level.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """For what peers do wrong: shown up to a number a second and a minute, the rest counted."""
        self._bounded(Level.WARNING, event, "", (self._second, self._minute), fields)

    def refused(self, event: str, *, peer: str, **fields: object) -> None:
        """An audit line about somebody who was turned away: shown up to a number a minute, in all and for each host."""
        host = peer.rpartition(":")[0] or peer
        self._bounded(Level.AUDIT, event, host, (self._refusals,), {"peer": peer, **fields})

    def _bounded(
        self, level: Level, event: str, host: str, bounds: tuple[Bound, ...], fields: dict[str, object]
    ) -> None:
        now = self._clock()
        for bound in bounds:
            if left_out := bound.ended(now):
                what = "warnings left out" if level is Level.WARNING else "refusals left out"
                self._line(level, what, {"count": left_out}, is_refusal=level is Level.AUDIT)
        if all(bound.takes(host) for bound in bounds):
            self._line(level, event, fields, is_refusal=level is Level.AUDIT)
        else:
            self.lines_left_out += 1

    def error(self, event: str, **fields: object) -> None:
        self._line(Level.ERROR, event, fields)

    def mistake(self, event: str, error: Exception, **fields: object) -> None:
        """What nobody foresaw: with the last lines of its traceback, for those who mend it."""
        lines = "".join(traceback.format_exception(error)).splitlines()
        self._line(Level.ERROR, event, {**fields, "trace": "\n".join(lines[-TRACE_LINES_MAX:])})

    def audit(self, event: str, **fields: object) -> None:
        """Who did something that others must be able to find out later."""
        self._line(Level.AUDIT, event, fields)

    def _line(self, level: Level, event: str, fields: dict[str, object], *, is_refusal: bool = False) -> None:
        if level >= Level.WARNING and not is_refusal:
            self.recent.add(self._clock(), level.name.lower(), event, fields)
        if self._lost_untold and self._write(self._text(Level.WARNING, "lines lost", {"count": self._lost_untold})):
            self._lost_untold = 0
        if self._lost_untold or self._write(self._text(level, event, fields)) is False:
            self.lines_lost += 1
            self._lost_untold += 1

    def _text(self, level: Level, event: str, fields: dict[str, object]) -> str:
        moment = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        head = {"time": moment.replace("+00:00", "Z"), "level": level.name.lower(), "event": event}
        return printable(json.dumps({**head, **fields}, default=_shown, ensure_ascii=False)) + "\n"


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)
