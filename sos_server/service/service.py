"""The service itself, without sockets: sessions over any stream, their supervision, reload and stop.

``serve`` puts it on TCP; the simulator runs it over its own network. What a session does is in ``session``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from sos_client.net.poller import Poller
from sos_client.serving.access import AccessRules
from sos_client.serving.containment import concerns_all
from sos_client.serving.pace import PaceLimits
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.config import LimitsSection
from sos_server.service.held_frames import HeldFrames
from sos_server.service.metrics import Traffic
from sos_server.service.reading import ReadShare
from sos_server.service.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_client.net.plain_stream import PlainStream
    from sos_client.serving.event_log import EventLog
    from sos_server.store.object_store import ObjectStore

CHECKS_PER_WINDOW: Final = 4
"""How often every connection is looked at within the time over which its pace is measured."""


class Service:
    """All conversations about one store. ``run`` must be running while there are any."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        log: EventLog,
        wall_clock: Callable[[], float],
        nursery: trio.Nursery,
        access: AccessRules | None = None,
        limits: LimitsSection | None = None,
    ) -> None:
        """``nursery`` is where answers wait for peers that are slow to take them; it outlives all conversations."""
        self.store = store
        self.log = log
        self.wall_clock = wall_clock
        self.nursery = nursery
        self.access = access or AccessRules(None)
        self.limits = limits or LimitsSection()
        self.traffic = Traffic()
        self.held_frames = HeldFrames()
        self.share = ReadShare(self.limits.read_bytes_max)
        self.poller = Poller(store.begin_round, store.end_round)
        self.sessions: dict[Session, None] = {}  # not a set: its order would differ from run to run
        self._stopping = False
        self._all_left = trio.Event()

    async def run(self) -> None:
        """Serve plain sockets and look after all connections, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.poller.run)
            while True:
                await trio.sleep(self.limits.pace_seconds / CHECKS_PER_WINDOW)
                now = trio.current_time()
                for session in list(self.sessions):
                    self._check(session, now)

    async def converse(
        self,
        stream: trio.abc.Stream,
        *,
        peer: str,
        transport: PlainStream | None = None,
        greeted: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve one connection to its end; ``greeted`` is called after a valid HELLO. The caller closes the stream.

        Raises what nobody foresaw: the end of this connection and, unless it is a SharedStateError, of no other.
        """
        session = Session(self, stream, peer=peer, transport=transport, greeted=greeted)
        self.sessions[session] = None
        self.traffic.sessions += 1
        if self._stopping:
            session.end(RefusedError(ErrorCode.SHUTTING_DOWN))
        try:
            await session.run()
        finally:
            del self.sessions[session]
            if self._stopping and not self.sessions:
                self._all_left.set()

    @staticmethod
    def _check(session: Session, now: float) -> None:
        try:
            session.check(now)
        except Exception as error:
            if concerns_all(error):
                raise
            session.fail(error)

    @property
    def pace_limits(self) -> PaceLimits:
        limits = self.limits
        return PaceLimits(window_seconds=limits.pace_seconds, bytes_per_second_min=limits.pace_bytes_per_second_min)

    def use_limits(self, limits: LimitsSection) -> None:
        """From now on; frames and pace of connections that are open are measured as before."""
        self.limits = limits
        self.share.bytes_max = limits.read_bytes_max

    def recheck_access(self) -> None:
        """After the tokens were loaded again: what a token may do is what the file says now."""
        now = self.wall_clock()
        for session in self.sessions:
            if session.grant is not None:
                grant = self.access.current(session.grant, now=now)
                if grant is None:
                    session.revoke(
                        RefusedError(ErrorCode.AUTH, f"the token {session.grant.name!r} is not valid any more")
                    )
                else:
                    session.regrant(grant)

    async def stop(self) -> None:
        """Finish what is being done, acknowledge it, tell every peer, and return when all have been left."""
        self._stopping = True
        for session in list(self.sessions):
            session.end(RefusedError(ErrorCode.SHUTTING_DOWN))
        if self.sessions:
            await self._all_left.wait()
