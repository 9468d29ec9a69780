"""Blocks of messages, as FORMAT.md says: what came in between two commits, with the sequence numbers it got.

Pure.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from connectors.wire.codec import MESSAGE_COUNTED_BYTES, MESSAGE_HEAD, decode
from connectors.wire.frames import FrameType, NotifyFrame
from journal.errors import JournalCode, damaged, journal_error
from sos_client.wire.errors import ProtocolError
from sos_client.wire.limits import LENGTH_BYTES, TYPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from connectors.ingest.known_streams import KnownStreams

MAGIC: Final = b"SOSm"
VERSION: Final = 1
_HEAD: Final = Struct(">4sB3xIIQQ")
HEAD_BYTES: Final = _HEAD.size
_FRAME: Final = Struct(">IB")
_MESSAGE: Final = int(FrameType.MESSAGE)
_NOTIFY: Final = int(FrameType.NOTIFY)

assert HEAD_BYTES == 32


class Block(NamedTuple):
    """Where a block lies in what was read, and what it has."""

    first_sequence: int
    rows: int
    received_ms: int
    frames: memoryview

    @property
    def end_sequence(self) -> int:
        return self.first_sequence + self.rows

    @property
    def size(self) -> int:
        """With its head."""
        return HEAD_BYTES + len(self.frames)


def block_head(*, first_sequence: int, rows: int, received_ms: int, frames_bytes: int) -> bytes:
    """What stands before the frames of a block."""
    return _HEAD.pack(MAGIC, VERSION, frames_bytes, rows, first_sequence, received_ms)


def received_ms_of(head: bytes) -> int:
    """When the frames after this head were received. DAMAGED if this is not a head."""
    if len(head) != HEAD_BYTES or not head.startswith(MAGIC):
        raise damaged(f"a block of messages that begins with {head[:HEAD_BYTES]!r}")
    received_ms: int = _HEAD.unpack(head)[5]
    return received_ms


def blocks(data: memoryview) -> Iterator[Block]:
    """The blocks that lie whole in data that begins with one."""
    position, end = 0, len(data)
    while position + HEAD_BYTES <= end:
        magic, version, frames_bytes, rows, first_sequence, received_ms = _HEAD.unpack_from(data, position)
        if magic != MAGIC:
            raise damaged(f"no block of messages at byte {position}")
        if version != VERSION:
            raise journal_error(
                JournalCode.TOO_NEW, f"blocks of version {version}: a newer sos-connector wrote them; use that one"
            )
        position += HEAD_BYTES
        if position + frames_bytes > end:
            return
        yield Block(first_sequence, rows, received_ms, data[position : position + frames_bytes])
        position += frames_bytes


def replay(block: Block, streams: KnownStreams) -> None:
    """What the frames of a block say of their streams. DAMAGED when they are not what the head says."""
    frames, position, end, rows = block.frames, 0, len(block.frames), 0
    points = streams.points
    while position + _FRAME.size <= end:
        length, kind = _FRAME.unpack_from(frames, position)
        stop = position + LENGTH_BYTES + length
        if stop > end:
            break
        if kind == _MESSAGE and length >= MESSAGE_COUNTED_BYTES:
            _, _, stream_id, message_id, _, key_bytes = MESSAGE_HEAD.unpack_from(frames, position)
            points[stream_id] = message_id
            rows += length > MESSAGE_COUNTED_BYTES + key_bytes
        elif kind == _NOTIFY:
            _introduce(frames[position + LENGTH_BYTES + TYPE_BYTES : stop], streams)
        else:
            raise damaged(f"a frame of type {kind} in the block of sequence {block.first_sequence}")
        position = stop
    if position != end or rows != block.rows:
        raise damaged(f"the block of sequence {block.first_sequence} is not what its head says")


def _introduce(body: memoryview, streams: KnownStreams) -> None:
    try:
        frame = decode(_NOTIFY, body)
    except ProtocolError as error:
        raise damaged(f"a block with a broken frame: {error}") from None
    assert isinstance(frame, NotifyFrame)
    streams.introduce(frame.stream_id, frame.stream_name)
