"""A large file on its way from a client to a journal service.

Up to REPLAY_BYTES_MAX are kept until the answer, so that a lost connection costs nothing but time. A larger file is
streamed and is not kept: when its connection is lost before the commit, it does not exist, and the caller begins again,
if it still has all of it (WriteCutShortError).
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode, JournalError, WriteCutShortError
from journal.gateway.client.retry_state import AGAIN
from journal.gateway.wire import messages as m
from journal.gateway.wire.answer_checks import check_file
from journal.gateway.wire.limits import CLIENT_SECONDS, PIECE_BYTES_MAX
from journal.volume import PUT_BYTES_MAX
from sos_client.wire.errors import MisuseError, ProtocolError, SosError

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.gateway.client.client import RemoteVolume
    from journal.gateway.client.service_link import ServiceLink
    from journal.volume import Buffer, FileStatus, OperationId

REPLAY_BYTES_MAX: Final = 16 * 1024 * 1024


class RemoteWrite:
    """Implements journal.volume.StreamedWrite. One task at a time."""

    def __init__(self, volume: RemoteVolume, operation: OperationId, opening: Callable[[], m.WriteOpenRequest]) -> None:
        self._volume = volume
        self._operation = operation
        self._opening = opening
        self._kept = bytearray()
        self._size = 0
        self._link: ServiceLink | None = None
        self._holding = AsyncExitStack()
        self._ended = False

    async def write(self, data: Buffer) -> None:
        if self._ended:
            raise MisuseError("the write has been committed or cancelled already")
        await trio.lowlevel.checkpoint()
        with memoryview(data) as view:
            for start in range(0, len(view), PIECE_BYTES_MAX):
                piece = view[start : start + PIECE_BYTES_MAX]
                self._kept += piece
                self._size += len(piece)
                if self._size > REPLAY_BYTES_MAX:
                    await self._stream()

    async def commit(self) -> FileStatus:
        self._ended = True
        if self._link is not None:
            with self._volume.operations.until_answered(self._operation):
                return await self._commit_streamed()
        if self._size <= PUT_BYTES_MAX:
            return (await self._volume.persist_change(self._put, self._operation)).status
        return (await self._volume.persist_change(self._send_all, self._operation)).status

    async def cancel(self) -> None:
        """Closing the connection is enough to cancel what was streamed."""
        if not self._ended:
            self._volume.operations.give_back(self._operation)
        self._ended = True
        self._kept.clear()
        await self._holding.aclose()

    # ── all of it kept ────────────────────────────────────────────────────────────────────────────────────────────

    async def _put(self, link: ServiceLink) -> m.StatusAnswer:
        opening = self._opening()
        put = m.PutRequest(
            path=opening.path,
            overwrite=opening.overwrite,
            stamp=opening.stamp,
            modified_ms=opening.modified_ms,
            payload=bytes(self._kept),
        )
        return await link.ask(put, m.StatusAnswer)

    async def _send_all(self, link: ServiceLink) -> m.StatusAnswer:
        link.usable = False
        await link.send(self._opening())
        with memoryview(self._kept) as content:
            for offset in range(0, self._size, PIECE_BYTES_MAX):
                await link.send(m.FileData(offset=offset, payload=content[offset : offset + PIECE_BYTES_MAX]))
                link.check_early()
        return await self._committed(link)

    async def _committed(self, link: ServiceLink) -> m.StatusAnswer:
        answer = await link.ask(m.WriteCommitRequest(size=self._size), m.StatusAnswer)
        try:
            check_file(self._opening().path, answer.status, self._size)
        except ProtocolError:
            link.usable = False
            raise
        return answer

    # ── streamed ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _stream(self, least: int = PIECE_BYTES_MAX) -> ServiceLink:
        """Send what is kept, in pieces, as long as there are `least` bytes. After an error the file does not exist."""
        try:
            link = await self._streaming_link()
            await self._send_kept(link, least)
        except SosError as error:
            had_begun = self._link is not None
            await self.cancel()
            if isinstance(error, JournalError) and not (had_begun and _is_elsewhere(error)):
                raise
            path = self._opening().path
            raise WriteCutShortError(
                JournalCode.UNAVAILABLE, f"{path} was not written, its connection was lost: begin again ({error})"
            ) from error
        return link

    async def _streaming_link(self) -> ServiceLink:
        if self._link is None:
            await self._volume.ping()  # finds a service that answers, with all patience
            self._link = await self._holding.enter_async_context(self._volume.one_link())
            self._link.usable = False
            await self._link.send(self._opening())
        return self._link

    async def _send_kept(self, link: ServiceLink, least: int) -> None:
        while len(self._kept) >= least:
            piece = bytes(self._kept[:PIECE_BYTES_MAX])
            await link.send(m.FileData(offset=self._size - len(self._kept), payload=piece))
            del self._kept[:PIECE_BYTES_MAX]
            link.check_early()

    async def _commit_streamed(self) -> FileStatus:
        async with self._holding:
            link = await self._stream(least=1)
            try:
                with trio.fail_after(CLIENT_SECONDS):
                    answer = await self._committed(link)
            except (SosError, trio.TooSlowError) as error:
                if isinstance(error, JournalError) and not _is_elsewhere(error):
                    raise
                path = self._opening().path
                raise WriteCutShortError(
                    JournalCode.OUTCOME_UNKNOWN,
                    f"{path} may have been written or not, its connection was lost at the end: look for it, or write "
                    f"it again ({str(error) or 'no answer before the deadline'})",
                ) from error
        return answer.status


def _is_elsewhere(refusal: JournalError) -> bool:
    """Whether the service only does not have the volume any more, or not at the moment."""
    return refusal.code in AGAIN or refusal.code is JournalCode.NOT_OWNER
