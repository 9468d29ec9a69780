"""The client: what an SOS server can be asked, with time-outs, retries and resumed streams. Start at `open_client`."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from sos_client.append_stream import WINDOW_BYTES, AppendStream, AppendTarget
from sos_client.attempts import Attempts, Deadlines
from sos_client.clear_text import check_token_stays
from sos_client.connection_pool import ConnectionPool
from sos_client.net.dialing import Dial, tcp_dial
from sos_client.nurseries import background
from sos_client.read_stream import ReadStream
from sos_client.retry import RetryPolicy
from sos_client.wire import messages as m
from sos_client.wire.errors import ErrorCode, MisuseError, RefusedError
from sos_client.wire.limits import IDENTITY_BYTES, LIST_ENTRIES_MAX, PROTOCOL_VERSION

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from sos_client.wire.messages import Answer, Request

NamespaceInfo = m.Using
ObjectInfo = m.ObjectInfo
AnswerT = TypeVar("AnswerT", bound="Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceEntry:
    """A namespace as a server lists it; `epoch` is that of its claim, 0 if nobody has claimed it."""

    name: str
    used_bytes: int
    epoch: int


@contextlib.asynccontextmanager
async def open_client(
    address: str,
    *,
    token: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    insecure: bool = False,
    client_name: str = "sos",
    dial: Dial | None = None,
    deadlines: Deadlines | None = None,
    policy: RetryPolicy | None = None,
    chance: random.Random | None = None,
) -> AsyncIterator[SosClient]:
    """A client of the server at HOST:PORT, connected once already (that first time is not retried).

    Without TLS a token goes to this host only (MisuseError), unless `insecure`. `dial` replaces TCP and TLS; `chance`
    the source of the instance and the pauses, for runs that must be repeatable.
    Cancelling the block closes everything; what was acknowledged stays, what was not may or may not be there.
    """
    check_token_stays([address], token=token, encrypted=insecure or tls is not None or dial is not None)
    deadlines = deadlines or Deadlines()
    chance = chance or random.SystemRandom()
    hello = m.Hello(
        version=PROTOCOL_VERSION, token=token, client=client_name, instance=chance.randbytes(IDENTITY_BYTES)
    )
    pool = ConnectionPool(dial or tcp_dial(tls), address, hello, deadlines=deadlines)
    attempts = Attempts(deadlines, policy=policy or RetryPolicy(), chance=chance.random, after_failure=pool.close_idle)
    try:
        async with pool.lease() as link:
            identity = link.server_identity
        async with background() as nursery:
            yield SosClient(pool, attempts, nursery, identity)
    finally:
        await pool.aclose()


class SosClient:
    """One server, as `open_client` gives it. Any number of tasks may use it at once.

    Every method may raise RefusedError (the server says no, and nothing has changed), ConnectionLostError or
    DeadlineError (after retries; whether it took effect is unknown), HistoryError (another server, or a namespace made
    again) and MisuseError. Cancelling a call leaves the client usable.
    """

    def __init__(self, pool: ConnectionPool, attempts: Attempts, nursery: trio.Nursery, identity: bytes) -> None:
        self.server_identity = identity
        self._pool = pool
        self._attempts = attempts
        self._nursery = nursery

    @property
    def address(self) -> str:
        return self._pool.address

    @property
    def server_time(self) -> float:
        """The server's clock when it greeted us last, in seconds since 1970."""
        return self._pool.server_time

    async def ping(self) -> float:
        """How many seconds an answer took."""
        started = trio.current_time()
        await self._ask(None, m.Ping(n=0), m.Pong)
        return trio.current_time() - started

    async def use(self, namespace: str, *, create: bool = False) -> NamespaceInfo:
        """The namespace's incarnation and claim; `create` makes it if there is none and the token may."""

        async def attempt(_failures: int) -> m.Using:
            async with self._pool.lease() as link:
                return await self._pool.enter(link, namespace, create=create)

        return await self._attempts.run(attempt)

    async def fence(self, namespace: str, epoch: int, holder: bytes) -> None:
        """Claim the namespace. STALE_EPOCH names the claim there is; the same epoch and holder again are fine."""
        await self._ask(namespace, m.Fence(epoch=epoch, holder=holder), m.Fenced)

    async def stat(self, namespace: str, object: str) -> ObjectInfo:
        """What is known of an object: synced bytes only."""
        return await self._ask(namespace, m.Stat(object=object), m.ObjectInfo)

    async def list_page(self, namespace: str, after: str = "", limit: int = LIST_ENTRIES_MAX) -> m.Listing:
        """Up to `limit` objects in order of name, those after `after`."""
        return await self._ask(namespace, m.List(after=after, limit=limit), m.Listing)

    async def list_all(self, namespace: str) -> AsyncIterator[ObjectInfo]:
        """All objects in order of name, fetched page by page."""
        page = await self.list_page(namespace)
        while True:
            for entry in page.entries:
                yield entry
            if not page.more or not page.entries:
                return
            page = await self.list_page(namespace, after=page.entries[-1].name)

    async def list_namespaces(self) -> AsyncIterator[NamespaceEntry]:
        """The namespaces that the token may enter, in order of name. NOT_FOUND: a server that cannot say it yet."""
        after, more = "", True
        while more:
            page = await self._attempts.run(partial(self._namespaces_after, after))
            for entry in page.entries:
                yield NamespaceEntry(name=entry.name, used_bytes=entry.size, epoch=entry.epoch)
            more = page.more and bool(page.entries)
            after = page.entries[-1].name if page.entries else after

    async def _namespaces_after(self, after: str, _failures: int) -> m.Listing:
        async with self._pool.lease(unused=True) as link:
            return await link.ask(m.List(after=after, limit=LIST_ENTRIES_MAX), m.Listing)

    async def seal(self, namespace: str, object: str, *, size: int, epoch: int = 0, holder: bytes = b"") -> m.Sealed:
        """Make the object immutable, if it has exactly this size. Again is fine."""
        return await self._ask(namespace, m.Seal(object=object, size=size, epoch=epoch, holder=holder), m.Sealed)

    async def delete(self, namespace: str, object: str, *, epoch: int = 0, holder: bytes = b"") -> None:
        """Delete a sealed object whose retention has passed."""
        request = m.Delete(object=object, epoch=epoch, holder=holder)

        async def attempt(failures: int) -> None:
            async with self._pool.lease(namespace) as link:
                try:
                    await link.ask(request, m.Deleted)
                except RefusedError as refusal:
                    if failures and refusal.code is ErrorCode.NOT_FOUND:
                        return  # an attempt before has deleted it, and its answer was lost
                    raise

        await self._attempts.run(attempt)

    async def get(self, namespace: str, object: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of an object, all in memory. For what may be large there is `read_stream`."""
        async with self.read_stream(namespace, object, offset, length) as pieces:
            return b"".join([bytes(piece) async for piece in pieces])

    @contextlib.asynccontextmanager
    async def read_stream(
        self, namespace: str, object: str, offset: int = 0, length: int | None = None, *, follow: bool = False
    ) -> AsyncIterator[ReadStream]:
        """An async iterator of an object's bytes; `follow` goes on as the object grows, until it is sealed."""
        request = m.Get(object=object, offset=offset, length=length, follow=follow)
        stream = ReadStream(self._pool, self._attempts, namespace, request)
        try:
            yield stream
        finally:
            await stream.aclose()

    @contextlib.asynccontextmanager
    async def append(
        self,
        namespace: str,
        object: str,
        *,
        size: int,
        prefix_crc: int | None = None,
        epoch: int = 0,
        holder: bytes = b"",
        resume: bool = True,
        window_bytes: int = WINDOW_BYTES,
    ) -> AsyncIterator[AppendStream]:
        """Append to an object that has exactly `size` bytes (0: which is then made if it is not there).

        The end of the block ends the append and waits until all is synced; an exception in it abandons the append. A
        lost connection is resumed unless `resume` is false: then it ends the append with what went wrong.
        """
        target = AppendTarget(namespace=namespace, object=object, epoch=epoch, holder=holder)
        stream = AppendStream(
            self._pool,
            self._attempts,
            self._nursery,
            target,
            size=size,
            prefix_crc=prefix_crc,
            resume=resume,
            window_bytes=window_bytes,
        )
        await stream.open()
        if self._nursery.cancel_scope.cancel_called:  # while it was being opened: nobody would run it
            await stream.let_go()
            raise MisuseError("this client has been closed")
        scope = trio.CancelScope()
        self._nursery.start_soon(_run_within, scope, stream)
        try:
            yield stream
            await stream.end()
        finally:
            scope.cancel()

    async def _ask(self, namespace: str | None, request: Request, expected: type[AnswerT]) -> AnswerT:
        """Ask what may be asked again when nobody knows whether it took effect."""

        async def attempt(_failures: int) -> AnswerT:
            async with self._pool.lease(namespace) as link:
                return await link.ask(request, expected)

        return await self._attempts.run(attempt)


async def _run_within(scope: trio.CancelScope, stream: AppendStream) -> None:
    with scope:
        await stream.run()
