"""Two-phase commit of a query's batches at K sinks: which message may go out when, and what a crash leaves to do.

Pure. Told what happened (a sink is connected, lost, has voted, lists what it has not ended; a decision is durable), it
says what to do next, as commands. It never asks a clock, so it never gives anybody up by itself.

The rules, each of which tests break to see that it is needed (docs/two-phase-commit.md has the argument):

1. A transaction begins when every sink has said, on the connection it has now, that nothing of this query is prepared.
2. It commits only if every sink has voted so, on that connection. A vote that was lost is an abort.
3. The decision is durable before the first phase 2 that commits. While it is being made, nothing is ended.
4. What is listed and was decided is committed; what is listed and was not decided is aborted.
5. A batch is committed when every sink no longer lists its transaction; only then the next one begins.
6. A batch that was decided is never sent again.

The log of decisions (`decision_log`) makes sure that no other relay decides. An id is never used again, so that
what logs say is clear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ASKS_MAX: Final = 4
"""A sink that still lists a transaction after this many phases 2 on one connection is given another connection."""


_TRANSACTION: Final = re.compile(
    r"(?P<query>.*):(?P<batch>[0-9]{1,20}):(?P<generation>[0-9]{1,20})\.[0-9]{1,20}", re.ASCII
)


class SinkStanding(Enum):
    """Where a sink is, as far as the coordinator knows."""

    AWAY = "not connected"
    ASKED = "asked what it has prepared"
    HELD = "waiting for a decision that is being made"
    SETTLED = "ready"
    SENDING = "being sent rows"
    VOTING = "asked to vote"
    VOTED = "has voted to commit"


class TransactionPhase(Enum):
    """Where the present transaction is."""

    NONE = "none"
    VOTING = "waiting for votes"
    DECIDING = "making the decision durable"
    COMMITTING = "telling the sinks that it is committed"
    ABORTING = "telling the sinks that it is aborted"


@dataclass(frozen=True, slots=True)
class AskUncommitted:
    """Send LIST_UNCOMMITTED to this sink."""

    sink: int
    tag: int


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Send PHASE_2 to this sink."""

    sink: int
    transaction: str
    commit: bool


@dataclass(frozen=True, slots=True)
class Prepare:
    """Send this sink its rows, from this offset, then PHASE_1. Say `prepared` when PHASE_1 is about to go out."""

    sink: int
    transaction: str
    first: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Close this sink's connection and open another: what it was sent and not asked to prepare, it forgets by that."""

    sink: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decide:
    """Make this durable, as a commit. Then say `decided`."""

    transaction: str
    batch: int
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The batch is committed at every sink."""

    batch: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The batch is given up. Nothing of it was or will be committed."""

    batch: int
    sink: int | None
    """That has voted to abort; None: it was given up."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A sink lists a transaction of which it must not be guessed how it ended.

    It is from before what is remembered, or from a later relay than this one.
    """

    sink: int
    transaction: str


Command = AskUncommitted | EndTransaction | Prepare | Drop | Decide | Finished | Failed | Stray


@dataclass(slots=True)
class BatchWork:
    """A batch that is to be committed."""

    batch: int
    refusals_max: int
    again: bool
    refusals: int = 0


