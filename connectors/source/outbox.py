"""The messages of one stream that are not acknowledged: those still to be sent, and those on their way.

Pure. After a new connection, what was on its way is sent again, but for what turns out to have arrived.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import lt
from typing import TYPE_CHECKING, Final

from connectors.wire.limits import NOTHING_SEEN
from sos_client.wire.errors import MisuseError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN_MESSAGES_MAX: Final = 512
"""Messages that came one by one are kept, sent and acknowledged up to this many at once."""


class OutgoingRun:
    """Messages that follow each other, as frames: there is no object of Python's for each but its bytes."""

    __slots__ = ("frames", "held_bytes", "ids")

    def __init__(self, ids: list[int], frames: list[bytes]) -> None:
        self.ids = ids
        self.frames = frames
        self.held_bytes = sum(map(len, frames))

    def split(self, count: int) -> OutgoingRun:
        """The first ones, which leave this run."""
        first = OutgoingRun(self.ids[:count], self.frames[:count])
        del self.ids[:count], self.frames[:count]
        self.held_bytes -= first.held_bytes
        return first


class Outbox:
    """In order of ids. `point` is the last acknowledged one, -1 at first."""

    def __init__(self) -> None:
        self.point = -1
        self.held_bytes = 0
        self._to_send: deque[OutgoingRun] = deque()
        self._flying: deque[OutgoingRun] = deque()
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
        self._check_grows(message_id)
        self._last_id = message_id
        if message_id <= self.point:
            return False
        self.held_bytes += len(frame)
        last = self._to_send[-1] if self._to_send else None
        if last is None or len(last.ids) >= RUN_MESSAGES_MAX:
            self._to_send.append(OutgoingRun([message_id], [frame]))
        else:
            last.ids.append(message_id)
            last.frames.append(frame)
            last.held_bytes += len(frame)
        return True

    def add_many(self, ids: Sequence[int], frames: Sequence[bytes]) -> int:
        """As `add` for each, but all or none; how many bytes have to be sent."""
        self._check_grows(ids[0])
        if not all(map(lt, ids, ids[1:])) or ids[-1] >= NOTHING_SEEN:
            raise MisuseError(f"message ids from {ids[0]} to {ids[-1]}: the ids of a stream must grow")
        self._last_id = ids[-1]
        known = bisect_right(ids, self.point)
        if known == len(ids):
            return 0
        run = OutgoingRun(list(ids[known:]), list(frames[known:]))
        self._to_send.append(run)
        self.held_bytes += run.held_bytes
        return run.held_bytes

    def _check_grows(self, message_id: int) -> None:
        if message_id <= self._last_id or message_id == NOTHING_SEEN:
            raise MisuseError(f"message id {message_id} after {self._last_id}: the ids of a stream must grow")

    def take(self, count: int) -> list[bytes]:
        """At most this many frames to send now."""
        frames: list[bytes] = []
        while self._to_send and len(frames) < count:
            left = count - len(frames)
            first = self._to_send[0]
            run = first.split(left) if len(first.ids) > left else self._to_send.popleft()
            self._flying.append(run)
            frames += run.frames
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
            while waiting and waiting[0].ids[-1] <= point:
                freed += waiting.popleft().held_bytes
            if waiting and waiting[0].ids[0] <= point:
                freed += waiting[0].split(bisect_right(waiting[0].ids, point)).held_bytes
        self.held_bytes -= freed
        return freed

    def fly_again(self) -> None:
        """The connection was lost: what was on its way has to be sent again."""
        self._to_send.extendleft(reversed(self._flying))
        self._flying.clear()
