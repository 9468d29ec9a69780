"""The journal service's connections as a whole: a session for each, the watch over them, an orderly end.

Sockets come from sos_client.serving.listener (or from a test); volumes from whoever opened them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode, journal_error
from journal.gateway.session import GatewaySession
from journal.gateway.watch import SWEEP_SECONDS, Watch
from journal.gateway.wire import messages as m
from journal.gateway.wire.encoding import encode
from sos_client.net.poller import Poller

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.gateway.conversation import GatewaySurroundings
    from sos_client.serving.listener import Accepted

STOP_SECONDS: Final = 10.0
"""How long requests that are worked on when the service is told to stop may go on."""


class Gateway:
    """`run` in a nursery of the caller's, `converse` for each connection."""

    def __init__(self, surroundings: GatewaySurroundings) -> None:
        self._with = surroundings
        self._sessions: dict[GatewaySession, None] = {}  # in the order in which they came
        self._poller: Poller | None = None  # while it is served
        self._stopping = False
        self._empty = trio.Event()

    @property
    def connections(self) -> int:
        return len(self._sessions)

    async def run(self) -> None:
        """Serve the sockets' PUTs, and watch over the sessions, until cancelled."""
        watch = Watch()
        async with trio.open_nursery() as nursery:
            self._poller = Poller()
            nursery.start_soon(self._poller.run)
            while True:
                await trio.sleep(SWEEP_SECONDS)
                watch.sweep(self._sessions, trio.current_time(), nursery)
                self._end_expired(self._with.wall_clock())

    async def converse(self, accepted: Accepted) -> None:
        """Talk on an accepted connection until either side ends it. The listener closes it."""
        await self.talk(accepted.stream, peer=accepted.peer, greeted=accepted.greeted)

    async def talk(self, stream: trio.abc.Stream, *, peer: str, greeted: Callable[[], None] = lambda: None) -> None:
        session = GatewaySession(stream, surroundings=self._with, peer=peer, poller=self._poller, on_greeted=greeted)
        self._sessions[session] = None
        if self._stopping:
            session.leave()
        try:
            await session.run()
        finally:
            del self._sessions[session]
            if not self._sessions:
                self._empty.set()

    async def stop(self) -> None:
        """Let every session answer what it works on, for a bounded time, and end it."""
        self._stopping = True
        self._empty = trio.Event()
        for session in self._sessions:
            session.leave()
        if self._sessions:
            with trio.move_on_after(STOP_SECONDS):
                await self._empty.wait()
        for session in self._sessions:
            session.give_up(journal_error(JournalCode.SHUTTING_DOWN, "the service is shutting down"))

    def _end_expired(self, now: float) -> None:
        for session in self._sessions:
            if session.conversation.grant.expired(now):
                session.give_up(journal_error(JournalCode.AUTH, "the token of this connection has expired"))

    def reload_access(self, now: float) -> None:
        """The tokens have changed: end the sessions whose token is not valid now, give the others their new rights."""
        for session in self._sessions:
            if not session.greeted:  # its token has not come yet, and will be looked up among the new ones
                continue
            grant = self._with.access.current(session.conversation.grant, now=now)
            if grant is None:
                session.give_up(journal_error(JournalCode.AUTH, "the token of this connection is no longer valid"))
            else:
                session.conversation.grant = grant


def farewell(code: JournalCode, reason: str) -> bytes:
    """The ERROR for a peer that is turned away before there is a session."""
    fields = (("name", reason), ("maximum", None)) if code is JournalCode.LIMIT else ()
    return encode(m.RefusalAnswer(epoch=0, code=code, message=reason, fields=fields))
