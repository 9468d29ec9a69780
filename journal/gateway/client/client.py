"""A volume behind a journal service, in Python: the same interface as the journal itself, over the file protocol.

Requests are sent again, with the same operation id, over lost connections and to other services, until a deadline. Then
the error says whether the change may have been made (OUTCOME_UNKNOWN) or was not (UNAVAILABLE).
"""

from __future__ import annotations

import random
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from journal.errors import JournalCode, JournalError, refused
from journal.gateway.client.operation_ids import OperationIds
from journal.gateway.client.remote_write import RemoteWrite
from journal.gateway.client.retry_state import RetryState
from journal.gateway.client.service_pool import Addresses, ServicePool, hello
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.answer_checks import check_epoch
from journal.records.shards import parse_shard
from journal.volume import (
    PAGE_ENTRIES_MAX,
    PUT_BYTES_MAX,
    ClaimPage,
    FileStatus,
    OpenedFile,
    OperationId,
    Page,
    PathClaim,
)
from sos_client.clear_text import check_token_stays
from sos_client.net.dialing import Dial, tcp_dial
from sos_client.nurseries import background
from sos_client.retry import RetryPolicy
from sos_client.wire.errors import ConnectionLostError, MisuseError, ProtocolError, SosError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence

    from journal.gateway.client.service_link import ServiceLink
    from journal.gateway.client.service_pool import Trying
    from journal.gateway.client.shared_link import SharedTurn
    from journal.volume import Buffer, MarkValue, VolumeDescription

READ_BYTES: Final = 4 * limits.PIECE_BYTES_MAX
"""What one READ of a larger file asks for: kept in memory, so that no connection waits for who consumes it."""

SHARED_PUT_BYTES_MAX: Final = 128 * 1024
"""Small requests do not wait behind larger ones."""

PAUSE_SECONDS_MAX: Final = 0.5
"""Between attempts: a service that was started again is found soon, and few clients ask one that is not there."""

A = TypeVar("A", bound=m.Answer)
L = TypeVar("L", "ServiceLink", "ServiceLink | SharedTurn")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """`seconds`: how long one operation may take in all, retries included. `chance`: for runs that are repeatable.

    `wall_clock`: seconds since 1970, which bound the epochs that are believed.
    `on_trouble` is told what went wrong each time that an operation is about to be tried again.
    `shared`: requests of one frame share one connection, for a client whose tasks ask for many things at once. Files
    that are read or streamed, and puts of more than SHARED_PUT_BYTES_MAX, have connections of their own all the same.
    """

    seconds: float = limits.CLIENT_SECONDS
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(pause_seconds_max=PAUSE_SECONDS_MAX))
    chance: random.Random = field(default_factory=random.SystemRandom)
    wall_clock: Callable[[], float] = time.time
    on_trouble: Callable[[SosError], None] | None = None
    shared: bool = False


@asynccontextmanager
async def open_volume(
    addresses: Sequence[str],
    volume: str,
    *,
    token: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    insecure: bool = False,
    client_name: str = "python",
    dial: Dial | None = None,
    settings: ClientSettings | None = None,
    operations: OperationIds | None = None,
) -> AsyncIterator[RemoteVolume]:
    """The volume as one of these services has it. Connects when it must; closes its connections at the end.

    One that may be spread over shards is opened by `open_whole_volume`, which gives its shards common `operations`.
    Without TLS a token goes to this host only (MisuseError), unless `insecure`; a service that names an owner elsewhere
    is not followed then. `dial` replaces TCP and TLS.
    """
    if not addresses:
        raise MisuseError("give the address of at least one service")
    encrypted = insecure or tls is not None or dial is not None
    check_token_stays(addresses, token=token, encrypted=encrypted)
    settings = settings or ClientSettings()
    pool = ServicePool(
        addresses=Addresses(configured=tuple(addresses), only_this_host=token is not None and not encrypted),
        volume=volume,
        dial=dial or tcp_dial(tls),
        hello=hello(token, client_name, settings.chance.randbytes(limits.INSTANCE_BYTES)),
    )
    async with AsyncExitStack() as stack:
        if settings.shared:  # whoever shares nothing may close it in another task than opened it, as a relay does
            pool.sharing = await stack.enter_async_context(background())
        stack.push_async_callback(pool.aclose)
        yield RemoteVolume(pool, settings=settings, operations=operations)


