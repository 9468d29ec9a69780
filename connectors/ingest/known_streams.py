"""All streams that an ingest volume has ever had: their names, and the last message that was taken of each.

Pure. `points` has every stream that is known; -1 where nothing was taken. The format is in FORMAT.md.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from connectors.wire.limits import NOTHING_SEEN
from journal.errors import damaged

STREAMS_KNOWN_MAX: Final = 500_000
"""Of one volume, for all time: about 300 bytes of memory each, twice, and as much of each new file of streams."""
NAMES_CHARACTERS_MAX: Final = 32 << 20

MAGIC: Final = b"SOSn"
VERSION: Final = 1
_HEAD: Final = Struct(">4sB3xQ")
_STREAM: Final = Struct(">QQH")


class KnownStreams:
    """Names and points of reference."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.points: dict[int, int] = {}
        self._names_characters = 0

    @property
    def names_characters(self) -> int:
        """Of all names together."""
        return self._names_characters

    @property
    def full(self) -> bool:
        """Whether no more streams may be made: they stay for ever, in memory and in the volume."""
        return len(self.names) >= STREAMS_KNOWN_MAX or self._names_characters >= NAMES_CHARACTERS_MAX

    def introduce(self, stream_id: int, name: str) -> bool:
        """Whether the stream is new. Its first name is its name."""
        if stream_id in self.names:
            return False
        self.names[stream_id] = name
        self._names_characters += len(name)
        self.points.setdefault(stream_id, -1)
        return True

    def copy(self) -> KnownStreams:
        """The same, apart."""
        copy = KnownStreams()
        copy.names, copy.points, copy._names_characters = dict(self.names), dict(self.points), self._names_characters
        return copy

    def point_of_reference(self, stream_id: int) -> int:
        """As NOTIFY_ACK says it."""
        point = self.points.get(stream_id, -1)
        return NOTHING_SEEN if point < 0 else point


def encode_streams(streams: KnownStreams) -> bytes:
    """The content of a file of `streams`."""
    parts = [_HEAD.pack(MAGIC, VERSION, len(streams.names))]
    for stream_id, name in streams.names.items():
        encoded = name.encode("utf-8")
        parts.append(_STREAM.pack(stream_id, streams.point_of_reference(stream_id), len(encoded)) + encoded)
    return b"".join(parts)


def decode_streams(data: bytes) -> KnownStreams:
    """The same, read. DAMAGED when it is not one."""
    if len(data) < _HEAD.size:
        raise damaged("a file of streams is cut short")
    magic, version, count = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise damaged(f"a file of streams that begins with {magic!r}, version {version}")
    streams, position = KnownStreams(), _HEAD.size
    for _ in range(count):
        if position + _STREAM.size > len(data):
            raise damaged("a file of streams is cut short")
        stream_id, point, name_bytes = _STREAM.unpack_from(data, position)
        position += _STREAM.size + name_bytes
        name = data[position - name_bytes : position].decode("utf-8", "replace")
        if position > len(data) or stream_id in streams.names:
            raise damaged(f"a file of streams is damaged at stream {stream_id}")
        streams.introduce(stream_id, name)
        streams.points[stream_id] = -1 if point == NOTHING_SEEN else point
    if position != len(data):
        raise damaged(f"a file of streams has {len(data) - position} bytes too many")
    return streams
