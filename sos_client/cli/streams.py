"""Standard input and output without holding up the event loop, and without waiting for them once cancelled."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CHUNK_BYTES: Final = 1 << 20
STDIN: Final = 0
STDOUT: Final = 1


async def input_chunks() -> AsyncIterator[bytes]:
    """Standard input in pieces, as they come."""
    while chunk := await trio.to_thread.run_sync(os.read, STDIN, CHUNK_BYTES, abandon_on_cancel=True):
        yield chunk


def input_bytes() -> int | None:
    """How much there is to read, if standard input is a file."""
    status = os.fstat(STDIN)
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_size - os.lseek(STDIN, 0, os.SEEK_CUR)


async def write_output(data: bytes | memoryview) -> None:
    """All of it to standard output. BrokenPipeError when nobody reads it any more."""
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            piece = bytes(view[written:])  # a thread that was abandoned must not see the buffer change
            written += await trio.to_thread.run_sync(os.write, STDOUT, piece, abandon_on_cancel=True)
