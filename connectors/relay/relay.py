"""All queries of a relay: who may speak for each, and the one batch of each that is being committed.

What a driver asks for goes on in the background, whoever waits for it: who asks again for the same joins it.
"""

from __future__ import annotations

import contextlib
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import trio

from connectors.relay.decision_log import DecisionLog
from connectors.relay.query_relay import QueryRelay
from journal.errors import JournalCode, JournalError, SupersededError, UnavailableError, journal_error, refused
from journal.gateway.client.client import ClientSettings
from journal.gateway.client.opening import open_whole_volume
from sos_client.clear_text import leaves_this_host
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from connectors.relay.manifest import BatchManifest
    from connectors.relay.settings import RelaySettings
    from connectors.relay.spool import Spool
    from journal.gateway.client.opening import WholeVolume
    from journal.volume import PathClaim
    from sos_client.net.dialing import Dial
    from sos_client.serving.event_log import EventLog

ANSWER_SECONDS: Final = 10.0
"""Whoever waits for longer is told for whom, and asks again."""
ABANDONED_SECONDS: Final = 3600.0
"""A batch that nobody asks for any more is not tried for longer."""
QUERIES_MAX: Final = 1000
VOLUMES_MAX: Final = 100


class PendingCommit:
    """A batch that is being committed, or what became of it."""

    def __init__(self, manifest: BatchManifest, claim: PathClaim) -> None:
        self.manifest = manifest
        self.claim = claim
        self.done = trio.Event()
        self.failure: JournalError | None = None
        self.scope = trio.CancelScope()
        self.asked = trio.current_time()

    @property
    def key(self) -> tuple[int, str]:
        return self.manifest.batch, self.manifest.run


class ServedQuery:
    """What a relay knows of a query."""

    def __init__(self, claim: PathClaim) -> None:
        self.claim = claim
        self.pending: PendingCommit | None = None
        self.open: QueryRelay | None = None
        self.scope = trio.CancelScope()  # of the open one
        self.closed = trio.Event()
        self.last_batch: int | None = None
        self.seen = trio.current_time()
        self.stale = False  # what is staged may be of an earlier driver
        self.clearing = trio.Lock()


