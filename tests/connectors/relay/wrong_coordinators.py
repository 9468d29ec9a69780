"""Coordinators that break one rule each. The exploration has to find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.relay.coordinator import (
    Command,
    Coordinator,
    EndTransaction,
    SinkStanding,
    TransactionPhase,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class AsksNobody(Coordinator):
    """Rule 1: begins on a new connection without asking what is prepared: phase 2 is forgotten on restart."""

    def connected(self, sink: int) -> list[Command]:
        return self._settled(sink)


class BeginsEarly(Coordinator):
    """Rule 1: begins when some sinks are ready, and the others at least connected."""

    def _go_on(self) -> list[Command]:
        if all(standing in (SinkStanding.SETTLED, SinkStanding.ASKED) for standing in self.standings):
            self.standings = [SinkStanding.SETTLED] * len(self.standings)
        return super()._go_on()


class TakesSilenceForConsent(Coordinator):
    """Rule 2: a vote that was lost is a commit."""

    def lost(self, sink: int) -> list[Command]:
        if self.standings[sink] is SinkStanding.VOTING and self.phase is TransactionPhase.VOTING:
            return self.voted(sink, self.transaction, commit=True)
        return super().lost(sink)


class DoesNotWaitForAll(Coordinator):
    """Rule 2: the first vote decides."""

    def voted(self, sink: int, transaction: str, *, commit: bool) -> list[Command]:
        if commit and transaction == self.transaction and self.standings[sink] is SinkStanding.VOTING:
            self.standings[sink] = SinkStanding.VOTED
            return self._decide() if self.phase is TransactionPhase.VOTING else []
        return super().voted(sink, transaction, commit=commit)


class DecidesAfterPhaseTwo(Coordinator):
    """Rule 3: the sinks are told before the decision is durable."""

    def _decide(self) -> list[Command]:
        ends = [EndTransaction(sink, self.transaction, commit=True) for sink in range(len(self.standings))]
        return [*ends, *super()._decide()]


class GivesUpWhileDeciding(Coordinator):
    """Rule 3: a sink that is lost while the decision is made is taken for an abort."""

    def lost(self, sink: int) -> list[Command]:
        if self.phase is TransactionPhase.DECIDING:
            self.phase = TransactionPhase.VOTING
        return super().lost(sink)

    def decided(self) -> list[Command]:
        return super().decided() if self.phase is TransactionPhase.DECIDING else []


class EndsWhileDeciding(Coordinator):
    """Rule 3: what is listed while its decision is made is aborted, since it is not decided yet."""

    def listed(self, sink: int, tag: int, transactions: Iterable[str]) -> list[Command]:
        phase = self.phase
        if phase is TransactionPhase.DECIDING:
            self.phase = TransactionPhase.ABORTING
            commands = super().listed(sink, tag, transactions)
            self.phase = phase
            return commands
        return super().listed(sink, tag, transactions)


class AbortsWhatIsListed(Coordinator):
    """Rule 4: after a restart everything that is prepared is aborted."""

    def __init__(self, query: str, *, generation: int, offsets: list[int], commits: list[tuple[str, int]]) -> None:
        super().__init__(query, generation=generation, offsets=offsets, commits=commits)
        self._commits = {}


class CommitsWhatIsListed(Coordinator):
    """Rule 4: after a restart everything that is prepared is committed."""

    def listed(self, sink: int, tag: int, transactions: Iterable[str]) -> list[Command]:
        listed = tuple(transactions)
        for transaction in listed:
            self._commits.setdefault(transaction, 0)
        return super().listed(sink, tag, listed)


class BelievesPhaseTwo(Coordinator):
    """Rule 5: a batch is committed when phase 2 was sent."""

    def decided(self) -> list[Command]:
        commands = super().decided()
        assert self.work is not None
        return [*commands, *self._finish(self.work)]


class RunsAgain(Coordinator):
    """Rule 5: a batch that was decided is sent again when it is asked for again."""

    def begin(self, batch: int, *, refusals_max: int, again: bool = False) -> list[Command]:
        del again
        return super().begin(batch, refusals_max=refusals_max, again=True)


class SkipsTheAbort(Coordinator):
    """Rule 4: the next attempt begins without an end of the last one."""

    def _abort(self) -> list[Command]:
        return [command for command in super()._abort() if not isinstance(command, EndTransaction)]

    def listed(self, sink: int, tag: int, transactions: Iterable[str]) -> list[Command]:
        return super().listed(sink, tag, [one for one in transactions if one in self._commits])


BROKEN: tuple[tuple[type[Coordinator], int, int], ...] = (
    (AsksNobody, 1, 1),
    (BeginsEarly, 1, 1),
    (TakesSilenceForConsent, 1, 1),
    (DoesNotWaitForAll, 2, 1),
    (DecidesAfterPhaseTwo, 1, 1),
    (GivesUpWhileDeciding, 1, 2),
    (EndsWhileDeciding, 1, 1),
    (AbortsWhatIsListed, 1, 1),
    (CommitsWhatIsListed, 1, 1),
    (BelievesPhaseTwo, 1, 1),
    (RunsAgain, 1, 1),
    (SkipsTheAbort, 1, 1),
)
"""Each with the sinks and faults that it takes to see what is wrong with it."""
