"""What an append has taken from its caller and the server has not synced yet, kept to be sent again if need be.

Pure. It also knows the CRC32C of the whole object at any offset from the synced one on, by which a resumed append
proves that the server's bytes are the ones that were sent.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator

Piece = bytes | memoryview


class UnsyncedBytes:
    """The object's bytes from `start` (synced) to `end`. `prefix_crc` None: the CRC before them was never known."""

    def __init__(self, *, start: int, prefix_crc: int | None) -> None:
        self.start = start
        self.end = start
        self.start_crc = prefix_crc
        self._end_crc = prefix_crc
        self._pieces: deque[tuple[Piece, int | None]] = deque()  # with the object's CRC after each

    def add(self, piece: Piece) -> None:
        """Take bytes that come next. They are kept as they are, so they must not change."""
        if self._end_crc is not None:
            self._end_crc = crc32c(piece, self._end_crc)
        self._pieces.append((piece, self._end_crc))
        self.end += len(piece)

    def release(self, synced: int) -> None:
        """Forget what lies before `synced`, which is between `start` and `end`."""
        assert self.start <= synced <= self.end
        while self.start < synced:
            piece, crc_behind = self._pieces.popleft()
            beyond = self.start + len(piece) - synced
            if beyond > 0:
                view = memoryview(piece)
                self._pieces.appendleft((view[-beyond:], crc_behind))
                if self.start_crc is not None:
                    self.start_crc = crc32c(view[:-beyond], self.start_crc)
                self.start = synced
                return
            self.start += len(piece)
            self.start_crc = crc_behind

    def crc_at(self, offset: int) -> int | None:
        """CRC32C of the object's first `offset` bytes (between `start` and `end`); None if it was never known."""
        assert self.start <= offset <= self.end
        crc, position = self.start_crc, self.start
        for piece, crc_behind in self._pieces:
            if position + len(piece) > offset:
                return None if crc is None else crc32c(memoryview(piece)[: offset - position], crc)
            crc, position = crc_behind, position + len(piece)
        return crc

    def __iter__(self) -> Iterator[Piece]:
        return (piece for piece, _ in self._pieces)