class Relay:
    """`run` it in a nursery; the volume calls the rest."""

    def __init__(self, settings: RelaySettings, spool: Spool, *, dial: Dial, log: EventLog) -> None:
        self.spool = spool
        self.commits = 0
        self.failures = 0
        self._settings = settings
        self._dial = dial
        self._log = log
        self._queries: dict[str, ServedQuery] = {}
        self._volumes: dict[str, WholeVolume] = {}
        self._holding = AsyncExitStack()
        self._nursery: trio.Nursery | None = None
        self._stopping = False

    @property
    def open_queries(self) -> list[QueryRelay]:
        """Those that have sinks now."""
        return [query.open for query in self._queries.values() if query.open is not None]

    async def run(self) -> None:
        """Until cancelled; then what is being committed is left as it is, for the next relay."""
        async with self._holding, trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def stop(self) -> None:
        """Whoever waits is told to ask again."""
        self._stopping = True
        for query in self._queries.values():
            if query.pending is not None and not query.pending.done.is_set():
                query.pending.scope.cancel()

    async def admit(self, place: str, claim: PathClaim | None) -> None:
        """FENCED for a driver that a later one has replaced. The latest one counts from here on.

        It begins with nothing staged: what its predecessors left would never be committed, and fill the spool.
        """
        if claim is None:
            raise refused(JournalCode.BAD_REQUEST, "a change at a relay carries the claim of its driver")
        served = self._queries.get(place)
        if served is None:
            self._make_room()
            self._queries[place] = ServedQuery(claim)
            return
        served.seen = trio.current_time()
        _check_latest(served, place, claim)
        if claim > served.claim:
            served.claim, served.stale = claim, True
            if served.pending is not None:
                served.pending.scope.cancel()
            served.scope.cancel()
        if served.stale:
            await self._clear(served, place)
            _check_latest(served, place, claim)

    async def _clear(self, served: ServedQuery, place: str) -> None:
        """Forget the earlier drivers of a query, when what was being committed for them has ended."""
        async with served.clearing:
            if not served.stale:
                return
            if served.pending is not None:
                await served.pending.done.wait()
            await self.spool.delete_query(place)
            # The later driver's checkpoint may be another one, where queries stage under their ids alone (version 1).
            served.last_batch = None
            served.stale = False

    def check_not_rewound(self, place: str, batch: int) -> None:
        """Early, before rows are sent that will be refused. BAD_REQUEST."""
        last = self._queries[place].last_batch
        if last is not None and batch < last and not self._settings.accept_duplicates:
            raise refused(
                JournalCode.BAD_REQUEST,
                f"batch {batch} of query {place} is staged, and the sinks have batch {last}: the checkpoint was put "
                "back to an earlier batch. Fork it, and give the fork sinks that have nothing; or start the relay with "
                "--accept-duplicates",
            )

    async def delete_run(self, place: str, batch: int, run: str) -> bool:
        """What is being committed of it stays until that is over."""
        pending = self._queries[place].pending
        if pending is not None and pending.key == (batch, run) and not pending.done.is_set():
            return True
        return await self.spool.delete_run(place, batch, run)

    def _check_clear_text(self, sinks: Iterable[str]) -> None:
        if self._settings.sink_tls is None and not self._settings.insecure:
            for address in sinks:
                if leaves_this_host(address):
                    raise refused(
                        JournalCode.BAD_REQUEST,
                        f"rows for sink {address} would go over the network for all to read: start the relay with "
                        "--sink-tls, or with --insecure",
                    )

    async def commit(self, manifest: BatchManifest, claim: PathClaim) -> None:
        """Return when the batch is committed. UNAVAILABLE after a while, with who is waited for: it goes on."""
        self._check_clear_text(manifest.sinks)
        served = self._queries[manifest.place]
        with trio.move_on_after(ANSWER_SECONDS):
            pending = await self._pending(served, manifest, claim)
            pending.asked = trio.current_time()
            await pending.done.wait()
            if pending.failure is not None:
                raise pending.failure
            return
        raise UnavailableError(JournalCode.UNAVAILABLE, f"batch {manifest.batch}: {self._waits_for(served)}")

    async def _pending(self, served: ServedQuery, manifest: BatchManifest, claim: PathClaim) -> PendingCommit:
        """The one that does this; another one is waited for before."""
        while True:
            _check_latest(served, manifest.query, claim)
            pending = served.pending
            if pending is None or pending.done.is_set():
                if self._stopping:
                    raise _stopping()
                pending = served.pending = PendingCommit(manifest, claim)
                assert self._nursery is not None
                self._nursery.start_soon(self._work, served, pending)
                return pending
            if pending.key == (manifest.batch, manifest.run) and pending.claim == claim:
                return pending
            await pending.done.wait()

    # ── the work ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _work(self, served: ServedQuery, pending: PendingCommit) -> None:
        manifest = pending.manifest
        try:
            with pending.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._abandon, served, pending)
                    await self._commit(served, pending)
                    nursery.cancel_scope.cancel()
            if pending.scope.cancelled_caught:
                pending.failure = pending.failure or self._why_cancelled(served, pending)
            else:
                self.commits += 1
                await self.spool.delete_until(manifest.place, manifest.batch)
        except* SosError as group:
            pending.failure = _as_journal_error(group)
            self.failures += 1
            self._log.error("not committed", query=manifest.query, batch=manifest.batch, reason=str(pending.failure))
        finally:
            pending.done.set()

    async def _commit(self, served: ServedQuery, pending: PendingCommit) -> None:
        query = await self._opened(served, pending)
        await query.commit(pending.manifest)
        served.last_batch = query.decisions.history.last_batch

    async def _abandon(self, served: ServedQuery, pending: PendingCommit) -> None:
        while (until := pending.asked + ABANDONED_SECONDS) > trio.current_time():  # noqa: ASYNC110
            await trio.sleep_until(until)
        self._log.warning("abandoned", query=pending.manifest.query, batch=pending.manifest.batch)
        pending.scope.cancel()
        served.scope.cancel()

    async def _opened(self, served: ServedQuery, pending: PendingCommit) -> QueryRelay:
        """The query with its sinks, for this driver and these addresses."""
        manifest = pending.manifest
        is_open = served.open
        same = is_open is not None and (is_open.sinks, is_open.cookie) == (manifest.sinks, manifest.cookie)
        if is_open is not None and same and is_open.decisions.is_of(manifest, pending.claim):
            with contextlib.suppress(SupersededError):  # then it is opened again: its driver asks here, and not there
                await is_open.decisions.check()
                return is_open
        await self._close(served)
        decisions = DecisionLog(
            await self._volume(manifest.volume),
            checkpoint=manifest.checkpoint,
            query=manifest.query,
            place=manifest.place,
            claim=pending.claim,
            wall_ms=lambda: int(time.time() * 1000),
        )
        await decisions.open(sinks=manifest.sinks, relay=self._settings.name)
        served.last_batch = decisions.history.last_batch
        opened = QueryRelay(
            manifest,
            decisions=decisions,
            spool=self.spool,
            dial=self._dial,
            log=self._log,
            accept_duplicates=self._settings.accept_duplicates,
        )
        self._log.info("opened", query=manifest.query, generation=opened.generation, last_batch=served.last_batch)
        assert self._nursery is not None
        served.open, served.scope, served.closed = opened, trio.CancelScope(), trio.Event()
        self._nursery.start_soon(self._keep, served, opened)
        return opened

    async def _keep(self, served: ServedQuery, opened: QueryRelay) -> None:
        """A query's sinks, until it is closed or may not decide any more."""
        try:
            with served.scope:
                await opened.run()
        except* SosError as group:
            error = _as_journal_error(group)
            self._log.warning("closed", query=opened.query, reason=str(error))
            if served.pending is not None:
                if not isinstance(error, SupersededError):
                    served.pending.failure = error
                served.pending.scope.cancel()
        finally:
            if served.open is opened:
                served.open = None
            served.closed.set()

    async def _close(self, served: ServedQuery) -> None:
        if served.open is not None:
            served.scope.cancel()
            await served.closed.wait()

    async def _volume(self, name: str) -> WholeVolume:
        volume = self._volumes.get(name)
        if volume is None:
            if len(self._volumes) >= VOLUMES_MAX:
                raise refused(JournalCode.BAD_REQUEST, f"this relay keeps decisions on {VOLUMES_MAX} volumes already")
            access = self._settings.service
            volume = self._volumes[name] = await self._holding.enter_async_context(
                open_whole_volume(
                    access.addresses,
                    name,
                    token=access.token,
                    tls=access.tls,
                    insecure=access.insecure,
                    client_name="relay",
                    settings=ClientSettings(),
                )
            )
        return volume

    def _make_room(self) -> None:
        """A query that nobody has spoken of for longest is forgotten; what counts of it is on its volume."""
        if len(self._queries) < QUERIES_MAX:
            return
        idle = [
            name
            for name, served in self._queries.items()
            if not served.stale and (served.pending is None or served.pending.done.is_set())
        ]
        if not idle:
            raise UnavailableError(JournalCode.UNAVAILABLE, f"{QUERIES_MAX} queries are being committed at this relay")
        oldest = min(idle, key=lambda name: self._queries[name].seen)
        self._queries.pop(oldest).scope.cancel()

    def _waits_for(self, served: ServedQuery) -> str:
        if served.open is not None:
            return served.open.waits_for()
        return "waiting for the journal service, where its decisions are"

    def _why_cancelled(self, served: ServedQuery, pending: PendingCommit) -> JournalError:
        if self._stopping:
            return _stopping()
        if served.claim > pending.claim:
            return _fenced(served, pending.manifest.query)
        return journal_error(JournalCode.OUTCOME_UNKNOWN, "another relay has this query now, or had it: ask again")

    def described(self) -> dict[str, Any]:
        """For `status`."""
        return {
            "relay": self._settings.name,
            "spool_bytes": self.spool.bytes,
            "spool_bytes_max": self.spool.bytes_max,
            "committed": self.commits,
            "failed": self.failures,
            "queries": [query.described() for query in self.open_queries],
        }


def _check_latest(served: ServedQuery, query: str, claim: PathClaim) -> None:
    if claim < served.claim:
        raise _fenced(served, query)


def _fenced(served: ServedQuery, query: str) -> JournalError:
    return journal_error(
        JournalCode.FENCED,
        f"query {query} is run by {served.claim.application} now: this driver must end",
        {"path": query, "application": served.claim.application, "start_time": served.claim.start_time},
    )


def _stopping() -> JournalError:
    message = "the relay is being stopped; ask again: the batch may have been committed or not"
    return journal_error(JournalCode.OUTCOME_UNKNOWN, message)


def _as_journal_error(group: BaseExceptionGroup[SosError]) -> JournalError:
    first: Any = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, JournalError):
        return first
    return UnavailableError(JournalCode.UNAVAILABLE, str(first))
