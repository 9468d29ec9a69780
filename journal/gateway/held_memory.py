"""What connections hold that are in the middle of something: one budget over all of them.

Frames that have begun and not ended, frames that wait for room in the volume, the beginnings of streamed writes, and
answers that nobody reads stay in memory for as long as a client likes. Beyond the budget a connection is given up: of
the token whose connections hold most, the one that has not grown for longest. So who opens many of them loses his own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

HELD_BYTES_MAX: Final = 48 * 1024 * 1024
"""Room for 16 connections with all that one may hold, and for thousands as they usually are."""
HELD_BYTES_MIN: Final = 4 * 1024
"""Less is not counted: nearly every frame is smaller, and all connections together hold 16 MiB of it at most."""


class Holder(Protocol):
    """A connection that can be given up."""

    def give_up_memory(self) -> None:
        """End, and tell the peer that it may try again."""


class HeldMemory:
    """Counts what each connection holds; `hold` may end one of them."""

    def __init__(self, *, bytes_max: int = HELD_BYTES_MAX) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._totals: Counter[Hashable] = Counter()
        self._held: dict[Hashable, dict[Holder, int]] = {}  # by whose they are; the one that grew last is the last

    def hold(self, holder: Holder, whose: Hashable, size: int) -> None:
        """It holds this many bytes now; 0 when it holds nothing."""
        self._forget(holder, whose)
        if size < HELD_BYTES_MIN:
            return
        self._held.setdefault(whose, {})[holder] = size
        self._totals[whose] += size
        self.bytes += size
        while self.bytes > self._bytes_max:
            most = max(self._totals, key=self._totals.__getitem__)
            longest = next(iter(self._held[most]))
            self._forget(longest, most)
            longest.give_up_memory()

    def _forget(self, holder: Holder, whose: Hashable) -> None:
        holders = self._held.get(whose)
        size = holders.pop(holder, 0) if holders else 0
        if size:
            self.bytes -= size
            self._totals[whose] -= size
            if not holders:
                del self._held[whose], self._totals[whose]
