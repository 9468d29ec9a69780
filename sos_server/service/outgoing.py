"""What goes out on one connection: whole frames, one after the other, whoever has something to say.

Small answers are given to the kernel at once; only what it does not take costs a task and a buffer. What is in the
frames, and when they are due, is decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from sos_client.net.plain_stream import PlainStream
from sos_client.serving.containment import concerns_all

if TYPE_CHECKING:
    from collections.abc import Callable

WAITING_BYTES_MAX: Final = 64 * 1024
"""This much may wait for a peer that does not read; a session with more takes nothing from it until it does."""
JOINED_BYTES_MAX: Final = 16 * 1024
"""Up to here copying a payload after its header is cheaper than a second call to the kernel."""


class Outgoing:
    """The sending side of a stream.

    ``offer`` never waits, ``send`` returns when the kernel has it all. ``send`` raises BrokenResourceError when the
    peer is gone; ``offer`` leaves that to the receiving side to find out. Cancelling ``send`` leaves the stream in the
    middle of a frame: ``clean`` is then False for good, and nothing more goes out.
    """

    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery, on_failure: Callable[[Exception], None]) -> None:
        """``on_failure`` is told what nobody foresaw in the task that sends what ``offer`` could not."""
        self._stream = stream
        self._on_failure = on_failure
        self._plain = stream if isinstance(stream, PlainStream) else None
        self._nursery = nursery
        self._waiting = bytearray()
        self._busy = False
        self._freed = trio.Event()
        self.clean = True
        self.bytes_sent = 0
        self.on_idle: Callable[[], None] | None = None
        """Called when everything that waited has gone out."""

    @property
    def busy(self) -> bool:
        """Whether the peer has not taken yet what there is for it."""
        return self._busy

    @property
    def full(self) -> bool:
        return len(self._waiting) >= WAITING_BYTES_MAX

    def offer(self, frames: bytes) -> None:
        """Send whole frames, after everything before them, without waiting."""
        if self._busy:
            self._waiting += frames
            return
        sent = self._send_now(frames)
        if self.clean and sent < len(frames):
            self._waiting += frames[sent:]
            self._busy = True
            self._nursery.start_soon(self._drain)

    def _send_now(self, frames: bytes) -> int:
        if not self.clean or self._plain is None:
            return 0
        try:
            sent = self._plain.send_now(frames)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.clean = False
            return 0
        self.bytes_sent += sent
        return sent

    async def send(self, frames: bytes, payload: bytes | memoryview = b"", after: bytes = b"") -> None:
        """Send whole frames, the last of them with ``payload`` as its end, then those of ``after``.

        Whatever waits for its turn to go out goes before.
        """
        while self._busy:
            await self._freed.wait()
        if not self.clean:
            raise trio.BrokenResourceError("the connection broke in the middle of a frame")
        self._busy = True
        self.clean = False
        try:
            if len(payload) <= JOINED_BYTES_MAX:
                await self._stream.send_all(b"".join((frames, payload, after)))
            elif self._plain is not None:
                await self._plain.send_parts(frames, payload, after)
            else:
                await self._stream.send_all(frames)
                await self._stream.send_all(payload)
                if after:
                    await self._stream.send_all(after)
            self.bytes_sent += len(frames) + len(payload) + len(after)
            await self._send_waiting()
        finally:
            self._free()

    async def drained(self) -> None:
        """Wait until the kernel has everything (or nothing more can go out)."""
        while self._busy:
            await self._freed.wait()

    async def _drain(self) -> None:
        """In a task of its own: send what ``offer`` could not."""
        self.clean = False
        try:
            await self._send_waiting()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the receiving side finds out
        except Exception as error:
            if concerns_all(error):
                raise
            self._on_failure(error)
        finally:
            self._free()

    async def _send_waiting(self) -> None:
        while self._waiting:
            frames, self._waiting = self._waiting, bytearray()
            await self._stream.send_all(frames)
            self.bytes_sent += len(frames)
        self.clean = True

    def _free(self) -> None:
        self._busy = False
        if not self.clean:
            self._waiting.clear()
        self._freed.set()
        self._freed = trio.Event()
        if self.on_idle is not None and self.clean:
            self.on_idle()
