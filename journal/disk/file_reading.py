"""Reading a range of an open file: on the spot if that waits for no disk, or whole. Only `disk.py` uses it."""

from __future__ import annotations

import errno
import os
import threading
from typing import Final

# Up to this, copying out of the page cache on the spot (40 microseconds for 1 MiB) is cheaper than a hop to a thread.
CACHED_BYTES_MAX: Final = 1 << 20


class _Scratch(threading.local):
    """Where each thread's reads from the page cache land: fresh memory for each would cost a page fault per 4 KiB."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(CACHED_BYTES_MAX))


_scratch = _Scratch()


def read_cached(descriptor: int, offset: int, length: int) -> bytes | None:
    """The bytes when they are few, all of them in the page cache, and before the end of the file; else None."""
    if length > CACHED_BYTES_MAX:
        return None
    view = _scratch.view[:length]
    return bytes(view) if read_cached_into(descriptor, offset, view) else None


def read_cached_into(descriptor: int, offset: int, buffer: memoryview) -> bool:
    """Whether the buffer has been filled, on those conditions."""
    if len(buffer) > CACHED_BYTES_MAX:
        return False
    try:
        return os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT) == len(buffer)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return False


def read_fully(descriptor: int, offset: int, length: int) -> bytes:
    """All of it, or as far as the file goes."""
    data = os.pread(descriptor, length, offset)
    while len(data) < length and (more := os.pread(descriptor, length - len(data), offset + len(data))):
        data += more
    return data


def read_into(descriptor: int, offset: int, buffer: memoryview) -> int:
    """Fill the buffer, or as much of it as the file has; how much that is."""
    count = 0
    while count < len(buffer) and (more := os.preadv(descriptor, [buffer[count:]], offset + count)):
        count += more
    return count
