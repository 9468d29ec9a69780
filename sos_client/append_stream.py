"""One append: bytes go out as they come, up to a window; acknowledgements come in; a lost connection is made good.

Resuming never guesses. A new connection begins where the server says its object ends, and only when the CRC of all
bytes up to there is the one of what was sent; anything else is another past, and an error.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from sos_client.link import LAST_WORDS_SECONDS
from sos_client.net.dialing import translated
from sos_client.retry import is_passing
from sos_client.unsynced_bytes import UnsyncedBytes
from sos_client.wire import messages as m
from sos_client.wire.errors import (
    ConnectionLostError,
    DeadlineError,
    ErrorCode,
    HistoryError,
    MisuseError,
    ProtocolError,
    RefusedError,
    SosError,
)
from sos_client.wire.limits import DATA_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_client.attempts import Attempts
    from sos_client.connection_pool import ConnectionPool
    from sos_client.link import Link
    from sos_client.unsynced_bytes import Piece

WINDOW_BYTES: Final = 8 << 20
"""Bytes sent and not synced, per append: what a resume may have to send again, and what an append keeps in memory."""
BATCH_BYTES: Final = DATA_BYTES
"""Small sends that wait after a slow one go out together, up to about this."""
_NEGOTIATIONS_MAX: Final = 3
"""Once at the size known here, once at the server's, and once for a predecessor that was still being evicted."""

assert DATA_BYTES <= WINDOW_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTarget:
    """What to append to, and under which claim (epoch 0 and no holder: there is none)."""

    namespace: str
    object: str
    epoch: int = 0
    holder: bytes = b""


