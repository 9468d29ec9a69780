"""The answer to READ: the file's status, its bytes, the end, in as few sends as possible."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, refused
from journal.gateway.wire import messages as m
from journal.gateway.wire.encoding import encode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from journal.volume import FileStatus, Volume

SEND_BYTES: Final = 64 * 1024
"""What has gathered is sent from here on: a small file leaves in one piece, a large one does not pile up."""


async def outgoing(volume: Volume, request: m.ReadRequest) -> AsyncGenerator[bytes, None]:
    """The answer's frames, in pieces to send. JournalError before the first piece, or in place of a later one."""
    status, pieces = await volume.open_read(request.path, request.offset, request.length)
    async with aclosing(pieces):
        if request.modified_ms not in (None, status.modified_ms):
            raise refused(
                JournalCode.CHANGED,
                f"{request.path} was replaced while it was read",
                path=request.path,
                modified_ms=status.modified_ms,
            )
        async for gathered in _gathered(volume, request, status, pieces):
            yield gathered


async def _gathered(
    volume: Volume, request: m.ReadRequest, status: FileStatus, pieces: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    frames = [encode(m.StatusAnswer(epoch=volume.epoch, status=status))]
    gathered_bytes = 0
    offset = request.offset
    piece = await anext(pieces, b"")
    while piece:
        frames.append(encode(m.FileData(offset=offset, payload=piece)))
        offset += len(piece)
        gathered_bytes += len(piece)
        piece = b""  # a slow peer makes this wait with what it sends, and nothing besides
        if gathered_bytes >= SEND_BYTES:
            gathered, frames = b"".join(frames), []
            yield gathered
            del gathered
            gathered_bytes = 0
        piece = await anext(pieces, b"")
    frames.append(encode(m.ReadEndAnswer(epoch=volume.epoch, next_offset=offset)))
    yield b"".join(frames)
