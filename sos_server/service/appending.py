"""A connection in append mode: DATA in, one ACK per group commit out, until END, a refusal or the end of the stream.

This is the hot path of the server. On a plain socket it runs in callbacks of the poller, without a task switch per
append; on any other stream in the session's own task. Which requests may be made, and by whom, is decided in session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from sos_client.net.plain_stream import RECEIVE_BYTES_MAX, PlainStream
from sos_client.serving.containment import changing_shared, concerns_all, in_doubt
from sos_client.wire.errors import ProtocolError, RefusedError
from sos_client.wire.messages import Append, Appending, Data, Ended, Ping, Pong

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_client.net.poller import Poller
    from sos_client.wire.connection import Connection
    from sos_server.service.held_frames import HeldFrames
    from sos_server.service.metrics import Traffic
    from sos_server.service.outgoing import Outgoing
    from sos_server.storage.contents import Claim
    from sos_server.store.appender import Appender
    from sos_server.store.namespace import Namespace

RECEIVES_MAX: Final = 4
"""Of one connection in a row while they bring much: its batch is fuller, and the others wait for a megabyte at most."""


class AppendMode:
    """One append on one connection.

    ``run`` returns True after END, and False at the end of the stream. It raises RefusedError when the append is over
    otherwise: the connection then discards what the peer still sends for it. ``stop`` ends it from outside, with what
    was received synced and acknowledged first. What nobody foresaw, here or in a callback, comes out of ``run``, too.
    """

    def __init__(
        self,
        connection: Connection,
        stream: trio.abc.Stream,
        outgoing: Outgoing,
        poller: Poller,
        traffic: Traffic,
        held_frames: HeldFrames,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._plain = stream if isinstance(stream, PlainStream) else None
        self._outgoing = outgoing
        self._poller = poller
        self._traffic = traffic
        self._held_frames = held_frames
        self._holds = False  # a part of a frame, that counts
        self._appender: Appender | None = None
        self._acknowledging = False
        self._ack_waits = False
        self._ended = False
        self._end_of_stream = False
        self._left_behind = False  # whole frames may lie in the connection, for want of room
        self._failure: Exception | None = None
        self._stopped_by: RefusedError | None = None
        self._parked: trio.Event | None = None
        self._receive_scope: trio.CancelScope | None = None

    @property
    def receiving(self) -> bool:
        """Whether this side waits for the peer, and not the peer for this side."""
        return self._parked is not None or self._receive_scope is not None

    async def run(
        self,
        namespace: Namespace,
        request: Append,
        claim: Claim | None,
        instance: bytes,
        still_allowed: Callable[[], object],
    ) -> bool:
        with changing_shared("APPEND was worked on", foreseen=(RefusedError,)):
            self._appender = appender = await namespace.start_append(
                request.object,
                size=request.size,
                prefix_crc=request.prefix_crc,
                claim=claim,
                instance=instance,
                on_progress=self._on_progress,
                on_evicted=self._fail,
                still_allowed=still_allowed,
            )
        try:
            await self._take_all(appender, request.size)
            if self._failure is None and not self._end_of_stream:
                await appender.end()
                self._on_idle()
        finally:
            self._acknowledging = False
            self._outgoing.on_idle = None
            if self._holds:
                self._held_frames.hold(self._give_up, 0)
            appender.abandon()
        if failure := self._failure or self._stopped_by:
            raise failure
        if self._ended:
            await self._outgoing.send(self._connection.send(Ended(size=appender.synced)))
        return self._ended

    def stop(self, verdict: RefusedError) -> None:
        self._stopped_by = verdict
        self._wake()

    async def _take_all(self, appender: Appender, size: int) -> None:
        if self._failure is not None:
            return  # evicted before it began
        await self._outgoing.send(self._connection.send(Appending(size=size)))
        self._acknowledging = True
        self._outgoing.on_idle = self._on_idle
        self._left_behind = True  # what came together with the request
        while not self._over:
            if not self._room:
                await self._wait_room(appender)
            elif self._left_behind:
                self._consume(b"")
            elif self._plain is not None:
                await self._receive_by_poller(self._plain)
            else:
                await self._receive_in_task()

    @property
    def _over(self) -> bool:
        return bool(self._ended or self._end_of_stream or self._failure or self._stopped_by)

    @property
    def _room(self) -> bool:
        appender = self._appender
        return appender is not None and appender.has_room and not self._outgoing.full

    async def _wait_room(self, appender: Appender) -> None:
        if self._outgoing.full:
            await self._outgoing.drained()
        try:
            await appender.wait_room()
        except RefusedError as error:
            self._fail(error)

    async def _receive_by_poller(self, plain: PlainStream) -> None:
        """Let the poller call back for each arrival, until something has to be done that callbacks cannot."""
        self._parked = parked = trio.Event()
        handle = plain.socket.fileno()
        self._poller.register(handle, self._on_readable)
        try:
            await parked.wait()
        finally:
            self._parked = None
            self._poller.unregister(handle)

    def _on_readable(self) -> None:
        try:
            self._receive_now()
        except Exception as error:
            if concerns_all(error):
                raise
            self._fail(error)

    def _receive_now(self) -> None:
        parked, plain, appender = self._parked, self._plain, self._appender
        if parked is None or plain is None or appender is None or parked.is_set():
            return
        for _ in range(RECEIVES_MAX):
            if not appender.has_room or self._outgoing.full:  # others may have taken it since this one was parked
                parked.set()
                return
            try:
                view = plain.receive_now()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self._fail(error)
                return
            if view is None:
                return
            self._take(view)
            if len(view) < RECEIVE_BYTES_MAX or parked.is_set():
                return

    async def _receive_in_task(self) -> None:
        with trio.CancelScope() as self._receive_scope:
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES_MAX)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self._fail(error)
            else:
                self._take(data)
        self._receive_scope = None

    def _take(self, data: bytes | bytearray | memoryview) -> None:
        if len(data):
            self._consume(data)
            held_bytes = self._connection.midway_bytes
            if held_bytes or self._holds:
                self._holds = held_bytes > 0
                self._held_frames.hold(self._give_up, held_bytes)
        else:
            self._end_of_stream = True
            self._wake()

    def _consume(self, data: bytes | bytearray | memoryview) -> None:
        """Take what has arrived as long as there is room; to be called only when there is.

        What is left then, or follows the end, stays in the connection, so that the receive buffer is free again. It is
        this method that knows that something was left: by the time the task looks, there may be room again.
        """
        connection, appender = self._connection, self._appender
        assert appender is not None
        before, appends = appender.written, 0
        self._left_behind = False
        try:
            run = connection.receive_run(memoryview(data))
            while True:
                if run is not None:
                    appends += len(run.payloads)
                    _put(appender.append_run, run)
                    if appender.has_room:
                        if connection.drained:
                            break
                        run = connection.next_run()
                        continue
                elif (message := connection.next_event()) is None:
                    break
                elif type(message) is Data:
                    appends += 1
                    _put(appender.append, *message)
                    if appender.has_room:
                        run = connection.next_run()
                        continue
                elif type(message) is Ping:
                    self._outgoing.offer(connection.send(Pong(n=message.n)))
                    if not self._outgoing.full:
                        continue
                else:  # END: the connection lets nothing else through
                    self._ended = True
                self._left_behind = True
                connection.keep_rest()
                self._wake()
                break
        except (ProtocolError, RefusedError) as error:
            connection.keep_rest()
            self._fail(error)
        self._traffic.appends += appends
        self._traffic.appended_bytes += appender.written - before

    def _on_progress(self) -> None:
        """After a group commit: one ACK, the newest. A peer that does not read gets it when it does.

        The commit loop, which serves everybody, calls this: what goes wrong here is only this append's.
        """
        appender = self._appender
        if not self._acknowledging or appender is None:
            return
        try:
            self._ack_waits = self._outgoing.busy
            if not self._ack_waits:
                self._outgoing.offer(self._connection.acknowledge(appender.written, appender.synced))
        except Exception as error:
            if concerns_all(error):
                raise
            self._fail(error)

    def _on_idle(self) -> None:
        if self._ack_waits:
            self._on_progress()

    def _fail(self, failure: Exception) -> None:
        """From here on nothing is acknowledged: the connection may be broken, or what was written taken back."""
        self._failure = self._failure or failure
        self._acknowledging = False
        self._wake()

    def _give_up(self, refusal: RefusedError) -> None:
        self._holds = False
        self._fail(refusal)

    def _wake(self) -> None:
        if self._parked is not None:
            self._parked.set()
        if self._receive_scope is not None:
            self._receive_scope.cancel()


def _put(append: Callable[..., None], *what: object) -> None:
    """Put bytes into the batch that all share."""
    try:
        append(*what)
    except RefusedError:
        raise
    except Exception as error:
        raise in_doubt("bytes were put into a commit", error) from error
