"""One connection: HELLO first, then requests, answered in order until the peer leaves or has to be left.

What each request does is in ``requests``; how appends and reads move their bytes is in ``appending`` and ``reading``.
Nothing here opens a file or a socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from sos_client.net.plain_stream import PlainStream
from sos_client.serving.access import Grant, Right, TokenRefusedError
from sos_client.serving.pace import Pace
from sos_client.wire import messages as m
from sos_client.wire.connection import Connection, Role
from sos_client.wire.errors import REFUSALS, ErrorCode, ProtocolError, RefusedError
from sos_client.wire.holders import shown_holder
from sos_client.wire.limits import PROTOCOL_VERSION, REQUEST_BYTES_MAX
from sos_server.service.appending import AppendMode
from sos_server.service.outgoing import Outgoing
from sos_server.service.requests import ANSWERS, PeerLeftError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_server.service.reading import Reading
    from sos_server.service.service import Service
    from sos_server.store.namespace import Namespace

FAREWELL_SECONDS_MAX: Final = 2.0
"""How long the last ERROR of a connection may take to go out."""
REVOKED_SECONDS_MAX: Final = 2.0
"""How long the piece that is being sent to somebody who may not read any more may take to go out."""

_TLS_RECORD_START: Final = b"\x16\x03"


class Session:
    """The server's side of one connection. ``run`` returns when the conversation is over; the caller closes the stream.

    Anyone may at any time call ``end`` (the request at hand is finished, then the peer is told and left) and ``cut``
    (nothing is finished).
    """

    def __init__(
        self,
        service: Service,
        stream: trio.abc.Stream,
        *,
        peer: str,
        transport: PlainStream | None = None,
        greeted: Callable[[], None] = lambda: None,
    ) -> None:
        """``greeted`` is called when the peer has shown a token that is valid."""
        self.service = service
        self.stream = stream
        self.peer = peer
        self.connection = Connection(Role.SERVER, frame_bytes_max=service.limits.frame_bytes_max, admit=self._admit)
        self.outgoing = Outgoing(stream, service.nursery, self.fail)
        self.grant: Grant | None = None
        self.client = ""
        self.instance = b""
        self.namespace: Namespace | None = None
        self.mode: AppendMode | Reading | None = None
        self._transport = transport
        self._greeted = greeted
        self._plain = stream if isinstance(stream, PlainStream) else None
        self._bytes_received = 0
        self._pace = Pace(service.pace_limits, self._bytes_moved)
        self._receiving: trio.CancelScope | None = None
        self._waiting_since = 0.0
        self._holds = False
        self._scope = trio.CancelScope()
        self._verdict: RefusedError | None = None
        self._revoked: RefusedError | None = None
        self._failure: Exception | None = None
        self._next: m.Message | None = None

    async def run(self) -> None:
        """Talk until it is over. Cancelled from outside: stops at once and tells the peer nothing.

        Raises what nobody foresaw. That ends the connection: the peer is told nothing, its append is settled.
        """
        reason: RefusedError | None = None
        try:
            with self._scope:
                await self._converse()
        except (PeerLeftError, trio.BrokenResourceError, trio.ClosedResourceError):
            return
        except ProtocolError as error:
            reason = RefusedError(ErrorCode.PROTOCOL, str(error))
        except RefusedError as error:
            reason = error
        finally:
            self._hold(0)
        if self._failure is not None:
            raise self._failure
        if self._scope.cancelled_caught:
            reason = self._verdict
        if reason is not None:
            await self._part(reason)

    @property
    def ending(self) -> bool:
        return self._verdict is not None

    def end(self, verdict: RefusedError) -> None:
        self._verdict = self._verdict or verdict
        if isinstance(self.mode, AppendMode):
            self.mode.stop(self._verdict)
            return
        if self.mode is not None:
            self.mode.stop()
        if self._receiving is not None:
            self._receiving.cancel()

    def regrant(self, grant: Grant) -> None:
        """What the token allows from now on. An append or a read that it does not allow any more ends."""
        self.grant = grant
        if self.mode is None or self.namespace is None:
            return
        right = Right.APPEND if isinstance(self.mode, AppendMode) else Right.READ
        if not grant.allows(right, self.namespace.name):
            where = f"{str(right)!r} right on namespace {self.namespace.name}"
            self.revoke(RefusedError(ErrorCode.AUTH, f"the token {grant.name!r} has no {where} any more"))

    def revoke(self, verdict: RefusedError) -> None:
        """``end``, because the token does not allow it any more: who is slow to take bytes gets no more time."""
        if self._verdict is None and self.mode is not None and not isinstance(self.mode, AppendMode):
            self.service.nursery.start_soon(self._cut_soon, verdict)
        self._revoked = self._revoked or verdict
        self.end(verdict)

    async def _cut_soon(self, verdict: RefusedError) -> None:
        await trio.sleep(REVOKED_SECONDS_MAX)
        self.cut(verdict)

    def cut(self, verdict: RefusedError) -> None:
        self._verdict = self._verdict or verdict
        self._scope.cancel()

    def fail(self, failure: Exception) -> None:
        """Something that nobody foresaw, outside of ``run``, which ends and raises it."""
        self._failure = self._failure or failure
        self._scope.cancel()

    def check(self, now: float) -> None:
        """Leave the peer when it is too slow, or has asked for nothing for too long. To be called every few seconds."""
        receiving = self.mode.receiving if isinstance(self.mode, AppendMode) else self._receiving is not None
        owing = self.outgoing.busy or (receiving and self.connection.midway)
        idle_seconds = self.service.limits.idle_seconds
        if self._pace.too_slow(now, owing=owing):
            self.cut(RefusedError(ErrorCode.TOO_SLOW))
        elif receiving and self.mode is None and now - self._waiting_since > idle_seconds:
            self.end(RefusedError(ErrorCode.TOO_SLOW, f"nothing was asked for {idle_seconds:g} seconds"))
        elif self.grant is not None and self.grant.expired(self.service.wall_clock()):
            self.revoke(_expired(self.grant))

    async def send(self, answer: m.Answer) -> None:
        await self.outgoing.send(self.connection.send(answer))

    async def receive(self) -> m.Message:
        """The peer's next message. PeerLeftError at the end of the stream, RefusedError when the session is ended."""
        if (given_back := self._next) is not None:
            self._next = None
            return given_back
        while (message := self.connection.next_event()) is None:
            self._hold(self.connection.midway_bytes)
            data = await self._receive_bytes()
            if not data:
                raise PeerLeftError
            if self._bytes_received == 0 and data.startswith(_TLS_RECORD_START):
                raise ProtocolError("this port speaks without TLS, and the connection began with it")
            self._bytes_received += len(data)
            self.connection.receive(data)
        self._hold(0)
        return message

    def _hold(self, midway_bytes: int) -> None:
        """Account for DATA of a refused append, whose frames come whole before they are thrown away."""
        held_bytes = midway_bytes if midway_bytes > REQUEST_BYTES_MAX else 0
        if held_bytes or self._holds:
            self._holds = held_bytes > 0
            self.service.held_frames.hold(self._give_up, held_bytes)

    def _give_up(self, refusal: RefusedError) -> None:
        self._holds = False
        self.cut(refusal)

    def give_back(self, message: m.Message) -> None:
        """What `receive` gave was not for its caller: it is the next that `receive` gives."""
        self._next = message

    def allowed(self, right: Right) -> Namespace:
        """The namespace in use, if the token has this right on it now; RefusedError if not."""
        namespace, grant = self.namespace, self.current_grant()
        if namespace is None:
            sentence = "no namespace is in use on this connection: send USE first"
            raise RefusedError(ErrorCode.NOT_FOUND, sentence, what="namespace", name="")
        if not grant.allows(right, namespace.name):
            raise RefusedError(ErrorCode.DENIED, right=str(right), namespace=namespace.name)
        return namespace

    def current_grant(self) -> Grant:
        assert self.grant is not None, "the connection lets no request through before HELLO"
        if self._revoked is not None:  # while the request waited
            raise self._revoked
        if self.grant.expired(self.service.wall_clock()):
            raise _expired(self.grant)
        return self.grant

    async def _converse(self) -> None:
        with trio.move_on_after(self.service.limits.handshake_seconds) as handshake:
            await self._greet()
        if handshake.cancelled_caught:
            raise RefusedError(ErrorCode.TOO_SLOW, "no HELLO has come in time")
        while self._verdict is None:
            request = await self.receive()
            if isinstance(request, m.Quit):
                await self.send(m.Bye())
                return
            await self._answer(request)
        raise self._verdict

    async def _greet(self) -> None:
        hello = await self.receive()
        assert isinstance(hello, m.Hello), "the connection lets nothing else through"
        self.client, self.instance = hello.client, hello.instance
        await self.send(
            m.Welcome(
                version=PROTOCOL_VERSION,
                server_identity=self.service.store.identity,
                frame_bytes_max=self.service.limits.frame_bytes_max,
                server_time=self.service.wall_clock(),
            )
        )

    def _admit(self, version: int, token: bytes | None) -> None:
        """Called by the connection as soon as version and token are there, before anything else is decoded."""
        if version != PROTOCOL_VERSION:
            raise RefusedError(ErrorCode.VERSION, version=PROTOCOL_VERSION)
        try:
            self.grant = self.service.access.authenticate(token, now=self.service.wall_clock())
        except TokenRefusedError as error:
            self.service.log.refused("AUTH refused", peer=self.peer, reason=str(error))
            raise RefusedError(ErrorCode.AUTH, str(error)) from error
        self._greeted()

    async def _answer(self, request: m.Message) -> None:
        try:
            await ANSWERS[type(request)](self, request)
        except RefusedError as refusal:
            if REFUSALS[refusal.code].closes:
                raise
            self.service.traffic.refused(refusal.code)
            await self.send(m.Error.of(self._told(refusal)))

    def told_holder(self, holder: bytes) -> bytes:
        """The holder, which is what it takes to write under its claim, if the token may take that claim away anyway.

        Anybody else is told a digest: enough to see whether it is still the same one.
        """
        namespace, grant = self.namespace, self.grant
        if not holder or namespace is None or (grant is not None and grant.allows(Right.FENCE, namespace.name)):
            return holder
        return shown_holder(holder)

    def _told(self, refusal: RefusedError) -> RefusedError:
        holder = refusal.fields.get("holder")
        if not isinstance(holder, bytes) or (told := self.told_holder(holder)) == holder:
            return refusal
        return RefusedError(refusal.code, refusal.message, **{**refusal.fields, "holder": told})

    async def _receive_bytes(self) -> bytes:
        """What has come, not much at a time: it is kept while a request before it is worked on. Empty at the end.

        Interrupted by ``end``, it raises the verdict.
        """
        self._waiting_since = trio.current_time()
        try:
            with trio.CancelScope() as self._receiving:
                if self._plain is not None:
                    return bytes(await self._plain.receive_view(REQUEST_BYTES_MAX))
                return bytes(await self.stream.receive_some(REQUEST_BYTES_MAX))
        finally:
            self._receiving = None
        assert self._verdict is not None, "only end() cancels the wait"
        raise self._verdict

    async def _part(self, reason: RefusedError) -> None:
        service = self.service
        service.traffic.refused(reason.code)
        told = reason.code is ErrorCode.AUTH and self.grant is None  # by its audit line
        tell = service.log.debug if told or reason.code is ErrorCode.SHUTTING_DOWN else service.log.warning
        tell("connection ended", peer=self.peer, client=self.client, code=reason.code.name, reason=reason.message)
        with trio.move_on_after(FAREWELL_SECONDS_MAX):
            await self.outgoing.drained()
            self.outgoing.offer(self.connection.send(m.Error.of(reason)))
            await self.outgoing.drained()

    def _bytes_moved(self) -> int:
        if self._transport is not None:
            return self._transport.bytes_moved
        return self._bytes_received + self.outgoing.bytes_sent


def _expired(grant: Grant) -> RefusedError:
    return RefusedError(ErrorCode.AUTH, f"the token {grant.name!r} has expired: ask for a new one")
