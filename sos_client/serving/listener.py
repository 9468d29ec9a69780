"""Accepting connections: TCP sockets, how many connections in all and per peer, and TLS before anything else is read.

What is spoken on a connection is not known here: ``serve`` hands each accepted one to its ``converse``, and keeps what
goes wrong there from the other connections.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from sos_client.net.addresses import Address
from sos_client.net.plain_stream import PlainStream
from sos_client.serving.containment import concerns_all
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from sos_client.serving.event_log import EventLog
    from sos_client.serving.tls import ServerTls

BACKLOG: Final = 4096
ACCEPTS_PER_TURN_MAX: Final = 64
"""This many connections are accepted before those that are open get their turn."""
NO_HANDLES_PAUSE_SECONDS: Final = 0.2
LEAVING_MAX: Final = 64
"""This many peers that were turned away may take their time to read why; the others find the connection closed."""
PRESSED_SECONDS: Final = 1.0
"""A stranger that has had this much time gives way to one who comes, when there is no room for both."""
SPARE_HANDLES: Final = 256
"""File handles kept for everything that is not a connection."""

_TLS_HANDSHAKE_RECORD: Final = 0x16
# Of the connection that was to be accepted, which accept(2) passes on, and of firewalls.
_TRANSIENT: Final = {
    errno.ECONNABORTED,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENONET,
    errno.ENOPROTOOPT,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.EPROTO,
}
_NO_HANDLES: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    connections_max: int = 4096
    connections_per_peer_max: int = 2048
    handshake_seconds: float = 10.0
    """For TLS, and for saying who one is."""
    strangers_max: int = 2048
    """Connections that have not shown a valid token: whoever has one finds the other half of the room free of them."""
    strangers_per_peer_max: int = 256
    pressed_seconds: float = PRESSED_SECONDS


@dataclass(eq=False, slots=True, kw_only=True)
class Stranger:
    """A connection on which nothing valid was said so far."""

    host: str
    since: float
    scope: trio.CancelScope
    ousted: bool = False
    """Its place was given to another before its task could end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A connection that may be talked on: ``stream`` to talk, ``transport`` the TCP connection below it.

    ``greeted`` is to be called as soon as the peer has shown that it may come in. Others may be closed at any time.
    """

    stream: trio.abc.Stream
    transport: PlainStream
    peer: str
    greeted: Callable[[], None]


Converse = Callable[[Accepted], Awaitable[None]]
Farewell = Callable[[str], bytes]
"""What to send, in the protocol of the server, to a peer that cannot be served, for this reason."""


def check_exposure(address: Address, *, tls: bool, tokens: bool, insecure: bool) -> None:
    """SettingsError when other machines could reach this address without TLS and tokens, and nobody asked for that."""
    if insecure or (tls and tokens) or address.loopback:
        return
    missing = " and ".join(what for what, given in (("TLS", tls), ("tokens", tokens)) if not given)
    are = "is" if missing == "TLS" else "are"
    raise SettingsError(
        f"{address} can be reached from other machines, and {missing} {are} not set up: give a certificate, a key and "
        "a tokens file, listen on 127.0.0.1, or say --insecure"
    )


def allow_connections(limits: ListenerLimits, *, besides: int = 0) -> None:
    """Raise this process's limit of open files to what the connections need; SettingsError when that is forbidden.

    `besides`: connections of other listeners of this process.
    """
    wanted = limits.connections_max + besides + SPARE_HANDLES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise SettingsError(
                f"connections_max = {limits.connections_max} needs {wanted} open files, and {hard} are allowed: "
                "raise the limit (ulimit -Hn, LimitNOFILE=) or lower connections_max"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Listener:
    """The listening sockets of one server and the connections that came in through them."""

    def __init__(
        self,
        address: Address,
        *,
        limits: ListenerLimits,
        tls: ServerTls | None,
        log: EventLog,
        too_many: Farewell,
        not_tls: Farewell,
        share_port: bool = False,
    ) -> None:
        """Binds at once. SettingsError when the address cannot be had. `share_port`: somebody keeps it (`KeptPort`)."""
        self.limits = limits
        """May be replaced at any time; connections that are open stay."""
        self._tls = tls
        self._log = log
        self._too_many = too_many
        self._not_tls = not_tls
        self._accepting = trio.CancelScope()
        self._handshakes: set[trio.CancelScope] = set()
        self._per_host: Counter[str] = Counter()
        self._strangers: dict[Stranger, None] = {}  # in the order in which they came
        self._strangers_per_host: Counter[str] = Counter()
        self._socket = _bound(address, share_port=share_port)
        self.address = Address(host=address.host, port=self._socket.getsockname()[1])
        self.connections = 0
        self._leaving = 0
        self.refused_connections = 0
        self.failed_connections = 0

    async def serve(self, converse: Converse) -> None:
        """Accept until ``stop`` or cancelled; returns when the last conversation has ended."""
        async with trio.open_nursery() as nursery:
            with self._accepting, self._socket:
                while True:
                    await trio.lowlevel.wait_readable(self._socket)
                    for _ in range(ACCEPTS_PER_TURN_MAX):
                        connected = await self._accept()
                        if connected is None:
                            break
                        self._admit(*connected, converse, nursery)

    def stop(self) -> None:
        """Accept nothing more. Conversations go on; handshakes, in which nothing was asked for yet, do not."""
        self._accepting.cancel()
        for handshake in self._handshakes:
            handshake.cancel()

    async def _accept(self) -> tuple[socket.socket, str] | None:
        try:
            connected, name = self._socket.accept()
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in _NO_HANDLES:
                self._log.error("cannot accept", reason=os.strerror(error.errno or 0))
                await trio.sleep(NO_HANDLES_PAUSE_SECONDS)
            elif error.errno not in _TRANSIENT:
                raise
            return None
        return connected, str(Address(host=name[0], port=name[1]))

    def _admit(self, connected: socket.socket, peer: str, converse: Converse, nursery: trio.Nursery) -> None:
        transport = PlainStream(connected)
        host = peer.rpartition(":")[0]
        what = self._lacking(host)
        if what is not None and self._oust_for(host):
            what = self._lacking(host)
        if what is not None:
            self._turn_away(transport, peer, what, nursery)
            return
        self.connections += 1
        self._per_host[host] += 1
        stranger = Stranger(host=host, since=trio.current_time(), scope=trio.CancelScope())
        self._strangers[stranger] = None
        self._strangers_per_host[host] += 1
        nursery.start_soon(self._serve_one, transport, peer, stranger, converse)

    def _lacking(self, host: str) -> str | None:
        """What there is not enough of for one more connection of this host."""
        limits = self.limits
        if self.connections >= limits.connections_max:
            return "connections"
        if self._per_host[host] >= limits.connections_per_peer_max:
            return "connections from one host"
        if len(self._strangers) >= limits.strangers_max:
            return "connections without a token"
        if self._strangers_per_host[host] >= limits.strangers_per_peer_max:
            return "connections from one host without a token"
        return None

    def _oust_for(self, host: str) -> bool:
        """Close a stranger that has had its time: the oldest of this host if that has its fill, else the oldest."""
        limits = self.limits
        of_host = (
            self._per_host[host] >= limits.connections_per_peer_max
            or self._strangers_per_host[host] >= limits.strangers_per_peer_max
        )
        oldest = next((one for one in self._strangers if not of_host or one.host == host), None)
        if oldest is None or trio.current_time() - oldest.since < limits.pressed_seconds:
            return False
        self._log.warning("connection refused", peer=oldest.host, reason="said nothing valid while others came")
        self.refused_connections += 1
        self._greeted(oldest)
        self._left(oldest.host)
        oldest.ousted = True
        oldest.scope.cancel()
        return True

    def _greeted(self, stranger: Stranger) -> None:
        """It no longer counts as a connection."""
        if stranger in self._strangers:
            del self._strangers[stranger]
            self._strangers_per_host[stranger.host] -= 1
            if not self._strangers_per_host[stranger.host]:
                del self._strangers_per_host[stranger.host]

    def _left(self, host: str) -> None:
        self.connections -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _turn_away(self, transport: PlainStream, peer: str, what: str, nursery: trio.Nursery) -> None:
        self.refused_connections += 1
        self._log.warning("connection refused", peer=peer, reason=f"all {what} are in use")
        if self._tls is None:  # whoever expects TLS could not read it
            with contextlib.suppress(trio.BrokenResourceError):  # it left before it was told
                transport.send_now(self._too_many(what))
        if self._leaving < LEAVING_MAX:
            nursery.start_soon(self._leave, transport)
        else:
            transport.close()

    async def _leave(self, transport: PlainStream) -> None:
        self._leaving += 1
        try:
            await transport.finish()
        finally:
            self._leaving -= 1

    async def _serve_one(self, transport: PlainStream, peer: str, stranger: Stranger, converse: Converse) -> None:
        """Whatever nobody foresaw ends this connection only, loudly; but not when what all share may be wrong."""

        def greeted() -> None:
            self._greeted(stranger)

        try:
            with stranger.scope:
                stream = await self._secured(transport, peer)
                if stream is not None:
                    await converse(Accepted(stream=stream, transport=transport, peer=peer, greeted=greeted))
                await transport.finish()
        except Exception as error:
            if concerns_all(error):
                raise
            self.failed_connections += 1
            self._log.mistake("connection failed", error, peer=peer)
        finally:
            transport.close()
            if not stranger.ousted:
                self._greeted(stranger)
                self._left(stranger.host)

    async def _secured(self, transport: PlainStream, peer: str) -> trio.abc.Stream | None:
        """The stream to talk on; None when the peer failed to set up TLS in time."""
        if self._tls is None:
            return transport
        reason = f"no TLS handshake within {self.limits.handshake_seconds} s"
        with trio.move_on_after(self.limits.handshake_seconds) as handshake:
            self._handshakes.add(handshake)
            try:
                first = await transport.peek()
                if first and first[0] != _TLS_HANDSHAKE_RECORD:
                    transport.send_now(self._not_tls("this port speaks TLS, and the connection began without it"))
                    reason = "the peer does not speak TLS"
                elif first:
                    stream = trio.SSLStream(transport, self._tls.context, server_side=True, https_compatible=True)
                    await stream.do_handshake()
                    return stream
                else:
                    reason = "closed before the TLS handshake"
            except trio.BrokenResourceError as error:
                cause = error.__cause__
                reason = getattr(cause, "reason", None) or str(cause) if isinstance(cause, ssl.SSLError) else str(error)
            finally:
                self._handshakes.remove(handshake)
        if self._accepting.cancel_called:
            reason = "the server is shutting down"
        self._log.warning("TLS handshake failed", peer=peer, reason=reason)
        return None


def _bound(address: Address, *, share_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        where = (address.host, address.port)
        listening = socket.create_server(where, family=family, backlog=BACKLOG, reuse_port=share_port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)  # not a failed look-up
        raise SettingsError(f"cannot listen on {address}: {reason}") from error
    listening.setblocking(False)  # noqa: FBT003
    return listening
