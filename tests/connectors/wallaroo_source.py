"""A source connector that behaves as Wallaroo's does, written from the protocol's document and the vectors alone.

It shares no code with `connectors`. It connects again when it is cut off and then says NOTIFY with 2^64-1, says all its
NOTIFYs at once however few credits there are, and goes on after the point of reference that it is told.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

NOTHING = (1 << 64) - 1


class CutOffError(Exception):
    """The other side ended the connection."""


def short(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


@dataclass
class SourceStream:
    """A stream and all that it will ever say: message n has id n."""

    stream_id: int
    name: bytes
    payloads: list[bytes]
    acknowledged: int = -1
    next_id: int = 0
    open: bool = False
    refused: bool = False


class WallarooSource:
    """One connection at a time. `step` sends what may be sent and takes what has come."""

    def __init__(self, address: tuple[str, int], streams: list[SourceStream], *, cookie: bytes = b"") -> None:
        self._address = address
        self._streams = {stream.stream_id: stream for stream in streams}
        self._cookie = cookie
        self._socket: socket.socket | None = None
        self._received = b""
        self._connections = 0
        self.credits = 0
        self.errors: list[str] = []

    @property
    def done(self) -> bool:
        return all(stream.acknowledged == len(stream.payloads) - 1 for stream in self._streams.values())

    def connect(self, timeout: float = 10.0) -> None:
        """Shake hands, and say all NOTIFYs at once."""
        self.close()
        self._socket = socket.create_connection(self._address, timeout=timeout)
        self._received = b""
        hello = b"\0" + short(b"0.0.1") + short(self._cookie) + short(b"wallaroo") + short(b"instance-1")
        self._send(frame(hello))
        kind, body = self._next_frame()
        if kind == 2:
            raise CutOffError(body[2:].decode())
        assert kind == 1, kind
        self.credits = struct.unpack(">I", body)[0]
        self._connections += 1
        point = 0 if self._connections == 1 else NOTHING
        for stream in self._streams.values():
            stream.open = stream.refused = False
            self._notify(stream, point)

    def _notify(self, stream: SourceStream, point: int) -> None:
        self._send(frame(b"\3" + struct.pack(">Q", stream.stream_id) + short(stream.name) + struct.pack(">Q", point)))
        self.credits = max(0, self.credits - 1)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send_some(self, count: int) -> None:
        """So many messages of each open stream, as far as there are credits."""
        data = []
        for stream in self._streams.values():
            for _ in range(count):
                if not stream.open or self.credits == 0 or stream.next_id >= len(stream.payloads):
                    break
                head = struct.pack(">QQq", stream.stream_id, stream.next_id, 0) + short(b"")
                data.append(frame(b"\5" + head + stream.payloads[stream.next_id]))
                stream.next_id += 1
                self.credits -= 1
        self._send(b"".join(data))

    def take(self) -> None:
        """One frame of the listener."""
        kind, body = self._next_frame()
        if kind == 4:
            accepted, stream_id, point = struct.unpack(">BQQ", body)
            stream = self._streams[stream_id]
            stream.open, stream.refused = bool(accepted), not accepted
            if accepted:
                stream.next_id = 0 if point == NOTHING else point + 1
                stream.acknowledged = max(stream.acknowledged, stream.next_id - 1)
        elif kind == 6:
            more, count = struct.unpack_from(">II", body)
            self.credits += more
            for number in range(count):
                stream_id, point = struct.unpack_from(">QQ", body, 8 + 16 * number)
                stream = self._streams[stream_id]
                assert point == NOTHING or point >= stream.acknowledged, "a point of reference went back"
                if point != NOTHING:
                    stream.acknowledged = point
            for stream in self._streams.values():
                if stream.refused and self.credits:
                    stream.refused = False
                    self._notify(stream, NOTHING)
        elif kind == 7:
            raise CutOffError("RESTART")
        elif kind == 2:
            self.errors.append(body[2:].decode())
            raise CutOffError(self.errors[-1])
        else:
            raise AssertionError(f"a frame of type {kind}")

    def _next_frame(self) -> tuple[int, bytes]:
        while len(self._received) < 4 or len(self._received) < 4 + self._length():
            assert self._socket is not None
            try:
                data = self._socket.recv(1 << 16)
            except (ConnectionError, TimeoutError) as error:
                raise CutOffError(str(error)) from error
            if not data:
                raise CutOffError("closed")
            self._received += data
        end = 4 + self._length()
        body, self._received = self._received[4:end], self._received[end:]
        return body[0], body[1:]

    def _length(self) -> int:
        length: int = struct.unpack_from(">I", self._received)[0]
        return length

    def _send(self, data: bytes) -> None:
        assert self._socket is not None
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise CutOffError(str(error)) from error


def stored_rows(log: bytes) -> list[tuple[int, int, int, bytes]]:
    """What blocks of an ingest volume say, read as its FORMAT.md has it: sequence, stream, id, payload."""
    rows, at = [], 0
    while at < len(log):
        magic, version, size, count, sequence, _ = struct.unpack_from(">4sB3xIIQQ", log, at)
        assert (magic, version) == (b"SOSm", 1)
        at += 32
        end, first = at + size, sequence
        while at < end:
            length, kind = struct.unpack_from(">IB", log, at)
            if kind == 5:
                stream_id, message_id, _, key_bytes = struct.unpack_from(">QQqH", log, at + 5)
                payload = log[at + 31 + key_bytes : at + 4 + length]
                if payload:
                    rows.append((sequence, stream_id, message_id, payload))
                    sequence += 1
            at += 4 + length
        assert at == end
        assert sequence == first + count
    return rows
