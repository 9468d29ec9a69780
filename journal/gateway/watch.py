"""Looks at all sessions of a service now and then: who is too slow, who was idle too long, who waits for an answer.

One sweep, so that keeping time costs nothing per request. It compares what it sees with what it saw before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, JournalError, journal_error
from journal.gateway.phase import ConnectionPhase
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
    ConnectionPhase.IDLE: limits.IDLE_SECONDS_MAX,
    ConnectionPhase.WRITING: limits.WRITE_IDLE_SECONDS_MAX,
}


@dataclass(slots=True, kw_only=True)
class _Seen:
    turns: int
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
            if state.phase is ConnectionPhase.WORKING:
                if now - state.told >= limits.WAITING_SECONDS:
                    state.told = now
                    nursery.start_soon(session.say_waiting, quiet)
            elif quiet > _NOTHING_MAY_HAPPEN_SECONDS[state.phase]:
                session.give_up(_reason(state.phase))

    def _look(self, session: GatewaySession, now: float) -> _Seen:
        before = self._seen.get(session)
        if before is None or before.turns != session.turns or before.phase is not session.phase:
            return _Seen(turns=session.turns, phase=session.phase, since=now, told=now)
        return before


def _reason(phase: ConnectionPhase) -> JournalError:
    if phase is ConnectionPhase.IDLE:
        return journal_error(JournalCode.TOO_SLOW, "the connection was idle for too long; open another one")
    return journal_error(JournalCode.TOO_SLOW, f"too little happened in too long a time ({phase.value})")
