"""The last events of a process in memory, for whoever looks at it: bounded, repetitions counted.

What anybody can cause without a right does not push out what was done: warnings have room of their own, and refusals
of strangers are not kept at all (the log has them).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DONE_MAX: Final = 200
WARNINGS_MAX: Final = 50
TEXT_MAX: Final = 300
LEFT_OUT: Final = frozenset({"trace"})
"""For those who mend it: they read the log."""


@dataclass(slots=True, kw_only=True)
class RecentEvent:
    """One event, or the last of several that differ in nothing but their time and number."""

    time: float
    level: str
    event: str
    volume: str | None
    """Of which volume (or namespace) it tells; None: of the process, or of one that it does not name."""
    text: str
    count: int = 1


class RecentEvents:
    """`version` grows with each event."""

    def __init__(self) -> None:
        self._done: deque[RecentEvent] = deque(maxlen=DONE_MAX)
        self._warnings: deque[RecentEvent] = deque(maxlen=WARNINGS_MAX)
        self.version = 0

    def add(self, time: float, level: str, event: str, fields: Mapping[str, object]) -> None:
        """Keep one; with the one before it if it says the same."""
        self.version += 1
        named = fields.get("volume", fields.get("namespace"))
        volume = None if named is None else str(named)
        words = [f"{name} {_shown(value)}" for name, value in fields.items() if name not in LEFT_OUT and value != ""]
        text = ", ".join(words)[:TEXT_MAX]
        kept = self._warnings if level == "warning" else self._done
        last = kept[-1] if kept else None
        if last is not None and (last.level, last.event, last.volume) == (level, event, volume) and level != "audit":
            last.time, last.text, last.count = time, text, last.count + 1
        else:
            kept.append(RecentEvent(time=time, level=level, event=event, volume=volume, text=text))

    def newest_first(self) -> list[RecentEvent]:
        return sorted((*self._done, *self._warnings), key=lambda one: -one.time)


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)
