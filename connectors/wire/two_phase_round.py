"""What may be said when in the two-phase commit of one sink's connection. The legal moves are data: `ROUND_MOVES`.

Pure. It keeps order on one connection; what a transaction is worth after a crash is for `coordinator` and sink to know.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from connectors.wire.two_phase import (
    ListUncommitted,
    PhaseOne,
    PhaseTwo,
    ReplyUncommitted,
    TwoPhaseMessage,
    Vote,
    WorkersLeft,
)
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping


class RoundState(Enum):
    """Where a round is."""

    BETWEEN = "between rounds"
    VOTING = "waiting for a vote"
    VOTED = "waiting for phase 2"


class RoundMove(Enum):
    """What a message is to a round. Ending another transaction than that of the round is another move."""

    DATA = "a message of a data stream"
    PHASE_1 = "PHASE_1"
    VOTE = "REPLY"
    LATE_VOTE = "REPLY of a round that was ended without it"
    PHASE_2 = "PHASE_2"
    PHASE_2_OF_EARLIER = "PHASE_2 of an earlier transaction"
    LIST = "LIST_UNCOMMITTED"
    LISTED = "REPLY_UNCOMMITTED"
    WORKERS_LEFT = "WORKERS_LEFT"


ROUND_MOVES: Final[Mapping[tuple[RoundState, RoundMove], RoundState]] = {
    (RoundState.BETWEEN, RoundMove.DATA): RoundState.BETWEEN,
    (RoundState.BETWEEN, RoundMove.PHASE_1): RoundState.VOTING,
    (RoundState.VOTING, RoundMove.VOTE): RoundState.VOTED,
    (RoundState.VOTED, RoundMove.PHASE_2): RoundState.BETWEEN,
    (RoundState.VOTING, RoundMove.PHASE_2): RoundState.BETWEEN,
    (RoundState.BETWEEN, RoundMove.LATE_VOTE): RoundState.BETWEEN,
    (RoundState.VOTING, RoundMove.LATE_VOTE): RoundState.VOTING,
    (RoundState.VOTED, RoundMove.LATE_VOTE): RoundState.VOTED,
    # Recovery: what an earlier connection left in doubt.
    (RoundState.BETWEEN, RoundMove.PHASE_2_OF_EARLIER): RoundState.BETWEEN,
    (RoundState.BETWEEN, RoundMove.LIST): RoundState.BETWEEN,
    (RoundState.BETWEEN, RoundMove.LISTED): RoundState.BETWEEN,
    (RoundState.BETWEEN, RoundMove.WORKERS_LEFT): RoundState.BETWEEN,
}

ABORTS_ONLY: Final = frozenset({(RoundState.VOTING, RoundMove.PHASE_2)})
"""Moves that may not commit: before the vote a round ends only because another sink has voted abort already."""

_OF_RELAY: Final = (ListUncommitted, PhaseOne, PhaseTwo, WorkersLeft)


class TwoPhaseRound:
    """The round of one connection."""

    def __init__(self) -> None:
        self.state = RoundState.BETWEEN
        self.transaction: str | None = None
        self._tags: set[int] = set()
        self._votes_due: set[str] = set()

    @property
    def takes_data(self) -> bool:
        """Whether a message of a data stream may come now."""
        return (self.state, RoundMove.DATA) in ROUND_MOVES

    def see_data(self) -> None:
        """A message of a data stream. ProtocolError between phase 1 and phase 2."""
        self._move(RoundMove.DATA)

    def see(self, message: TwoPhaseMessage, *, of_relay: bool) -> None:
        """Make the move of a message, sent or received. ProtocolError when it is not allowed."""
        if of_relay is not isinstance(message, _OF_RELAY):
            raise ProtocolError(f"{type(message).__name__} is not said by a {'relay' if of_relay else 'sink'}")
        match message:
            case PhaseOne(transaction=transaction):
                self._move(RoundMove.PHASE_1)
                self.transaction = transaction
                self._votes_due.add(transaction)
            case Vote(transaction=transaction):
                if transaction not in self._votes_due:
                    raise ProtocolError(f"a vote on {transaction!r}, which nobody asked for")
                self._move(RoundMove.VOTE if transaction == self.transaction else RoundMove.LATE_VOTE)
                self._votes_due.remove(transaction)
            case PhaseTwo(transaction=transaction, commit=commit):
                self._end(transaction, commit=commit)
            case ListUncommitted(tag=tag):
                self._move(RoundMove.LIST)
                self._tags.add(tag)
            case ReplyUncommitted(tag=tag):
                if tag not in self._tags:
                    raise ProtocolError(f"an answer to LIST_UNCOMMITTED {tag}, which nobody asked")
                self._move(RoundMove.LISTED)
                self._tags.remove(tag)
            case _:
                self._move(RoundMove.WORKERS_LEFT)

    def _end(self, transaction: str, *, commit: bool) -> None:
        if transaction != self.transaction:
            self._move(RoundMove.PHASE_2_OF_EARLIER)
            return
        if commit and (self.state, RoundMove.PHASE_2) in ABORTS_ONLY:
            raise ProtocolError(f"{transaction!r} is committed before it was voted on")
        self._move(RoundMove.PHASE_2)
        self.transaction = None

    def _move(self, move: RoundMove) -> None:
        after = ROUND_MOVES.get((self.state, move))
        if after is None:
            raise ProtocolError(f"{move.value} is not allowed {self.state.value}")
        self.state = after
