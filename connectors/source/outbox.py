"""The messages of one stream that are not acknowledged: those still to be sent, and those on their way.

Pure. After a new connection, what was on its way is sent again, but for what turns out to have arrived.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from connectors.wire.limits import NOTHING_SEEN
from sos_client.wire.errors import MisuseError, ProtocolError


class Unacknowledged(NamedTuple):
    """A message as a frame."""

    message_id: int
    frame: bytes


class Outbox:
    """In order of ids. `point` is the last acknowledged one, -1 at first."""

    def __init__(self) -> None:
        self.point = -1
        self.held_bytes = 0
        self._to_send: deque[Unacknowledged] = deque()
        self._flying: deque[Unacknowledged] = deque()
        self._last_id = -1

    @property
    def empty(self) -> bool:
        """Whether everything is acknowledged."""
        return not self._to_send and not self._flying

    @property
    def waits_to_be_sent(self) -> bool:
        return bool(self._to_send)

    def add(self, message_id: int, frame: bytes) -> bool:
        """Whether it has to be sent: not if it has been acknowledged before. MisuseError for ids that do not grow."""
        if message_id <= self._last_id or message_id == NOTHING_SEEN:
            raise MisuseError(f"message id {message_id} after {self._last_id}: the ids of a stream must grow")
        self._last_id = message_id
        if message_id <= self.point:
            return False
        self._to_send.append(Unacknowledged(message_id, frame))
        self.held_bytes += len(frame)
        return True

    def take(self, count: int) -> list[bytes]:
        """At most this many frames to send now."""
        frames: list[bytes] = []
        while self._to_send and len(frames) < count:
            message = self._to_send.popleft()
            self._flying.append(message)
            frames.append(message.frame)
        return frames

    def acknowledge(self, point: int) -> int:
        """Everything up to `point` has arrived for good; how many bytes that frees. ProtocolError if it goes back."""
        if point == NOTHING_SEEN:
            point = -1
        if point < self.point:
            raise ProtocolError(f"point of reference {point} after {self.point}: the listener has lost something")
        self.point = point
        freed = 0
        for waiting in (self._flying, self._to_send):
            while waiting and waiting[0].message_id <= point:
                freed += len(waiting.popleft().frame)
        self.held_bytes -= freed
        return freed

    def fly_again(self) -> None:
        """The connection was lost: what was on its way has to be sent again."""
        self._to_send.extendleft(reversed(self._flying))
        self._flying.clear()
