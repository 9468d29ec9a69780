"""GET: an object's bytes as DATA frames, in pieces that keep the memory of all readers together within a budget.

Reads go through the store piece by piece, so that a slow reader holds one piece and nothing else, and the size of an
object does not matter. Follow goes on as the object grows, until STOP.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.limits import OFFSET_MAX
from sos_client.wire.messages import GetEnd
from sos_server.storage.object_layout import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sos_client.wire.connection import Connection
    from sos_client.wire.messages import Get
    from sos_server.service.metrics import Traffic
    from sos_server.service.outgoing import Outgoing
    from sos_server.store.namespace import Namespace

PIECE_BYTES_MAX: Final = 512 * 1024
"""What the store reads in one call: it fits the processor's cache, and the peer takes one while the next is read."""
PIECE_BYTES_MIN: Final = 64 * 1024
PIECES_LEFT: Final = 16
"""A piece is at most this part of what is free, so that readers that come later find something, too."""
KEPT_MAX: Final = 4
"""Pieces' memory that is kept for the next ones: getting it fresh costs as much as reading into it."""


class ReadShare:
    """The memory that all readers share: the more of it pieces hold that are being sent, the smaller the next ones.

    Half of it is for pieces above `PIECE_BYTES_MIN`. So all together are within `bytes_max` as long as that least piece
    for every reader is within the other half, and beyond that each reader adds no more than one such piece.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._held_bytes = 0
        self._kept: list[memoryview] = []

    @contextmanager
    def piece(self, wanted_bytes: int) -> Iterator[Piece]:
        """How much of it to read now; in the block, that is held."""
        fair_bytes = (self.bytes_max // 2 - self._held_bytes) // PIECES_LEFT
        length = min(wanted_bytes, PIECE_BYTES_MAX, max(PIECE_BYTES_MIN, fair_bytes))
        if length < wanted_bytes:
            length -= length % CHUNK_BYTES
        piece = Piece(length, self._kept)
        self._held_bytes += length
        try:
            yield piece
        finally:
            self._held_bytes -= length
            piece.give_back()


class Piece:
    """This many bytes, and memory for them if they are not in memory of their own, as those in the log are."""

    def __init__(self, length: int, kept: list[memoryview]) -> None:
        self.length = length
        self._kept = kept
        self._memory: memoryview | None = None

    def memory(self, length: int) -> memoryview:
        """Good until the piece is over."""
        if length < PIECE_BYTES_MAX:
            return memoryview(bytearray(length))
        self._memory = self._kept.pop() if self._kept else memoryview(bytearray(length))
        return self._memory

    def give_back(self) -> None:
        if self._memory is not None and len(self._kept) < KEPT_MAX:
            self._kept.append(self._memory)


class Reading:
    """One GET on one connection."""

    def __init__(
        self, namespace: Namespace, request: Get, connection: Connection, outgoing: Outgoing, share: ReadShare
    ) -> None:
        self._namespace = namespace
        self._request = request
        self._connection = connection
        self._outgoing = outgoing
        self._share = share
        self._number: int | None = None
        self._offset = request.offset
        self._end = OFFSET_MAX
        self._waiting: trio.CancelScope | None = None
        self._stopped = False
        self._ended = False

    async def run(self, traffic: Traffic, *, go_on: Callable[[], bool]) -> None:
        """Send it all and GET_END. RefusedError when the object cannot be read (any further).

        ``go_on`` is asked between pieces; when it says no, nothing more is sent, GET_END neither.
        """
        request = self._request
        self._number, size = self._namespace.number_and_size(request.object)
        if self._offset > size:
            raise RefusedError(ErrorCode.RANGE, size=size)
        if request.length is not None:
            self._end = request.offset + request.length
        if not request.follow:
            self._end = min(self._end, size)  # what it grows by from now on is not part of the answer
        while go_on():
            sent = await self._send_piece(traffic, go_on)
            if not sent and not await self._more_to_come() and go_on():
                await self._outgoing.send(self._end_frame())
            if self._ended:
                return

    def stop(self) -> None:
        """STOP has come, or the connection ends: wait for nothing more to come, send nothing more but GET_END."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()

    def _size(self) -> int:
        """What the object has now. NOT_FOUND when it is gone, even if another one has got its name by now."""
        number, size = self._namespace.number_and_size(self._request.object)
        if number != self._number:
            sentence = "the object has been deleted while it was read"
            raise RefusedError(ErrorCode.NOT_FOUND, sentence, what="object", name=self._request.object)
        return size

    def _end_frame(self) -> bytes:
        self._ended = True
        return self._connection.send(GetEnd(next_offset=self._offset))

    async def _send_piece(self, traffic: Traffic, go_on: Callable[[], bool]) -> bool:
        """Send what there is, up to a piece, and GET_END with the last one. False when there is nothing (more) now."""
        size = self._size()
        wanted_bytes = min(size, self._end) - self._offset
        if wanted_bytes <= 0 or self._stopped:
            return False
        before_bytes = self._offset % CHUNK_BYTES  # read to verify the chunk: later pieces begin with one
        with self._share.piece(before_bytes + wanted_bytes) as piece:
            length = piece.length - before_bytes
            content, crc = await self._namespace.read(self._request.object, self._offset, length, piece.memory)
            header = self._connection.send_data(content, crc=crc)
            self._offset += len(content)
            after = self._end_frame() if self._offset >= self._end and go_on() else b""
            await self._outgoing.send(header, content, after)
        traffic.read_bytes += len(content)
        return True

    async def _more_to_come(self) -> bool:
        """With follow, wait until the object has grown. False when no byte can come any more, or after STOP."""
        if self._stopped or self._offset >= self._end:
            return False
        if self._size() <= self._offset and self._namespace.stat(self._request.object).sealed:
            return False
        with trio.CancelScope() as self._waiting:
            await self._namespace.wait_growth(self._request.object, self._offset)
        self._waiting = None
        return not self._stopped
