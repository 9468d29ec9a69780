"""Writing a range of an open file whole: through the page cache, or past it when it is large. Only `disk.py` uses it.

Bytes of the log that are copied to an object's file are seldom read soon, and memory for them has to be found first:
64 MiB took 160 ms of processor time through the cache, on a virtual machine that had to ask for its memory, and take
40 ms past it. Appends that wait for a free log file wait for that. Nothing here syncs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

Buffer = bytes | bytearray | memoryview

# Linux takes at most 1,024 buffers in one pwritev.
BUFFERS_PER_WRITE_MAX: Final = 1024
# What direct writes are aligned to: no less than any disk's blocks and the machine's pages.
BLOCK_BYTES: Final = 4096
# Less is not worth waiting for the disk, which every direct write does.
DIRECT_BYTES_MIN: Final = 256 << 10
# One direct write: half of what is fastest, so that whoever wants to sync meanwhile waits for less.
SCRATCH_BYTES: Final = 256 << 10
# One direct write from where the bytes are already, for somebody who waits. With 256 KiB each it has 0.65 of the speed.
ALIGNED_WRITE_BYTES: Final = 1 << 20
# No write in the background waits longer for syncs before it begins.
TURN_SECONDS_MAX: Final = 0.002


class Turns:
    """Lets large writes in the background begin between the syncs that someone waits for, and not beside them.

    A disk does one thing after the other: a sync that finds a direct write under way waits for it once for its own
    write, and for the next one of the kind once more for its flush. With 64 appends in flight on one connection, and
    copying beside them, syncs took 236 microseconds instead of 331, and 134,000 appends a second were taken
    instead of 120,000.
    """

    def __init__(self) -> None:
        self._syncing = threading.Lock()

    def begin_sync(self) -> bool:
        """Before a write and its sync: never waits. What it returns is for `end_sync`."""
        return self._syncing.acquire(blocking=False)

    def end_sync(self, begun: bool) -> None:  # noqa: FBT001
        if begun:
            self._syncing.release()

    def await_turn(self) -> None:
        """To be called before a write in the background."""
        if self._syncing.acquire(timeout=TURN_SECONDS_MAX):
            self._syncing.release()


def write_fully(descriptor: int, offset: int, buffers: Sequence[Buffer]) -> None:
    """One pwritev, unless there are more buffers than it takes or the disk takes less than all."""
    for start in range(0, len(buffers), BUFFERS_PER_WRITE_MAX):
        part = buffers[start : start + BUFFERS_PER_WRITE_MAX]
        wanted = sum(map(len, part))
        written = os.pwritev(descriptor, part, offset)
        if written < wanted:
            _write_rest(descriptor, offset, memoryview(b"".join(part)), written)
        offset += wanted


def _write_rest(descriptor: int, offset: int, data: memoryview, written: int) -> None:
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], offset + written)


class LargeWriter:
    """Writes ranges of files; the whole blocks of large ones past the page cache, if the file system can.

    What is left at the ends shares blocks with other bytes, and goes through the cache. Not for two threads at once.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._scratch: memoryview | None = None  # mapped, so that it begins where a page does

    def write(self, descriptor: int, offset: int, buffers: Sequence[Buffer]) -> None:
        end = offset + sum(map(len, buffers))
        start, stop = -(-offset // BLOCK_BYTES) * BLOCK_BYTES, end // BLOCK_BYTES * BLOCK_BYTES
        if stop - start < DIRECT_BYTES_MIN:
            write_fully(descriptor, offset, buffers)
            return
        if len(buffers) == 1 and (start, stop) == (offset, end) and _is_aligned(buffers[0]):
            self._write_aligned(descriptor, start, memoryview(buffers[0]))
            return
        left = deque(memoryview(buffer) for buffer in buffers)
        if start > offset:
            head = memoryview(bytearray(start - offset))
            _fill(head, left)
            write_fully(descriptor, offset, [head])
        self._write_blocks(descriptor, start, stop, left)
        if left:
            write_fully(descriptor, stop, list(left))

    def _write_aligned(self, descriptor: int, start: int, content: memoryview) -> None:
        try:
            _set_direct(descriptor, direct=True)
            for place in range(0, len(content), ALIGNED_WRITE_BYTES):
                self._turns.await_turn()
                _write_direct(descriptor, start + place, content[place : place + ALIGNED_WRITE_BYTES])
        finally:
            _set_direct(descriptor, direct=False)

    def _write_blocks(self, descriptor: int, start: int, stop: int, left: deque[memoryview]) -> None:
        if self._scratch is None:
            self._scratch = memoryview(mmap.mmap(-1, SCRATCH_BYTES))
        try:
            _set_direct(descriptor, direct=True)
            while start < stop:
                part = self._scratch[: stop - start]
                _fill(part, left)
                self._turns.await_turn()
                _write_direct(descriptor, start, part)
                start += len(part)
        finally:
            _set_direct(descriptor, direct=False)


def _write_direct(descriptor: int, offset: int, part: memoryview) -> None:
    """What a file system does not take directly, it gets through the cache."""
    try:
        written = os.pwrite(descriptor, part, offset)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        written = 0
    if written < len(part):
        _set_direct(descriptor, direct=False)
        _write_rest(descriptor, offset, part, written)


def _is_aligned(buffer: Buffer) -> bool:
    """Whether a disk can take it from where it is."""
    view = memoryview(buffer)
    return not view.readonly and ctypes.addressof(ctypes.c_char.from_buffer(view)) % BLOCK_BYTES == 0


def _set_direct(descriptor: int, *, direct: bool) -> None:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    with contextlib.suppress(OSError):  # a file system that cannot
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)


def _fill(target: memoryview, left: deque[memoryview]) -> None:
    """Move the first bytes of what is left to the target, until it is full."""
    filled = 0
    while filled < len(target):
        piece = left.popleft()
        room = len(target) - filled
        if len(piece) > room:
            left.appendleft(piece[room:])
            piece = piece[:room]
        target[filled : filled + len(piece)] = piece
        filled += len(piece)