class AppendStream:
    """An append under way; `SosClient.append` makes it. Any number of tasks may use it; bytes go in order of the calls.

    `written` and `synced` are what the server has said last, `size` is what the object will have when all is synced.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        attempts: Attempts,
        nursery: trio.Nursery,
        target: AppendTarget,
        *,
        size: int,
        prefix_crc: int | None,
        resume: bool,
        window_bytes: int,
    ) -> None:
        self.written = self.synced = size
        self._pool = pool
        self._attempts = attempts
        self._nursery = nursery
        self._target = target
        self._resume = resume
        self._window_bytes = window_bytes
        self._prefix_crc = prefix_crc
        self._began = False
        known_crc = 0 if size == 0 else prefix_crc
        self._unsynced = UnsyncedBytes(start=size, prefix_crc=known_crc if resume else None)
        self._unsent: deque[Piece] = deque()  # on the connection at hand
        self._link: Link | None = None
        self._pushing: Link | None = None  # some task is sending on it
        self._ending = self._end_sent = self._ended = False
        self._loss: SosError | None = None  # what a sender saw go wrong with the connection at hand
        self._failure: SosError | None = None
        self._changed = trio.lowlevel.ParkingLot()
        self._on_synced: Callable[[int], None] | None = None
        self._patience = trio.CancelScope()
        self._finished = trio.Event()

    @property
    def size(self) -> int:
        """The object's size once all that was given to `send` is synced."""
        return self._unsynced.end

    def report(self, on_synced: Callable[[int], None]) -> None:
        """Call `on_synced` with `synced` now, and whenever it grows: sooner than any task that waits for it."""
        self._on_synced = on_synced
        on_synced(self.synced)

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Append these bytes. Returns when they are on their way; waits while the window is full.

        Raises what ended the append (RefusedError, HistoryError, ConnectionLostError …); `synced` then says what is
        safe. Cancelled: an unknown part of the data counts as sent, and the append may be used on.
        """
        self._check_open()
        view = memoryview(data)
        for start in range(0, len(view), DATA_BYTES):
            piece: Piece = view[start : start + DATA_BYTES]
            if not isinstance(data, bytes):
                piece = bytes(piece)  # it is kept until it is synced, and the caller's buffer may change by then
            while self.size - self.synced + len(piece) > self._window_bytes and self.size > self.synced:
                await self._wait_change()
            self._check_open()
            self._unsynced.add(piece)
            self._unsent.append(piece)
            await self._push()
        self._check()

    async def wait_synced(self, offset: int | None = None) -> None:
        """Wait until the object is on disk up to `offset` (all that has been sent, if not given)."""
        target = self.size if offset is None else offset
        if target > self.size:
            raise MisuseError(f"nothing was sent beyond {self.size}, so {target} will not be synced")
        while self.synced < target:
            await self._wait_change()

    async def end(self) -> None:
        """Finish: returns when everything is synced. Calling it again does no harm."""
        self._ending = True
        await self._push()
        while not self._ended:
            await self._wait_change()
        await self._finished.wait()

    async def open(self) -> None:
        """The first APPEND. Its refusal is the caller's to see: nothing is resumed that never began."""
        if self._resume and self._unsynced.start_crc is None:
            await self._attempts.run(self._learn_prefix)
        if self._resume:
            await self._attempts.run(self._begin)
        else:
            await self._begin()

    async def let_go(self) -> None:
        """Close the connection of an append that nobody will run."""
        link, self._link = self._link, None
        if link is not None:
            await link.aclose()

    async def run(self) -> None:
        """Listen, and resume, until the append has ended or failed. Never raises but when it is cancelled."""
        try:
            while not self._ended and self._failure is None:
                await self._run_connection()
        finally:
            link, self._link = self._link, None
            if not self._ended and self._failure is None:
                self._failure = MisuseError("the append has been abandoned")
                self._changed.unpark_all()
            try:
                if link is not None:
                    await self._pool.give_back(link)
            finally:
                self._finished.set()

    async def _run_connection(self) -> None:
        assert self._link is not None
        # The first push may have much to send again: meanwhile somebody has to listen, and to lose patience.
        self._nursery.start_soon(self._push)
        try:
            await self._listen(self._link)
        except SosError as error:
            problem = error if isinstance(error, RefusedError) else self._loss or error
        else:
            return
        link, self._link, self._loss = self._link, None, None
        await link.aclose()
        try:
            if not self._resume or not is_passing(problem):
                raise problem
            while self.size == self.synced and not self._ending:  # nothing is lost by waiting for something to do
                await self._changed.park()
            await self._attempts.run(self._begin)
        except SosError as error:
            self._failure = error
            self._changed.unpark_all()

    async def _listen(self, link: Link) -> None:
        with trio.CancelScope() as self._patience:
            self._be_patient()
            while not self._ended:
                message = await link.receive()
                if isinstance(message, m.Ack):
                    self._acknowledge(message.written, message.synced)
                elif isinstance(message, m.Ended):
                    self._acknowledge(message.size, message.size)
                    self._ended = True
                else:
                    raise ProtocolError(f"{link.address} sent {type(message).__name__} during an append")
                self._be_patient()
        if self._patience.cancelled_caught:
            raise DeadlineError(
                f"{link.address} has acknowledged nothing for {self._attempts.deadlines.answer_seconds:g} seconds"
            )

    def _be_patient(self) -> None:
        seconds = self._attempts.deadlines.answer_seconds if self.size > self.synced or self._ending else inf
        if self._loss is not None:
            seconds = LAST_WORDS_SECONDS
        self._patience.deadline = trio.current_time() + seconds

    def _acknowledge(self, written: int, synced: int) -> None:
        self.written = written
        self.synced = synced
        self._unsynced.release(synced)
        if self._on_synced is not None:
            self._on_synced(synced)
        if self._changed:
            self._changed.unpark_all()

    async def _push(self) -> None:
        """Send what waits, unless another task is at it already: that one will send this, too."""
        link = self._link
        if link is None:
            self._changed.unpark_all()  # there is something to resume for now
        if link is None or self._pushing is link or self._loss is not None:
            return
        self._pushing = link
        if self._patience.deadline == inf:
            self._be_patient()
        try:
            while link is self._link and self._loss is None and (batch := self._next_batch(link)):
                await link.send_bytes(batch)
        except SosError as error:
            self._lose(link, error)
        except BaseException:  # cancelled in the middle of a frame: this connection cannot go on
            self._lose(link, ConnectionLostError(f"{link.address}: a send was cancelled"))
            raise
        finally:
            if self._pushing is link:
                self._pushing = None

    def _lose(self, link: Link, error: SosError) -> None:
        """Sending has failed. Whoever listens gets a moment to hear the server's reason, then resumes."""
        if link is self._link:
            self._loss = error
            self._be_patient()

    def _next_batch(self, link: Link) -> bytes:
        parts: list[Piece] = []
        batch_bytes = 0
        while self._unsent and batch_bytes < BATCH_BYTES:
            piece = self._unsent.popleft()
            parts += (link.connection.send_data(piece), piece)
            batch_bytes += len(piece)
        if self._ending and not self._unsent and not self._end_sent:
            parts.append(link.connection.send(m.End()))
            self._end_sent = True
        return b"".join(parts)

    async def _wait_change(self) -> None:
        self._check()
        await self._changed.park()
        self._check()

    def _check_open(self) -> None:
        self._check()
        if self._ending:
            raise MisuseError("the append has been ended")

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _learn_prefix(self, _failures: int) -> None:
        """Ask for the CRC of what is there already: without it nothing could be resumed."""
        async with self._pool.lease(self._target.namespace) as link:
            info = await link.ask(m.Stat(object=self._target.object), m.ObjectInfo)
        if info.size != self.size:
            raise RefusedError(ErrorCode.WRONG_SIZE, size=info.size, crc=info.crc, epoch=info.epoch)
        self._prefix_crc = info.crc
        self._unsynced = UnsyncedBytes(start=info.size, prefix_crc=info.crc)

    async def _begin(self, _failures: int = 0) -> None:
        """APPEND on a connection of its own, from where the server's object ends."""
        link = await self._pool.take(self._target.namespace)
        try:
            with translated(link.address), trio.fail_after(self._attempts.deadlines.answer_seconds):
                await self._negotiate(link)
        except BaseException:
            await self._pool.give_back(link)
            raise
        self._began = True
        self._end_sent = False
        self._unsent = deque(self._unsynced)
        self._link = link

    async def _negotiate(self, link: Link) -> None:
        for _ in range(_NEGOTIATIONS_MAX):
            try:
                await link.ask(self._request(), m.Appending)
            except RefusedError as refusal:
                if not link.connection.broken:
                    await link.send(m.End())
                if not self._began:
                    raise
                self._go_on_from(*_server_end(refusal))
            else:
                return
        raise HistoryError(f"{self._target.object} changes its size each time that this append wants to go on")

    def _request(self) -> m.Append:
        target = self._target
        return m.Append(
            object=target.object,
            size=self._unsynced.start,
            prefix_crc=self._unsynced.start_crc if self._began else self._prefix_crc,
            epoch=target.epoch,
            holder=target.holder,
        )

    def _go_on_from(self, size: int, crc: int) -> None:
        """The server's object ends here: see that this is what was sent."""
        name, start, end = self._target.object, self._unsynced.start, self._unsynced.end
        if size < start:
            raise HistoryError(f"{name} has {size} bytes, but the server had acknowledged {start}: bytes are lost")
        if size > end:
            raise HistoryError(f"{name} has {size} bytes, but only {end} were sent: somebody else has appended")
        if self._unsynced.crc_at(size) != crc:
            raise HistoryError(f"the {size} bytes of {name} are not those that were sent: it has another past")
        self._acknowledge(size, size)


def _server_end(refusal: RefusedError) -> tuple[int, int]:
    """Size and CRC of the object as a refused APPEND tells them; raises the refusal when it is about something else."""
    if refusal.code is ErrorCode.NOT_FOUND:
        return 0, 0
    if refusal.code is ErrorCode.WRONG_PREFIX:
        raise HistoryError("the server's bytes are not those that were sent: the object has another past") from refusal
    size, crc = refusal.fields.get("size"), refusal.fields.get("crc")
    if refusal.code is ErrorCode.WRONG_SIZE and isinstance(size, int) and isinstance(crc, int):
        return size, crc
    raise refusal