class Coordinator:
    """One query's transactions in one generation: from when a relay took the query's decisions over, to the next one.

    `commits`: the transactions that were decided, as far as is remembered, oldest first, each with its batch.
    """

    def __init__(
        self, query: str, *, generation: int, offsets: Sequence[int], commits: Iterable[tuple[str, int]] = ()
    ) -> None:
        self.offsets = list(offsets)  # of each sink: where what is committed ends
        self.ends = list(offsets)  # of each sink: where the present transaction ends there
        self.standings = [SinkStanding.AWAY] * len(offsets)
        self.phase = TransactionPhase.NONE
        self.transaction = ""
        self.work: BatchWork | None = None
        self._query = query
        self._generation = generation
        self._commits = dict(commits)
        self._oldest = min(self._commits.values(), default=0)
        self.last_batch = next(reversed(self._commits.values()), None)
        self._attempts = 0
        self._tags = 0
        self._asked = [0] * len(offsets)  # the tag of the last question on this connection
        self._asks = [0] * len(offsets)
        self._confirmed: set[int] = set()
        self._refused_by = -1

    # ── what the driver wants ─────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, batch: int, *, refusals_max: int, again: bool = False) -> list[Command]:
        """Commit this batch. One at a time; `Finished` or `Failed` is its end.

        The last one was committed already, unless it is another one with its number, to be sent `again`.
        """
        assert self.work is None, "one batch at a time"
        self.work = BatchWork(batch, refusals_max, again)
        return self._go_on()

    def give_up(self) -> list[Command]:
        """The batch must not be tried again: it fails now. If it is being decided, or was, that goes on."""
        if self.work is None or self.phase in (TransactionPhase.DECIDING, TransactionPhase.COMMITTING):
            return []
        commands = self._abort() if self.phase is TransactionPhase.VOTING else []
        batch, self.work = self.work.batch, None
        return [*commands, Failed(batch, None)]

    def move(self, sink: int, offset: int) -> None:
        """What is committed at a sink ends there, somebody has said: before anything of this query is."""
        self.offsets[sink] = offset

    # ── what sinks do ─────────────────────────────────────────────────────────────────────────────────────────────────

    def connected(self, sink: int) -> list[Command]:
        """A new connection has been greeted."""
        self._asks[sink] = 0
        return [self._ask(sink)]

    def lost(self, sink: int) -> list[Command]:
        """Its connection is gone, with whatever was on its way in both directions."""
        in_round = self.standings[sink] in (SinkStanding.SENDING, SinkStanding.VOTING, SinkStanding.VOTED)
        self.standings[sink] = SinkStanding.AWAY
        if in_round and self.phase is TransactionPhase.VOTING:
            return self._abort()
        return []

    def prepared(self, sink: int, transaction: str, after: int) -> list[Command]:
        """All rows were sent up to this offset, and PHASE_1 follows them."""
        if transaction == self.transaction and self.standings[sink] is SinkStanding.SENDING:
            self.standings[sink] = SinkStanding.VOTING
            self.ends[sink] = after
        return []

    def voted(self, sink: int, transaction: str, *, commit: bool) -> list[Command]:
        """A vote of the present connection. One on an earlier transaction says nothing any more."""
        if transaction != self.transaction or self.standings[sink] is not SinkStanding.VOTING:
            return []
        if not commit:
            assert self.work is not None, "a transaction is of a batch"
            self.work.refusals += 1
            self._refused_by = sink
            return self._abort()
        self.standings[sink] = SinkStanding.VOTED
        if all(standing is SinkStanding.VOTED for standing in self.standings):
            return self._decide()
        return []

    def listed(self, sink: int, tag: int, transactions: Iterable[str]) -> list[Command]:
        """What a sink has prepared and not ended. The answer to an earlier question says nothing any more."""
        if self.standings[sink] is not SinkStanding.ASKED or tag != self._asked[sink]:
            return []
        if self.phase is TransactionPhase.DECIDING:  # whatever it lists: one that lists nothing is asked again after
            self.standings[sink] = SinkStanding.HELD
            return []
        ours = {transaction: place for transaction in transactions if (place := self._place_of(transaction))}
        if not ours:
            return self._settled(sink)
        if self._asks[sink] >= ASKS_MAX:
            self.standings[sink] = SinkStanding.AWAY
            return [Drop(sink, f"it still lists {next(iter(ours))}, which was ended")]
        for transaction, (batch, generation) in ours.items():
            forgotten = batch < self._oldest and transaction not in self._commits
            if forgotten or generation > self._generation:
                return [Stray(sink, transaction)]
        ends = [EndTransaction(sink, transaction, transaction in self._commits) for transaction in ours]
        return [*ends, self._ask(sink)]

    # ── what the volume does ──────────────────────────────────────────────────────────────────────────────────────────

    def decided(self) -> list[Command]:
        """The decision is durable."""
        assert self.phase is TransactionPhase.DECIDING, "a decision is being made"
        assert self.work is not None, "a decision is about a batch"
        self.phase = TransactionPhase.COMMITTING
        self._commits[self.transaction] = self.last_batch = self.work.batch
        self.offsets = list(self.ends)
        self._confirmed.clear()
        commands: list[Command] = []
        for sink, standing in enumerate(self.standings):
            if standing in (SinkStanding.VOTED, SinkStanding.HELD):
                commands += self._end(sink, commit=True)
        return commands

    # ── between ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _place_of(self, transaction: str) -> tuple[int, int] | None:
        """Batch and generation of a transaction of this query; None for another's."""
        found = _TRANSACTION.fullmatch(transaction)
        if found is None or found["query"] != self._query:
            return None
        return int(found["batch"]), int(found["generation"])

    def _ask(self, sink: int) -> AskUncommitted:
        self._tags += 1
        self._asked[sink] = self._tags
        self._asks[sink] += 1
        self.standings[sink] = SinkStanding.ASKED
        return AskUncommitted(sink, self._tags)

    def _end(self, sink: int, *, commit: bool) -> list[Command]:
        self._asks[sink] = 0
        return [EndTransaction(sink, self.transaction, commit), self._ask(sink)]

    def _settled(self, sink: int) -> list[Command]:
        self.standings[sink] = SinkStanding.SETTLED
        if self.phase is TransactionPhase.COMMITTING:
            self._confirmed.add(sink)
            if len(self._confirmed) < len(self.standings):
                return []
            assert self.work is not None, "it is being committed"
            return self._finish(self.work)
        return self._go_on()

    def _finish(self, work: BatchWork) -> list[Command]:
        self.work = None
        self._over()
        return [Finished(work.batch)]

    def _go_on(self) -> list[Command]:
        """Begin what can begin: when all sinks are settled."""
        if any(standing is not SinkStanding.SETTLED for standing in self.standings):
            return []
        if self.phase is TransactionPhase.ABORTING:
            self._over()
        if self.work is None:
            return []
        if self.work.batch == self.last_batch and not self.work.again:
            return self._finish(self.work)
        if self.work.refusals >= self.work.refusals_max:
            batch, self.work = self.work.batch, None
            return [Failed(batch, self._refused_by)]
        return self._start(self.work)

    def _start(self, work: BatchWork) -> list[Command]:
        self._attempts += 1
        self.transaction = f"{self._query}:{work.batch}:{self._generation}.{self._attempts}"
        self.phase = TransactionPhase.VOTING
        self.ends = list(self.offsets)
        self.standings = [SinkStanding.SENDING] * len(self.standings)
        return [Prepare(sink, self.transaction, first) for sink, first in enumerate(self.offsets)]

    def _decide(self) -> list[Command]:
        assert self.work is not None, "a transaction is of a batch"
        self.phase = TransactionPhase.DECIDING
        return [Decide(self.transaction, self.work.batch, tuple(self.ends))]

    def _abort(self) -> list[Command]:
        """Undecided, so that nobody has committed it: end it wherever it may be prepared."""
        self.phase = TransactionPhase.ABORTING
        commands: list[Command] = []
        for sink, standing in enumerate(self.standings):
            if standing in (SinkStanding.VOTING, SinkStanding.VOTED):
                commands += self._end(sink, commit=False)
            elif standing is SinkStanding.SENDING:  # there is no phase 2 without a phase 1
                self.standings[sink] = SinkStanding.AWAY
                commands.append(Drop(sink, "the transaction was aborted while rows were on their way"))
        return commands

    def _over(self) -> None:
        self.phase = TransactionPhase.NONE
        self.transaction = ""
