"""A streamed write on its way in: WRITE_OPEN, DATA…, then WRITE_COMMIT or WRITE_CANCEL. One request, one answer.

When it fails before its end, the refusal goes out at once and the rest of the frames is thrown away; the closing frame
then gets no answer. Frames that do not belong (a gap, a size that is not what came) end the connection.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from journal.errors import JournalError
from journal.gateway.wire import messages as m
from journal.volume import PUT_BYTES_MAX
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from journal.volume import StreamedWrite, Volume


class IncomingFile:
    """A file on its way into `volume`; None, or after `forget`: one that was refused, whose frames are thrown away."""

    def __init__(self, volume: Volume | None) -> None:
        self._volume = volume
        self._write: StreamedWrite | None = None
        self._received = 0

    @property
    def refused(self) -> bool:
        """Whether its frames are thrown away."""
        return self._volume is None

    @property
    def held_bytes(self) -> int:
        """At most: what fits one record is not written before there is more of it, or the end."""
        return 0 if self._write is None else min(self._received, PUT_BYTES_MAX)

    async def open(self, request: m.WriteOpenRequest) -> None:
        if self._volume is not None:
            self._write = await self._volume.open_write(
                request.path,
                overwrite=request.overwrite,
                operation=request.stamp.operation,
                claim=request.stamp.claim,
                modified_ms=request.modified_ms,
            )

    async def data(self, data: m.FileData) -> None:
        if data.offset != self._received:
            raise ProtocolError(f"DATA at offset {data.offset}, where {self._received} follows")
        self._received += len(data.payload)
        if self._write is not None:
            await self._write.write(bytes(data.payload))

    async def commit(self, commit: m.WriteCommitRequest) -> m.StatusAnswer | None:
        """The answer, or None if there was one before."""
        if commit.size != self._received:
            raise ProtocolError(f"WRITE_COMMIT of {commit.size} bytes after {self._received} came")
        if self._write is None or self._volume is None:
            return None
        write, self._write = self._write, None  # from here on it may be there: it must not be cancelled
        status = await write.commit()
        return m.StatusAnswer(epoch=self._volume.epoch, status=status)

    async def cancel(self) -> m.DoneAnswer | None:
        """The answer, or None if there was one before."""
        if self._write is None or self._volume is None:
            return None
        write, self._write = self._write, None
        await write.cancel()
        return m.DoneAnswer(epoch=self._volume.epoch, applied=True)

    async def forget(self) -> None:
        """It was refused: drop what came and what will come."""
        await self.abandon()
        self._write = self._volume = None

    async def abandon(self) -> None:
        """Drop what came. A volume that cannot even do that has lost its owner, and with that the file."""
        write, self._write = self._write, None
        if write is not None:
            with suppress(JournalError):
                await write.cancel()
