"""One query at this relay: its decisions, its sinks, and the batch that is being committed.

Puts `coordinator` to work: tells it what the sinks and the volume do, and does what it says.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import trio

from connectors.relay.batch_rows import BatchRows
from connectors.relay.coordinator import (
    Command,
    Coordinator,
    Decide,
    Drop,
    Failed,
    Finished,
    SinkStanding,
    Stray,
    TransactionPhase,
)
from connectors.relay.sink_link import SINK_VERSION, SinkLink
from connectors.wire.frames import HelloFrame
from journal.errors import JournalCode, JournalError, UnavailableError, refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from connectors.relay.decision_log import DecisionLog
    from connectors.relay.manifest import BatchManifest
    from connectors.relay.spool import Spool
    from connectors.relay.staged_rows import StagedRun
    from sos_client.net.dialing import Dial
    from sos_client.serving.event_log import EventLog

PROGRAM: Final = "sos-connector"


class QueryRelay:
    """`run` it in a nursery when its log is open; then `commit`, one batch at a time."""

    def __init__(
        self,
        manifest: BatchManifest,
        *,
        decisions: DecisionLog,
        spool: Spool,
        dial: Dial,
        log: EventLog,
        accept_duplicates: bool,
    ) -> None:
        history = decisions.history
        self.query = manifest.query
        self.checkpoint = f"sos://{manifest.volume}/{manifest.checkpoint}"
        self.sinks = manifest.sinks
        self.cookie = manifest.cookie
        self.decisions = decisions
        self.transactions = 0
        self.refused_transactions = 0
        self._fresh = history.generation == 1 and not history.commits
        self._spool = spool
        self._log = log
        self._accept_duplicates = accept_duplicates
        self._coordinator = Coordinator(
            history.query,
            generation=history.generation,
            offsets=history.ends,
            commits=tuple(history.commits.items()),
        )
        hello = HelloFrame(version=SINK_VERSION, cookie=manifest.cookie, program=PROGRAM, instance=history.query)
        self.links = [
            SinkLink(number, address, dial=dial, hello=hello, events=self, rows=self._rows_of)
            for number, address in enumerate(manifest.sinks)
        ]
        self._claimed = [0] * len(self.links)
        self._rows: BatchRows | None = None
        self._row_count = 0
        self._plan = ""
        self._nursery: trio.Nursery | None = None
        self._outcome = trio.Event()
        self._failure: JournalError | None = None
        self._asked = False
        self._started = trio.current_time()

    @property
    def generation(self) -> int:
        return self.decisions.history.generation

    @property
    def transaction(self) -> str:
        return self._coordinator.transaction

    @property
    def phase(self) -> TransactionPhase:
        return self._coordinator.phase

    def standing(self, sink: int) -> SinkStanding:
        return self._coordinator.standings[sink]

    async def run(self) -> None:
        """Keep the sinks connected until cancelled. Raises why it cannot go on: another relay has taken over."""
        async with trio.open_nursery() as self._nursery:
            for link in self.links:
                self._nursery.start_soon(link.run)

    async def commit(self, manifest: BatchManifest) -> None:
        """Return when the batch is committed at every sink; JournalError when it is not and will not be.

        Cancelled: it may have been decided or not.
        """
        history = self.decisions.history
        last = history.last_batch
        plans = (manifest.plan, history.plan)
        is_planned_again = manifest.batch == last and "" not in plans and manifest.plan != history.plan
        if last is not None and (manifest.batch < last or is_planned_again) and not self._accept_duplicates:
            raise _rewound(manifest, last)
        if manifest.batch != last or is_planned_again:
            self._rows = BatchRows(self._spool, manifest)
            self._rows.check()
        self._row_count, self._plan = manifest.rows, manifest.plan
        self._outcome, self._failure, self._asked = trio.Event(), None, True
        self._started = trio.current_time()
        self._obey(self._coordinator.begin(manifest.batch, refusals_max=manifest.attempts, again=is_planned_again))
        await self._outcome.wait()
        if self._failure is not None:
            raise self._failure

    def waits_for(self) -> str:
        """Who is waited for, why, and for how long: a sentence."""
        seconds = trio.current_time() - self._started
        if self.decisions.waits_for:
            return f"waiting for the decision to be durable: {self.decisions.waits_for}, for {seconds:.0f} s"
        waits = []
        for number, link in enumerate(self.links):
            standing = self.standing(number)
            if standing is SinkStanding.AWAY:
                waits.append(f"sink {link.address} ({link.trouble})")
            elif standing not in (SinkStanding.SETTLED, SinkStanding.VOTED):
                waits.append(f"sink {link.address} ({standing.value})")
        return f"waiting for {'; '.join(waits) or 'the volume'}, for {seconds:.0f} s"

    # ── what sinks do (SinkEvents) ────────────────────────────────────────────────────────────────────────────────────

    async def check_still_ours(self) -> None:
        """A sink takes one connection of a query: a relay that was replaced must not take it from the next one."""
        with contextlib.suppress(UnavailableError):  # the volume: nothing is decided without it
            await self.decisions.check()

    def connected(self, sink: int) -> None:
        self._log.info("sink connected", query=self.query, sink=self.links[sink].address)
        self._obey(self._coordinator.connected(sink))

    def lost(self, sink: int) -> None:
        self._obey(self._coordinator.lost(sink))

    def introduced(self, sink: int, point_of_reference: int) -> None:
        """What sinks claim is not believed: Wallaroo's is wrong both ways. Unless --accept-duplicates says so."""
        self._claimed[sink] = point_of_reference
        believed = self._accept_duplicates and not self.decisions.history.commits
        if believed and point_of_reference != self._coordinator.offsets[sink]:
            self._coordinator.move(sink, point_of_reference)
            self.links[sink].drop("rows begin after what it has")

    def refused(self, sink: int, reason: str) -> None:
        """A query that never committed anything, and a sink that claims to have something, and complains."""
        if self._fresh and self._claimed[sink] > 0:
            self._fail(
                refused(
                    JournalCode.BAD_REQUEST,
                    f"sink {self.links[sink].address} refuses rows ({reason}): it has {self._claimed[sink]:,} bytes "
                    f"already, and query {self.query} has committed nothing there. They are of another query, or of "
                    "this one before its checkpoint was made new, or forked. Name a sink that has nothing",
                )
            )

    def prepared(self, sink: int, transaction: str, after: int) -> None:
        self._obey(self._coordinator.prepared(sink, transaction, after))

    def voted(self, sink: int, transaction: str, *, commit: bool) -> None:
        if not commit:
            self.refused_transactions += 1
            self._log.warning("vote to abort", query=self.query, sink=self.links[sink].address, transaction=transaction)
        self._obey(self._coordinator.voted(sink, transaction, commit=commit))

    def listed(self, sink: int, tag: int, transactions: Sequence[str]) -> None:
        self._obey(self._coordinator.listed(sink, tag, transactions))

    def unreadable(self, error: JournalError) -> None:
        self._fail(error)

    # ── what is done about it ─────────────────────────────────────────────────────────────────────────────────────────

    def _rows_of(self, sink: int) -> AsyncGenerator[StagedRun, None]:
        assert self._rows is not None, "a batch is being committed"
        return self._rows.of_sink(sink, len(self.links))

    def _obey(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Drop(sink=sink, reason=reason):
                    self.links[sink].drop(reason)
                case Decide():
                    assert self._nursery is not None
                    self._nursery.start_soon(self._decide, command)
                case Finished():
                    self._failure = None
                    self.transactions += 1
                    self._fresh = False
                    self._outcome.set()
                case Failed(sink=sink):
                    if sink is not None:
                        self._failure = self._refused_by(sink)
                    self._outcome.set()
                case Stray(sink=sink, transaction=transaction):
                    self._fail(stray := self._stray(sink, transaction))
                    self.links[sink].drop(str(stray))
                case _:
                    self.links[command.sink].send(command)

    async def _decide(self, decide: Decide) -> None:
        await self.decisions.commit(
            transaction=decide.transaction,
            batch=decide.batch,
            ends=decide.ends,
            rows=self._row_count,
            plan=self._plan,
        )
        self._log.info("committed", query=self.query, transaction=decide.transaction, rows=self._row_count)
        self._obey(self._coordinator.decided())

    def _fail(self, error: JournalError) -> None:
        """The batch cannot be committed, whatever the sinks do. What is prepared of it is ended."""
        if self._failure is None:
            self._failure = error
        self._obey(self._coordinator.give_up())

    def _refused_by(self, sink: int) -> JournalError:
        return refused(
            JournalCode.BAD_REQUEST,
            f"sink {self.links[sink].address} has voted to abort each time: nothing of the batch is at any sink. What "
            "the sink says about it is in its own log",
        )

    def _stray(self, sink: int, transaction: str) -> JournalError:
        return refused(
            JournalCode.BAD_REQUEST,
            f"sink {self.links[sink].address} has {transaction} prepared, of which this relay must not guess how it "
            "ended: the sink was put back to an old state, or a later relay is at work",
        )

    def described(self) -> dict[str, Any]:
        """For `status`."""
        history = self.decisions.history
        return {
            "query": self.query,
            "checkpoint": self.checkpoint,
            "generation": history.generation,
            "last_batch": history.last_batch,
            "transaction": self.transaction or None,
            "phase": self.phase.value,
            "waits_for": self.waits_for() if self._asked and not self._outcome.is_set() else None,
            "rows": history.rows,
            "sinks": [
                {
                    "address": link.address,
                    "standing": self.standing(number).value,
                    "offset": self._coordinator.offsets[number],
                    "connections": link.connections,
                    "trouble": None if link.connected_since is not None else link.trouble,
                    "bytes_sent": link.bytes_sent,
                    "acks_ignored": link.acks_ignored,
                }
                for number, link in enumerate(self.links)
            ],
        }


def _rewound(manifest: BatchManifest, last: int) -> JournalError:
    return refused(
        JournalCode.BAD_REQUEST,
        f"batch {manifest.batch} of query {manifest.query} is to be committed, and the sinks have "
        f"{'another ' if manifest.batch == last else ''}batch {last}: the "
        "checkpoint was put back to an earlier batch. Fork it, and give the fork sinks that have nothing; or "
        "start the relay with --accept-duplicates to send these batches once more",
    )