class RemoteVolume:
    """Implements journal.volume.Volume; many tasks may use it at once. Errors are JournalError, as the volume's own."""

    def __init__(self, pool: ServicePool, *, settings: ClientSettings, operations: OperationIds | None = None) -> None:
        self.name = pool.volume
        self.epoch = 0  # the highest seen that was not said to be false
        self.operations = operations or OperationIds(settings.chance)
        self._pool = pool
        self._settings = settings
        self._shard = self.name if parse_shard(self.name) is not None else ""

    def new_operation(self) -> OperationId:
        """An id for the next change. Use it again only to repeat exactly that change."""
        return self.operations.lend()

    async def put(
        self,
        path: str,
        payload: Buffer,
        *,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> FileStatus:
        if len(payload) > PUT_BYTES_MAX:
            raise refused(JournalCode.TOO_LARGE, f"{path}: {len(payload)} bytes are too many for one put: stream them")

        def request() -> m.Request:
            stamp = self._stamp(operation, claim)
            return m.PutRequest(path=path, overwrite=overwrite, stamp=stamp, payload=payload, modified_ms=modified_ms)

        if len(payload) > SHARED_PUT_BYTES_MAX:
            return (await self.persist_change(_asking(request, m.StatusAnswer), operation)).status
        return (await self._change(operation, request, m.StatusAnswer)).status

    async def append(
        self,
        path: str,
        data: Buffer,
        *,
        size: int,
        modified_ms: int,
        operation: OperationId,
        claim: PathClaim | None = None,
    ) -> FileStatus:
        if len(data) > PUT_BYTES_MAX:
            raise refused(JournalCode.TOO_LARGE, f"{path}: {len(data)} bytes are too many for one append")

        def request() -> m.Request:
            stamp = self._stamp(operation, claim)
            return m.AppendRequest(path=path, size=size, modified_ms=modified_ms, stamp=stamp, payload=data)

        if len(data) > SHARED_PUT_BYTES_MAX:
            return (await self.persist_change(_asking(request, m.StatusAnswer), operation)).status
        return (await self._change(operation, request, m.StatusAnswer)).status

    async def open_write(
        self,
        path: str,
        *,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> RemoteWrite:
        """Nothing is sent before there is more than fits a PUT."""

        def opening() -> m.WriteOpenRequest:
            stamp = self._stamp(operation, claim)
            return m.WriteOpenRequest(path=path, overwrite=overwrite, stamp=stamp, modified_ms=modified_ms)

        await trio.lowlevel.checkpoint()
        return RemoteWrite(self, operation, opening)

    async def open_read(self, path: str, offset: int = 0, length: int | None = None) -> OpenedFile:
        """As the volume's, but a file that is replaced while more than READ_BYTES of it are read gives CHANGED."""
        asked = READ_BYTES if length is None else min(length, READ_BYTES)
        status, first = await self._read_once(path, offset, asked, None)
        return OpenedFile(status, self._pieces(status, first, offset, length))

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        if length == 0:
            return
        async with aclosing((await self.open_read(path, offset, length)).pieces) as pieces:
            async for piece in pieces:
                yield piece

    async def _pieces(
        self, status: FileStatus, pieces: Sequence[bytes], offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        left = length
        while True:
            for piece in pieces:
                yield piece
            got = sum(map(len, pieces))
            offset += got
            left = None if left is None else left - got
            if offset >= status.size or not got or left == 0:
                return
            asked = READ_BYTES if left is None else min(left, READ_BYTES)
            _, pieces = await self._read_once(status.path, offset, asked, status.modified_ms)

    async def read_file(self, path: str) -> tuple[FileStatus, bytes]:
        """Status and content of a file in one round trip, if it has at most READ_BYTES (else TOO_LARGE)."""
        status, pieces = await self._read_once(path, 0, READ_BYTES, None)
        if status.size > READ_BYTES:
            raise refused(JournalCode.TOO_LARGE, f"{path} has {status.size} bytes: read it in pieces")
        return status, b"".join(pieces)

    async def stat(self, path: str) -> FileStatus:
        return (await self._ask(lambda: m.StatRequest(path=path, epoch_seen=self.epoch), m.StatusAnswer)).status

    async def list(self, path: str, *, after: str = "", limit: int = PAGE_ENTRIES_MAX) -> Page:
        def request() -> m.Request:
            return m.ListRequest(path=path, after=after, limit=limit, epoch_seen=self.epoch)

        answer = await self._ask(request, m.PageAnswer)
        return Page(entries=answer.entries, more=answer.more)

    async def mkdirs(self, path: str, *, operation: OperationId, claim: PathClaim | None = None) -> None:
        await self._change(
            operation, lambda: m.MkdirsRequest(path=path, stamp=self._stamp(operation, claim)), m.DoneAnswer
        )

    async def delete(
        self, path: str, *, recursive: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> bool:
        def request() -> m.Request:
            return m.DeleteRequest(path=path, recursive=recursive, stamp=self._stamp(operation, claim))

        return (await self._change(operation, request, m.DoneAnswer)).applied

    async def rename(
        self, source: str, target: str, *, overwrite: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> None:
        def request() -> m.Request:
            return m.RenameRequest(
                source=source, target=target, overwrite=overwrite, stamp=self._stamp(operation, claim)
            )

        await self._change(operation, request, m.DoneAnswer)

    async def claim(self, path: str, claim: PathClaim, *, operation: OperationId) -> None:
        await self._change(
            operation, lambda: m.ClaimRequest(path=path, stamp=self._stamp(operation, claim)), m.DoneAnswer
        )

    async def pin(self, name: str, *, lsn: int, seconds: int, operation: OperationId) -> None:
        def request() -> m.Request:
            return m.PinRequest(name=name, lsn=lsn, seconds=seconds, stamp=self._stamp(operation, None))

        await self._change(operation, request, m.DoneAnswer)

    async def claims(self, *, after: str | None = None, limit: int = PAGE_ENTRIES_MAX) -> ClaimPage:
        answer = await self._ask(
            lambda: m.ClaimsRequest(after=after, limit=limit, epoch_seen=self.epoch), m.ClaimPageAnswer
        )
        return ClaimPage(claims=answer.claims, more=answer.more)

    async def release(self, path: str, claim: PathClaim, *, operation: OperationId) -> bool:
        done = await self._change(
            operation, lambda: m.ReleaseRequest(path=path, stamp=self._stamp(operation, claim)), m.DoneAnswer
        )
        return done.applied

    async def mark(self, values: Mapping[str, MarkValue], *, operation: OperationId) -> None:
        pairs = tuple(values.items())
        await self._change(
            operation, lambda: m.MarkRequest(values=pairs, stamp=self._stamp(operation, None)), m.DoneAnswer
        )

    async def describe(self) -> VolumeDescription:
        answer = await self._ask(lambda: m.DescribeRequest(epoch_seen=self.epoch), m.DescriptionAnswer)
        return answer.description

    async def ping(self) -> int:
        """The service's time in ms."""
        return (await self._ask(lambda: m.PingRequest(number=1), m.PongAnswer)).time_ms

    # ── asking until there is an answer ───────────────────────────────────────────────────────────────────────────

    async def persist_change(self, attempt: Callable[[ServiceLink], Awaitable[A]], operation: OperationId) -> A:
        """The answer of the first attempt that gets one. `attempt` may be run many times and must send the same."""
        with self.operations.until_answered(operation):
            return await self._persist(attempt, self._pool.link, changes=True)

    async def _persist(
        self,
        attempt: Callable[[L], Awaitable[A]],
        links: Callable[[int, Trying], AbstractAsyncContextManager[L]],
        *,
        changes: bool,
    ) -> A:
        persistence = RetryState(self._pool.addresses, self._settings.retry, changes=changes, shard=self._shard)
        with trio.move_on_after(self._settings.seconds):
            while True:
                try:
                    async with links(self.epoch, persistence.trying) as link:
                        try:
                            return await self._believed(attempt, link)
                        finally:
                            persistence.asked(has_sent=link.has_sent)
                except SosError as error:
                    self._unlearn(error)
                    pause_seconds = persistence.after(error, self._settings.chance.random())
                    if self._settings.on_trouble is not None:
                        self._settings.on_trouble(error)
                await trio.sleep(pause_seconds)
        raise persistence.out_of_time(self._settings.seconds)

    def one_link(self) -> AbstractAsyncContextManager[ServiceLink]:
        """A connection to the service that answered last, for as long as a request of many frames takes."""
        return self._pool.link(self.epoch, lambda _address: None)

    async def _ask(self, request: Callable[[], m.Request], kind: type[A]) -> A:
        return await self._persist(_asking(request, kind), self._pool.turn, changes=False)

    async def _change(self, operation: OperationId, request: Callable[[], m.Request], kind: type[A]) -> A:
        with self.operations.until_answered(operation):
            return await self._persist(_asking(request, kind), self._pool.turn, changes=True)

    async def _read_once(
        self, path: str, offset: int, length: int, modified_ms: int | None
    ) -> tuple[FileStatus, Sequence[bytes]]:
        pieces: Sequence[bytes] = ()

        async def attempt(link: ServiceLink) -> m.StatusAnswer:
            nonlocal pieces
            request = m.ReadRequest(
                path=path, offset=offset, length=length, modified_ms=modified_ms, epoch_seen=self.epoch
            )
            status, pieces = await link.ask_read(request)
            return status

        return (await self._persist(attempt, self._pool.link, changes=False)).status, pieces

    def _stamp(self, operation: OperationId, claim: PathClaim | None) -> m.Stamp:
        return m.Stamp(operation=operation, claim=claim, epoch_seen=self.epoch)

    async def _believed(self, attempt: Callable[[L], Awaitable[A]], link: L) -> A:
        """The answer or the refusal, unless a newer owner was heard of: then nobody knows whether it counts."""
        try:
            answer = await attempt(link)
        except JournalError as error:
            self._unlearn(error)
            self._check_epoch(link)
            raise
        self._check_epoch(link)
        self.epoch = max(self.epoch, link.epoch)
        return answer

    def _unlearn(self, error: SosError) -> None:
        """Forget an epoch that was never an owner's, as the owner has heard from the members since it was asked."""
        if isinstance(error, JournalError) and error.code is JournalCode.NOT_OWNER:
            seen, owned = error.fields.get("epoch"), error.fields.get("owned")
            if isinstance(owned, int) and seen == self.epoch and 0 < owned < self.epoch:
                self.epoch = owned

    def _check_epoch(self, link: ServiceLink | SharedTurn) -> None:
        try:
            check_epoch(link.epoch, self._settings.wall_clock())
        except ProtocolError:
            link.distrust()
            raise
        if 0 < link.epoch < self.epoch:
            link.distrust()
            raise ConnectionLostError(
                f"{link.address} answered for epoch {link.epoch}, but epoch {self.epoch} has been seen: not the owner"
            )


def _asking(
    request: Callable[[], m.Request], kind: type[A]
) -> Callable[[ServiceLink | SharedTurn], Coroutine[Any, Any, A]]:
    """An attempt that asks for one frame."""

    async def attempt(link: ServiceLink | SharedTurn) -> A:
        return await link.ask(request(), kind)

    return attempt
