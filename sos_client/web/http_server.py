"""HTTP/1.1 on the project's own listener: h11 reads and writes it; what is answered comes from outside.

Belongs here: how much time, room and how many connections a peer may take. Only GET and HEAD are answered, and a path
is only compared with others: nothing that a peer sends becomes the name of a file.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import h11
import trio

from sos_client.serving.listener import Listener, ListenerLimits
from sos_client.web.limits import WEB_CONNECTIONS_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from sos_client.net.addresses import Address
    from sos_client.serving.event_log import EventLog
    from sos_client.serving.listener import Accepted
    from sos_client.serving.tls import ServerTls

HEAD_BYTES_MAX: Final = 16 << 10
"""Of a request's first line and headers: a browser sends less than one KiB."""
REQUEST_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 20.0
"""A scraper that keeps its connection comes back sooner, or opens another one."""
SEND_SECONDS: Final = 10.0
"""For one answer, or one event: a page that takes none for this long is let go, and asks again when it wakes up."""
REQUESTS_MAX: Final = 1000
"""On one connection."""
RECEIVE_BYTES: Final = 4096

LIMITS: Final = ListenerLimits(
    connections_max=WEB_CONNECTIONS_MAX,
    connections_per_peer_max=WEB_CONNECTIONS_MAX,
    handshake_seconds=REQUEST_SECONDS,
    strangers_max=WEB_CONNECTIONS_MAX // 4,
    strangers_per_peer_max=WEB_CONNECTIONS_MAX // 4,
    pressed_seconds=0.1,  # a request comes with its connection
)
"""Connections that say nothing, or show no token where one is needed, give way to others."""

SAFE_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What is looked at of a request. The query, if there is one, is not: nothing here depends on it."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case; of a name that comes twice, the last."""
    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """An answer. Either `body`, or `events`: a stream of pieces that goes on for as long as the peer listens."""

    status: int = 200
    body: bytes = b""
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()
    events: AsyncGenerator[bytes, None] | None = None
    is_welcome: bool = False
    """Whether the peer has shown that it may come in: others give way when connections are scarce."""


class HttpServer:
    """Binds at once; SettingsError when the address cannot be had. `serve` in a nursery."""

    def __init__(
        self,
        address: Address,
        respond: Callable[[HttpRequest], Awaitable[HttpReply]],
        *,
        log: EventLog,
        tls: ServerTls | None = None,
    ) -> None:
        self._respond = respond
        self._listener = Listener(address, limits=LIMITS, tls=tls, log=log, too_many=_unavailable, not_tls=_unavailable)
        self.address = self._listener.address

    @property
    def failed_connections(self) -> int:
        """Ended by a mistake of this server's."""
        return self._listener.failed_connections

    async def serve(self) -> None:
        """Answer until `stop`, or until cancelled."""
        await self._listener.serve(self._converse)

    def stop(self) -> None:
        """Accept nothing more."""
        self._listener.stop()

    async def _converse(self, accepted: Accepted) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        talk = _Talk(accepted, connection)
        for count in range(REQUESTS_MAX):
            with trio.move_on_after(IDLE_SECONDS if count else REQUEST_SECONDS) as patience:
                try:
                    request = await talk.request()
                except trio.BrokenResourceError:
                    return
            if patience.cancelled_caught or request is None:
                return
            reply = request if isinstance(request, HttpReply) else await self._answer(request)
            with contextlib.suppress(trio.BrokenResourceError):
                await talk.reply(reply)
                if talk.may_go_on:
                    continue
            return

    async def _answer(self, request: HttpRequest) -> HttpReply:
        if request.method not in {"GET", "HEAD"}:
            return HttpReply(status=405, body=b"only GET and HEAD are possible\n", headers=(("Allow", "GET, HEAD"),))
        return await self._respond(request)


class _Talk:
    """One connection, request after request."""

    def __init__(self, accepted: Accepted, connection: h11.Connection) -> None:
        self._accepted = accepted
        self._stream = accepted.stream
        self._connection = connection
        self._is_head_only = False

    @property
    def may_go_on(self) -> bool:
        """Whether another request may come; if so, everything is ready for it."""
        connection = self._connection
        if connection.our_state is h11.DONE and connection.their_state is h11.DONE:
            connection.start_next_cycle()
            return True
        return False

    async def request(self) -> HttpRequest | HttpReply | None:
        """The next request; what to answer if it is not a request; None when the peer has gone."""
        while True:
            try:
                event = self._connection.next_event()
            except h11.RemoteProtocolError as error:
                text = f"this is not a request that is understood here: {error}\n"
                return HttpReply(status=error.error_status_hint, body=text.encode())
            if event is h11.NEED_DATA:
                self._connection.receive_data(bytes(await self._stream.receive_some(RECEIVE_BYTES)))
            elif isinstance(event, h11.Request):
                self._is_head_only = event.method == b"HEAD"
                self._connection.next_event()  # its end, where it has no body; who sends one is not heard out
                return HttpRequest(
                    method=event.method.decode("ascii"),
                    path=event.target.decode("ascii", "replace").partition("?")[0],
                    headers={name.decode("ascii"): value.decode("latin-1") for name, value in event.headers},
                    peer=self._accepted.peer,
                )
            else:
                return None

    async def reply(self, reply: HttpReply) -> None:
        """Send an answer whole. BrokenResourceError when the peer does not take it in time."""
        if reply.is_welcome:
            self._accepted.greeted()
        headers = [*SAFE_HEADERS, ("Content-Type", reply.content_type), *reply.headers]
        if reply.events is None:
            headers.append(("Content-Length", str(len(reply.body))))
        if self._connection.our_state is h11.ERROR or self._connection.their_state is h11.ERROR:
            headers.append(("Connection", "close"))
        parts = [
            self._connection.send(
                h11.Response(status_code=reply.status, reason=HTTPStatus(reply.status).phrase.encode(), headers=headers)
            )
            or b""
        ]
        if reply.events is not None and not self._is_head_only:
            await self._send(parts[0])
            await self._stream_events(reply.events)
            return
        if reply.body and not self._is_head_only:
            parts.append(self._connection.send(h11.Data(data=reply.body)) or b"")
        parts.append(self._connection.send(h11.EndOfMessage()) or b"")
        await self._send(b"".join(parts))

    async def _stream_events(self, events: AsyncGenerator[bytes, None]) -> None:
        """Until the source ends or the peer has gone, which is noticed at once."""
        async with contextlib.aclosing(events), trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_gone, nursery.cancel_scope)
            with contextlib.suppress(trio.BrokenResourceError):
                async for piece in events:
                    await self._send(self._connection.send(h11.Data(data=piece)) or b"")
            nursery.cancel_scope.cancel()

    async def _wait_gone(self, scope: trio.CancelScope) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            while await self._stream.receive_some(RECEIVE_BYTES):
                pass  # a peer that asks for more while it listens is not answered
        scope.cancel()

    async def _send(self, data: bytes) -> None:
        with trio.move_on_after(SEND_SECONDS) as patience:
            await self._stream.send_all(data)
        if patience.cancelled_caught:
            raise trio.BrokenResourceError("the peer takes nothing")


def _unavailable(reason: str) -> bytes:
    body = f"{reason}\n".encode()
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {PLAIN}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode("ascii") + body
