"""Reading an object from an offset on, to a length, to its end, or as it grows. A lost connection is made good.

What is synced never changes, so going on at the next offset of the same namespace on the same server cannot splice, but
for one case: while the connection was lost the object was deleted, and its name given to another. Whoever deletes
objects gives new ones other names, as the journal does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

from sos_client.link import BULK_RECEIVE_BYTES
from sos_client.wire import messages as m
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sos_client.attempts import Attempts
    from sos_client.connection_pool import ConnectionPool
    from sos_client.link import Link
    from sos_client.wire.messages import Message

T = TypeVar("T")


class ReadStream:
    """An async iterator of the object's bytes, in pieces as they come; `SosClient.read_stream` makes it.

    Each piece is a view that is valid until the next one is asked for. `next_offset` is where the next one begins.
    """

    def __init__(self, pool: ConnectionPool, attempts: Attempts, namespace: str, request: m.Get) -> None:
        self.next_offset = request.offset
        self._pool = pool
        self._attempts = attempts
        self._namespace = namespace
        self._request = request
        self._link: Link | None = None
        self._over = False

    def __aiter__(self) -> ReadStream:
        return self

    async def __anext__(self) -> memoryview:
        if self._over:
            raise StopAsyncIteration
        data = await self._attempts.run(self._next_piece)
        if data is None:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        """Let go of the connection. The iterator is over."""
        self._over = True
        await self._let_go()

    async def _next_piece(self, _failures: int) -> memoryview | None:
        try:
            if self._link is None:
                self._link = await self._begin()
            return await self._receive(self._link)
        except BaseException:
            await self._let_go()
            raise

    async def _begin(self) -> Link:
        link = await self._pool.take(self._namespace)
        asked = self._request
        length = None if asked.length is None else asked.offset + asked.length - self.next_offset
        request = m.Get(object=asked.object, offset=self.next_offset, length=length, follow=asked.follow)
        try:
            with link.in_time(self._attempts.deadlines.answer_seconds):
                await link.send(request)
        except BaseException:
            await self._pool.give_back(link)
            raise
        return link

    async def _receive(self, link: Link) -> memoryview | None:
        """The next piece, or None at the end."""
        while True:
            message = link.next_received() or await self._wait(link)
            if isinstance(message, m.Data):
                self.next_offset = message.offset + len(message.payload)
                return memoryview(message.payload)
            if isinstance(message, m.GetEnd):
                if self._request.follow:
                    await self._in_time(link, link.send(m.Stop()))
                await self.aclose()
                return None
            if not isinstance(message, m.Pong):
                raise ProtocolError(f"{link.address} sent {type(message).__name__} for a GET")

    async def _wait(self, link: Link) -> Message:
        """The next message. A follow may be quiet for long, but the server has to answer a PING meanwhile."""
        seconds = self._attempts.deadlines.answer_seconds
        if self._request.follow:
            with trio.move_on_after(seconds / 2):
                return await link.receive(BULK_RECEIVE_BYTES)
            await self._in_time(link, link.send(m.Ping(n=self.next_offset)))
        return await self._in_time(link, link.receive(BULK_RECEIVE_BYTES))

    async def _in_time(self, link: Link, step: Awaitable[T]) -> T:
        with link.in_time(self._attempts.deadlines.answer_seconds):
            return await step

    async def _let_go(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await self._pool.give_back(link)
