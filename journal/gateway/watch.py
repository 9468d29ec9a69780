"""Looks at all sessions of a service now and then: who is too slow, who was idle too long, who waits for an answer.

One sweep, so that keeping time costs nothing per request. It compares what it sees with what it saw before.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, JournalError, journal_error
from journal.gateway.phase import WAITED_FOR, ConnectionPhase
from journal.gateway.wire import limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    import trio

    from journal.gateway.session import GatewaySession

SWEEP_SECONDS: Final = 0.25
_NOTHING_MAY_HAPPEN_SECONDS: Final = {
    ConnectionPhase.GREETING: limits.FRAME_SECONDS_MAX,
    ConnectionPhase.RECEIVING: limits.FRAME_SECONDS_MAX,
    ConnectionPhase.SENDING: limits.FRAME_SECONDS_MAX,
    ConnectionPhase.WORKING: inf,
    ConnectionPhase.IDLE: limits.IDLE_SECONDS_MAX,
    ConnectionPhase.WRITING: limits.WRITE_IDLE_SECONDS_MAX,
}
_NOBODY_WAITS: Final = (ConnectionPhase.GREETING, ConnectionPhase.IDLE)


@dataclass(slots=True, kw_only=True)
class _Seen:
    turns: int
    said: int
    phase: ConnectionPhase
    since: float
    told: float


class Watch:
    """What was seen of each session. `sweep` is to be called every SWEEP_SECONDS."""

    def __init__(self) -> None:
        self._seen: dict[GatewaySession, _Seen] = {}

    def sweep(self, sessions: Iterable[GatewaySession], now: float, nursery: trio.Nursery) -> None:
        """End those that are too slow; let `nursery` tell those that wait for an answer that it is worked on."""
        seen = {session: self._look(session, now) for session in sessions}
        self._seen = seen  # of those that still are there
        for session, state in seen.items():
            quiet = now - state.since
            if now - state.told >= limits.WAITING_SECONDS and _is_waited_for(state.phase, quiet):
                state.told = now
                nursery.start_soon(session.say_waiting, quiet)
            if quiet > _NOTHING_MAY_HAPPEN_SECONDS[state.phase]:
                session.give_up(_reason(state.phase))

    def _look(self, session: GatewaySession, now: float) -> _Seen:
        before = self._seen.get(session)
        turns, said, phase = session.turns, session.said, session.phase
        if before is not None and before.turns == turns and before.phase is phase:
            return before
        # What came is no sign to who waits: a commit may lie behind megabytes that are worked off piece by piece.
        told = now
        if before is not None and before.said == said and before.phase not in _NOBODY_WAITS:
            told = before.told
        return _Seen(turns=turns, said=said, phase=phase, since=now, told=told)


def _is_waited_for(phase: ConnectionPhase, quiet: float) -> bool:
    """Between two pieces of a streamed write, too, as long as pieces come: the commit may be on its way."""
    return phase in WAITED_FOR or (phase is ConnectionPhase.WRITING and quiet == 0)


def _reason(phase: ConnectionPhase) -> JournalError:
    if phase is ConnectionPhase.IDLE:
        return journal_error(JournalCode.TOO_SLOW, "the connection was idle for too long; open another one")
    return journal_error(JournalCode.TOO_SLOW, f"too little happened in too long a time ({phase.value})")
