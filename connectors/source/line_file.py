"""A file as a stream of lines that can be read again: each line's id is the offset after it.

So the point of reference of its stream is where to go on. A line ends with a line feed, which is not part of it; what
has none yet is sent when nothing more is expected. Files are read in threads: a slow disk holds nobody up.
"""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from sos_client.wire.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

READ_BYTES: Final = 256 << 10
LINE_BYTES_MAX: Final = 1_000_000
"""A listener takes messages of just below 1 MiB."""
FIRST_LINE_BYTES_MAX: Final = 4096
LOOK_SECONDS: Final = 0.25
"""How often a file that is followed is looked at for more."""
REPLACED_SECONDS: Final = 5.0
"""How long after another file has taken its name its writer may still write to it."""


class LineBlock(NamedTuple):
    """Some lines, one or more, and the offset after each."""

    ends: list[int]
    contents: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """Which file this is, whatever it is called later."""

    device: int
    inode: int


class LineFile:
    """An open file; `lines` from any offset. Close it."""

    def __init__(self, path: Path) -> None:
        """Opens it. OSError."""
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._handle)
        self.identity = FileIdentity(device=status.st_dev, inode=status.st_ino)

    @property
    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def first_line(self) -> bytes | None:
        """What tells a file from the next one, beside its inode; None while that may still grow."""
        first, ended, _ = os.pread(self._handle, FIRST_LINE_BYTES_MAX, 0).partition(b"\n")
        return first if ended or len(first) == FIRST_LINE_BYTES_MAX else None

    def stream_id(self, program: str) -> int:
        """The same for the same file, also after it was renamed in its directory; another one for the next file.

        Of a file whose first line has no end yet, what it has of it counts.
        """
        first = self.first_line()
        if first is None:
            first = os.pread(self._handle, FIRST_LINE_BYTES_MAX, 0)
        place = f"{program}\0{socket.gethostname()}\0{self.path.resolve().parent}\0{self.identity.inode}\0"
        return named_stream_id(place.encode() + first)

    def replaced(self) -> bool:
        """Whether another file has its name now."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return True
        return FileIdentity(device=status.st_dev, inode=status.st_ino) != self.identity

    async def blocks(self, start: int, *, follow: bool) -> AsyncIterator[LineBlock]:
        """Lines that end after `start`, as many at once as were read.

        `follow`: wait for more, until another file has this one's name.
        MisuseError for a file that is shorter than `start`, becomes shorter, or has a line that is too long.
        """
        at, rest = start, b""
        until = float("inf")
        while True:
            data = await trio.to_thread.run_sync(os.pread, self._handle, READ_BYTES, at + len(rest))
            if not data:
                if self.size < at + len(rest):
                    raise MisuseError(
                        f"{self.path} has {self.size} bytes, and {at + len(rest)} were sent of it: it was cut short or "
                        "written again; say --name to send it as another stream"
                    )
                if until == float("inf") and await trio.to_thread.run_sync(self.replaced):
                    until = trio.current_time() + REPLACED_SECONDS
                if follow and trio.current_time() < until:
                    await trio.sleep(LOOK_SECONDS)
                    continue
                if rest:
                    yield LineBlock([at + len(rest)], [rest])
                return
            *whole, rest = (rest + data).split(b"\n")
            sizes = list(map(len, whole))
            too_long = max(sizes, default=0) > LINE_BYTES_MAX
            if too_long:
                good = next(number for number, size in enumerate(sizes) if size > LINE_BYTES_MAX)
                del whole[good:], sizes[good:]
            if whole:
                ends = list(accumulate(map((1).__add__, sizes), initial=at))
                at = ends[-1]
                yield LineBlock(ends[1:], whole)
            if too_long or len(rest) > LINE_BYTES_MAX:
                raise MisuseError(f"{self.path} has a line of more than {LINE_BYTES_MAX:,} bytes at offset {at}")

    def close(self) -> None:
        os.close(self._handle)


def named_stream_id(name: bytes) -> int:
    """A number for what has a name: 63 bits, so that nobody's integers are too small for it."""
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1
