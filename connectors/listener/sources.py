"""All connections of a listener: a session for each while the ingest volume is this process's, and the watch over them.

Sockets come from `sos_client.serving.listener` (or from a test), the ingest log from whoever owns the volume.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

from connectors.listener.active_streams import ActiveStreams
from connectors.listener.source_session import SourceSession
from connectors.listener.stream_room import StreamRoom
from connectors.wire.codec import encode
from connectors.wire.frames import ErrorFrame
from sos_client.serving.pace import Pace, PaceLimits
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from connectors.ingest.ingest_log import IngestLog
    from connectors.listener.admission import SourceAdmission
    from connectors.listener.settings import ProtocolSettings
    from connectors.registry.stream_registry import StreamRegistry
    from connectors.wire.frames import HelloFrame
    from sos_client.serving.access import Grant
    from sos_client.serving.event_log import EventLog
    from sos_client.serving.listener import Accepted

SWEEP_SECONDS: Final = 2.0
PACE: Final = PaceLimits(window_seconds=30.0, bytes_per_second_min=64.0)
"""For who has begun a frame: one byte a minute does not keep a connection."""
HELD_BYTES_MAX: Final = 64 << 20
"""Of frames that have begun on all connections together, looked at with each sweep."""
STOP_SECONDS: Final = 5.0
"""How long what has come in may take to become durable when the listener is told to stop."""


class Sources:
    """`converse` for each connection, `serving` while there is an ingest log, `run` in a nursery of the caller's."""

    def __init__(self, settings: ProtocolSettings, log: EventLog, admission: SourceAdmission) -> None:
        self.settings = settings
        self.messages = 0
        """Of connections that have ended."""
        self._admission = admission
        self._log = log
        self._ingest: IngestLog | None = None
        self._registry: StreamRegistry | None = None
        self._room: StreamRoom | None = None
        self._sessions: dict[SourceSession, Pace] = {}
        self._grants: dict[SourceSession, Grant] = {}
        self._active: ActiveStreams[SourceSession] = ActiveStreams()
        self._empty = trio.Event()
        self._moved_to: str | None = None
        self._said = ""  # of new streams that were refused

    @property
    def ingest(self) -> IngestLog | None:
        """The log, while this process owns its volume."""
        return self._ingest

    @property
    def sessions(self) -> list[SourceSession]:
        """The connections that there are."""
        return list(self._sessions)

    @property
    def no_new_streams(self) -> str:
        """Why a new stream was refused lately; empty: none was."""
        return self._room.refused if self._room is not None else ""

    def streams_in_use(self) -> Iterator[tuple[int, str]]:
        """Each stream that a connection has open, and the peer."""
        return ((stream_id, session.peer) for stream_id, session in self._active)

    @contextmanager
    def serving(self, ingest: IngestLog, registry: StreamRegistry | None = None) -> Iterator[None]:
        """In the block, sources are taken; at its end all of them are let go, and connect again.

        `registry`: of the streams of several listeners; None: this is the only one.
        """
        self._ingest, self._registry, self._room = ingest, registry, StreamRoom(ingest.accepted)
        try:
            yield
        finally:
            self._ingest = self._registry = self._room = None
            for session in self._sessions:
                session.drop("")

    async def run(self) -> None:
        """Watch over the connections, until cancelled."""
        while True:
            await trio.sleep(SWEEP_SECONDS)
            now = trio.current_time()
            for session, pace in self._sessions.items():
                session.sweep()
                if pace.too_slow(now, owing=session.owing):
                    session.drop("too little came in too long a time, so the listener gave up waiting")
            self._end_unadmitted()
            self._bound_held_bytes()
            self._say_refusals()

    async def converse(self, accepted: Accepted) -> None:
        """Talk on an accepted connection until either side ends it. The listener closes it."""
        if self._ingest is None or self._room is None or self._moved_to is not None:
            self._log.warning("source refused", peer=accepted.peer, reason="the volume is not here now")
            return  # it connects again, here or elsewhere

        def greeted(hello: HelloFrame) -> str:
            self._grants[session] = grant = self._admission.admit(hello.cookie)
            accepted.greeted()
            self._log.info(
                "source connected",
                peer=accepted.peer,
                program=hello.program[:100],
                instance=hello.instance[:100],
                token=grant.name,
            )
            return grant.name if self._admission.by_token else ""

        session = SourceSession(
            accepted.stream,
            peer=accepted.peer,
            log=self._ingest,
            active=self._active,
            registry=self._registry,
            room=self._room,
            settings=self.settings,
            on_greeted=greeted,
        )
        self._sessions[session] = Pace(PACE, lambda: accepted.transport.bytes_moved)
        reason = "unknown"
        try:
            reason = await session.run()
        finally:
            del self._sessions[session]
            self._grants.pop(session, None)
            self.messages += session.messages
            if not self._sessions:
                self._empty.set()
            event = "source gone" if session.hello is not None else "source refused"
            self._log.info(event, peer=accepted.peer, reason=reason, messages=session.messages)

    async def stop(self, address: str = "") -> None:
        """Tell every source what is durable, and let it go: to this address if there is one. Within a bounded time."""
        self._moved_to = address
        self._empty = trio.Event()
        for session in self._sessions:
            session.leave(address)
        if self._sessions:
            with trio.move_on_after(STOP_SECONDS):
                await self._empty.wait()
        for session in self._sessions:
            session.drop("")

    def reload(self) -> None:
        """Tokens again. SettingsError, and nothing changes, when they are not in order."""
        self._admission.reload()
        self._end_unadmitted()

    def _end_unadmitted(self) -> None:
        """Those whose token has expired, or was taken away."""
        for session, grant in list(self._grants.items()):
            try:
                self._grants[session] = self._admission.current(grant)
            except ProtocolError as error:
                session.drop(str(error))

    def _say_refusals(self) -> None:
        """Of new streams, once for each reason: the protocol has no words for it."""
        if self.no_new_streams not in ("", self._said):
            self._log.warning("new streams refused", reason=self.no_new_streams)
        self._said = self.no_new_streams

    def _bound_held_bytes(self) -> None:
        """Frames that have begun: too many of them, and those who hold most have to begin again."""
        held = sorted(self._sessions, key=lambda session: session.held_bytes)
        total = sum(session.held_bytes for session in held)
        while total > HELD_BYTES_MAX:
            largest = held.pop()
            total -= largest.held_bytes
            largest.drop("")


def farewell(reason: str) -> bytes:
    """The ERROR for a peer that is turned away before there is a session."""
    return encode(ErrorFrame(reason=reason))
