"""The answer to READ: the file's status, its bytes, the end, in as few sends as possible."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, UnavailableError, refused
from journal.gateway.wire import messages as m
from journal.gateway.wire.encoding import encode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from journal.volume import FileStatus, Volume

SEND_BYTES: Final = 64 * 1024
"""What has gathered is sent from here on: a small file leaves in one piece, a large one does not pile up."""
ATTEMPTS_MAX: Final = 16
"""A file that is replaced again and again while a read begins is left alone for a moment."""


async def outgoing(volume: Volume, request: m.ReadRequest) -> AsyncGenerator[bytes, None]:
    """The answer's frames, in pieces to send. JournalError before the first piece, or in place of a later one."""
    for _ in range(ATTEMPTS_MAX):
        status = await _wanted(volume, request)
        async with aclosing(volume.read(request.path, request.offset, request.length)) as pieces:
            first = [await anext(pieces, b"")]
            if (await volume.stat(request.path)).modified_ms != status.modified_ms:
                continue  # replaced between the status and the first piece: they must be of one file
            async for gathered in _gathered(volume, request, status, first, pieces):
                yield gathered
            return
    raise UnavailableError(JournalCode.UNAVAILABLE, f"{request.path} is being replaced all the time; try again")


async def _wanted(volume: Volume, request: m.ReadRequest) -> FileStatus:
    status = await volume.stat(request.path)
    if status.is_directory:
        raise refused(JournalCode.IS_DIRECTORY, f"{request.path} is a directory", path=request.path)
    if request.modified_ms not in (None, status.modified_ms):
        raise refused(
            JournalCode.CHANGED,
            f"{request.path} was replaced while it was read",
            path=request.path,
            modified_ms=status.modified_ms,
        )
    return status


async def _gathered(
    volume: Volume, request: m.ReadRequest, status: FileStatus, first: list[bytes], rest: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    frames = [encode(m.StatusAnswer(epoch=volume.epoch, status=status))]
    gathered_bytes = 0
    offset = request.offset
    piece = first.pop()
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
        piece = await anext(rest, b"")
    frames.append(encode(m.ReadEndAnswer(epoch=volume.epoch, next_offset=offset)))
    yield b"".join(frames)
