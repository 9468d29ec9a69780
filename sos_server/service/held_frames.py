"""The memory that frames which have not come whole take, for all connections together.

One frame may have megabytes, and who may append may leave one unfinished on each connection. Where they take too much,
the one that has been coming for longest is given up, with its connection: what a client sends is whole after moments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.limits import DATA_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    GiveUp = Callable[[RefusedError], None]

HELD_BYTES_MAX: Final = 32 << 20
"""128 frames of the size that the project's own clients send, nearly whole, at the same moment."""

assert HELD_BYTES_MAX >= 16 * DATA_BYTES


class HeldFrames:
    """Who holds how much, in the order in which their frames began."""

    def __init__(self, bytes_max: int = HELD_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: dict[GiveUp, int] = {}
        self.held_bytes = 0

    def hold(self, give_up: GiveUp, held_bytes: int) -> None:
        """What this connection, which ``give_up`` ends, holds now. May give up another one, or this."""
        before = self._held.get(give_up, 0)
        if held_bytes < before:  # that frame is over
            del self._held[give_up]
        if held_bytes:
            self._held[give_up] = held_bytes
        self.held_bytes += held_bytes - before
        while self.held_bytes > self._bytes_max:
            oldest = next(iter(self._held))
            self.held_bytes -= self._held.pop(oldest)
            oldest(RefusedError(ErrorCode.LIMIT, what="memory for frames that have begun"))
