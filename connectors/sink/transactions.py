"""A sink's transactions: what the program is asked to do for each, and what is in the log before and after.

The order of things is what makes it right. Prepare: the program has the rows durable, then the log says so, then the
vote goes out. Commit: the program commits, then the log says so; a crash in between makes it commit again.
"""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from connectors.sink.sink_history import SinkTransaction
from connectors.sink.sink_rows import SinkRows
from connectors.sink.sink_rules import SinkRules
from connectors.wire.limits import DATA_STREAM
from sos_client.wire.errors import ProtocolError, SosError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from connectors.sink.sink_history import SinkHistory
    from connectors.sink.sink_log import SinkLog
    from connectors.sink.sink_rows import SinkRow
    from connectors.wire.row_run import RowRun

    Receive = Callable[[Sequence[SinkRow]], Awaitable[None] | None]
    Prepare = Callable[[SinkTransaction], Awaitable[bool] | bool]
    End = Callable[[SinkTransaction], Awaitable[None] | None]


class SinkUnavailableError(SosError):
    """What a sink's functions raise when they cannot now: the relay is hung up on with this reason, and comes again."""


class SinkTransactions:
    """One connection at a time. What the four functions raise, but SinkUnavailableError, is logged and ends it."""

    def __init__(
        self,
        log: SinkLog,
        receive: Receive,
        prepare: Prepare,
        commit: End,
        abort: End,
        *,
        rules: SinkRules | None = None,
    ) -> None:
        self.offset = 0
        self.rules = rules or SinkRules()
        self._log = log
        self._receive = receive
        self._prepare = prepare
        self._commit = commit
        self._abort = abort
        self._rows = 0  # since what was committed
        self._refuse = False
        self._present: trio.CancelScope | None = None
        self._alone = trio.Lock()

    @property
    def history(self) -> SinkHistory:
        return self._log.history

    @asynccontextmanager
    async def of_connection(self, instance: str) -> AsyncIterator[None]:
        """The block is this connection's; it ends when the same relay, or its successor, connects again.

        ProtocolError when this sink has rows of another query.
        """
        history = self.history
        if history.instance and instance != history.instance and (history.rows or history.prepared or history.last):
            raise ProtocolError(
                f"this sink has rows of {history.instance}, and none of {instance} can be added: each query needs "
                "sinks of its own"
            )
        if self._present is not None:
            self._present.cancel()
        async with self._alone:
            with trio.CancelScope() as self._present:
                if instance != history.instance:
                    await self._write("instance", instance=instance)
                await self._forget()
                yield
                return
            raise ProtocolError("the same relay, or the next one, has connected again")

    async def receive(self, runs: Sequence[RowRun]) -> None:
        """Rows that follow each other. ProtocolError when they do not begin where the last ones end."""
        if self.history.prepared:
            raise ProtocolError("rows come before what is prepared was ended")
        for run in runs:
            if run.first != self.offset:
                raise ProtocolError(f"a row at offset {run.first}, where {self.offset} follows")
            self.offset = run.after
            if self.rules.contents and any(map(self.rules.refuse_row, run.values)):
                self._refuse = True
            self._rows += len(run.values)
        await self._call(self._receive, SinkRows(runs))

    async def prepare(self, name: str, ranges: tuple[tuple[int, int, int], ...], *, vote: bool | None) -> bool:
        """The vote, when it is durable. `vote`: what a rule wants it to be."""
        history = self.history
        if history.prepared:
            raise ProtocolError("phase 1 comes before what is prepared was ended")
        transaction = SinkTransaction(
            id=name, first=history.end, after=self.offset, first_row=history.rows, rows=self._rows
        )
        wanted = vote is not False and not self._refuse
        as_sent = ranges == ((DATA_STREAM, transaction.first, transaction.after),)
        voted = bool(wanted and as_sent and await self._call(self._prepare, transaction))
        await self._write(
            "prepared",
            transaction=name,
            vote=voted,
            first=transaction.first,
            after=transaction.after,
            rows=transaction.rows,
            **({} if as_sent else {"why": f"phase 1 names {ranges}, which is not what came"}),
        )
        self._refuse = False
        return voted

    async def end(self, name: str, *, commit: bool) -> None:
        """Phase 2. Of a transaction that is not prepared it says nothing new: it was ended before."""
        prepared = self.history.prepared.get(name)
        if prepared is None:
            return
        transaction, vote = prepared
        if commit and not vote:
            raise ProtocolError(f"{name} is to be committed, and was voted to abort")
        if commit:
            await self._call(self._commit, transaction)
            await self._write("committed", transaction=name)
            self._rows = 0
        else:
            await self._call(self._abort, transaction)
            await self._write("aborted", transaction=name)
            self.offset, self._rows = transaction.first, 0

    async def _forget(self) -> None:
        """What came and was not prepared, on an earlier connection or in an earlier life of this program."""
        history, held = self.history, self.history.held
        self.offset = history.end if held is None else held.after
        first_row = history.rows if held is None else held.first_row + held.rows
        nothing = SinkTransaction(id="", first=self.offset, after=self.offset, first_row=first_row, rows=0)
        await self._call(self._abort, nothing)
        self._rows, self._refuse = 0, False

    async def _write(self, kind: str, **fields: Any) -> None:
        await trio.to_thread.run_sync(lambda: self._log.write(kind, **fields))

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Of the program: a coroutine is awaited, another function is called in a thread, since it may wait for a disk.

        Not cancelled half way: what was begun is ended, and then in the log.
        """
        with trio.CancelScope(shield=True):
            if inspect.iscoroutinefunction(function):
                return await function(*args)
            return await trio.to_thread.run_sync(function, *args)
