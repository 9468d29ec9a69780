"""Whether a peer that owes something moves fast enough: against one byte a minute, and readers that do not read.

Nothing is asked of a peer that owes nothing: an idle connection, or one that waits for this server. One sweep over all
connections every few seconds decides, so that keeping the pace costs nothing per receive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceLimits:
    """In any ``window_seconds`` in which a peer owes bytes all the time, it must move this many bytes a second."""

    window_seconds: float
    bytes_per_second_min: float


class Pace:
    """The pace of one peer. ``bytes_moved`` gives its bytes so far, in both directions."""

    __slots__ = ("_bytes_moved", "_limits", "_window_bytes", "_window_start")

    def __init__(self, limits: PaceLimits, bytes_moved: Callable[[], int]) -> None:
        self._limits = limits
        self._bytes_moved = bytes_moved
        self._window_start: float | None = None
        self._window_bytes = 0

    def too_slow(self, now: float, *, owing: bool) -> bool:
        """To be asked regularly, several times a window, with whether the peer owes bytes at this moment."""
        moved = self._bytes_moved()
        if not owing or self._window_start is None:
            self._window_start = now if owing else None
            self._window_bytes = moved
            return False
        elapsed = now - self._window_start
        if elapsed < self._limits.window_seconds:
            return False
        slow = moved - self._window_bytes < elapsed * self._limits.bytes_per_second_min
        self._window_start, self._window_bytes = now, moved
        return slow
