"""A stream that breaks after a number of bytes in either direction, as a lost connection does."""

from __future__ import annotations

import trio


class CutStream(trio.abc.Stream):
    """Lets `sent_max` bytes out and `received_max` bytes in; then both ends find the connection broken."""

    def __init__(self, stream: trio.abc.Stream, *, sent_max: int, received_max: int) -> None:
        self._stream = stream
        self._sent_left = sent_max
        self._received_left = received_max

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if len(data) <= self._sent_left:
            self._sent_left -= len(data)
            await self._stream.send_all(data)
            return
        if self._sent_left:
            await self._stream.send_all(bytes(data[: self._sent_left]))
        await self._break()

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = bytes(await self._stream.receive_some(max_bytes))
        if len(data) > self._received_left:
            await self._break()
        self._received_left -= len(data)
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()

    def cut(self) -> None:
        """Nothing more passes from now on."""
        self._sent_left = self._received_left = 0

    async def _break(self) -> None:
        self._sent_left = self._received_left = 0
        await trio.aclose_forcefully(self._stream)
        raise trio.BrokenResourceError("cut")
