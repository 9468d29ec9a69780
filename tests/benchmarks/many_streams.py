"""A source with thousands of streams over plain sockets, for what depends on how many there are."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Final

from tests.connectors.wallaroo_source import NOTHING, frame, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEAD: Final = struct.Struct(">IBQQqH")
RUN_MESSAGES: Final = 2000


class ManyStreams:
    """One connection with the streams of these ids open."""

    def __init__(self, port: int, streams: Sequence[int]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._received = bytearray()
        self._credits = 0
        self._acknowledged: dict[int, int] = {}
        hello = b"\0" + short(b"0.0.1") + short(b"") + short(b"many") + short(b"")
        self._socket.sendall(frame(hello))
        self._take()
        self.streams = list(streams)
        for stream_id in self.streams:
            name = short(b"stream %d" % stream_id)
            self._socket.sendall(frame(b"\3" + struct.pack(">Q", stream_id) + name + struct.pack(">Q", NOTHING)))
            self._credits -= 1
        while len(self._acknowledged) < len(self.streams):
            self._take()

    def send(self, first: int, messages: int, payload: bytes) -> None:
        """So many messages of each stream, in turns, until all of them are acknowledged."""
        for run in self._runs(first, messages):
            while self._credits < len(run):
                self._take()
            size = _HEAD.size - 4 + len(payload)
            self._socket.sendall(b"".join(_HEAD.pack(size, 5, s, n, 0, 0) + payload for s, n in run))
            self._credits -= len(run)
        while any(self._acknowledged[stream_id] < first + messages - 1 for stream_id in self.streams):
            self._take()

    def close(self) -> None:
        self._socket.close()

    def _runs(self, first: int, messages: int) -> Iterator[list[tuple[int, int]]]:
        pairs = [(stream_id, n) for n in range(first, first + messages) for stream_id in self.streams]
        return (pairs[start : start + RUN_MESSAGES] for start in range(0, len(pairs), RUN_MESSAGES))

    def _take(self) -> None:
        """One frame of the listener."""
        while len(self._received) < 4 or len(self._received) < 4 + self._length():
            data = self._socket.recv(1 << 18)
            if not data:
                raise RuntimeError("the listener has closed the connection")
            self._received += data
        end = 4 + self._length()
        kind, body = self._received[4], bytes(self._received[5:end])
        del self._received[:end]
        if kind == 1:
            (self._credits,) = struct.unpack(">I", body[:4])
        elif kind == 4:
            accepted, stream_id, point = struct.unpack(">BQQ", body)
            if not accepted:
                raise RuntimeError(f"stream {stream_id} was refused")
            self._acknowledged[stream_id] = -1 if point == NOTHING else point
        elif kind == 6:
            more, count = struct.unpack_from(">II", body)
            self._credits += more
            numbers = struct.unpack_from(f">{2 * count}Q", body, 8)
            points = zip(numbers[::2], numbers[1::2], strict=True)
            self._acknowledged.update((s, point) for s, point in points if point != NOTHING)
        else:
            raise RuntimeError(f"refused: {body[2:]!r}")

    def _length(self) -> int:
        length: int = struct.unpack_from(">I", self._received)[0]
        return length
