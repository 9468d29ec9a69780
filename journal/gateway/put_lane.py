"""PUTs on a plain socket, served in callbacks: no task wakes up between the arrival of a request and its answer.

A trio task that waits for its own socket, and then for the acknowledgement, costs four `epoll_ctl` calls and two task
switches for each request, as much as all of the journal's own work on it. Everything else that a client may ask goes to
the session's task, and so does a PUT that is not for the volume to decide, or that finds no room there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalError
from journal.gateway.phase import ConnectionPhase
from journal.gateway.wire.encoding import encode_status
from journal.gateway.wire.messages import FileMessageType
from journal.volume import FileStatus
from sos_client.net.plain_stream import DIRECT_CALLS_MAX, KEPT_BUFFER_BYTES
from sos_client.serving.containment import concerns_all
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from journal.gateway.conversation import GatewaySurroundings
    from journal.gateway.session import GatewaySession
    from journal.volume import Answer
    from sos_client.net.plain_stream import PlainStream
    from sos_client.net.poller import Poller
    from sos_client.wire.frames import FrameSplitter


_PUT: Final = int(FileMessageType.PUT)
_IDLE, _WORKING = ConnectionPhase.IDLE, ConnectionPhase.WORKING  # enum members are looked up again each time


class PutLane:
    """The hot path of one session. `wait` is called by the session's task whenever it has nothing to do."""

    def __init__(
        self,
        session: GatewaySession,
        plain: PlainStream,
        splitter: FrameSplitter,
        poller: Poller,
        surroundings: GatewaySurroundings,
    ) -> None:
        self._session = session
        self._plain = plain
        self._splitter = splitter
        self._poller = poller
        self._metrics = surroundings.metrics
        self._seconds = surroundings.metrics.seconds[FileMessageType.PUT]
        self._parked: trio.Event | None = None
        self._listening = False
        self._working = False  # until the PUT is answered
        self._beginning = False  # while the volume is being told
        self._began = 0.0
        self._frame: tuple[int, memoryview] | None = None
        self._failure: Exception | None = None
        self.unsent = b""  # of an answer: the session's task sends it
        self.ended = False  # the peer has closed its side

    async def wait(self) -> tuple[int, memoryview] | None:
        """Serve PUTs until the task has something to do: a frame for it, `unsent`, `ended`, or to see that it leaves.

        Raises what the stream raises, and ProtocolError. Cancelled: a PUT that is worked on is done, but not answered.
        """
        self._parked = parked = trio.Event()
        try:
            self._serve()
            if not parked.is_set() and not self._working:
                self._listen()
            await parked.wait()
        finally:
            self._parked = None
            self._stop_listening()
        if self._failure is not None:
            raise self._failure
        frame, self._frame = self._frame, None
        return frame

    def _listen(self) -> None:
        if not self._listening:
            self._poller.register(self._plain.socket.fileno(), self._on_readable)
            self._listening = True

    def _stop_listening(self) -> None:
        if self._listening:
            self._poller.unregister(self._plain.socket.fileno())
            self._listening = False

    def _on_readable(self) -> None:
        try:
            self._receive_now()
        except Exception as error:
            if concerns_all(error):
                raise
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """The poller and the writer, which call back, serve others, too: what goes wrong is this session's."""
        self._failure = self._failure or error
        if self._parked is not None:
            self._parked.set()

    def _receive_now(self) -> None:
        parked = self._parked
        if parked is None or parked.is_set():
            return
        if self._working:  # one request at a time: the next one stays where it is, and so does the end of the stream
            self._stop_listening()
            return
        for _ in range(DIRECT_CALLS_MAX):
            try:
                view = self._plain.receive_now()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self._failure = error
                parked.set()
                return
            if view is None:
                return
            if not view:
                self.ended = True
                parked.set()
                return
            self._metrics.bytes_in += len(view)
            self._splitter.feed(view)
            self._serve()
            if self._splitter.drained:
                return
            self._splitter.keep_rest()  # the buffer is everybody's
            self._session.count_memory()
            if not self._splitter.midway:
                return  # else a large PUT is coming in, and more of it may be there already

    def _serve(self) -> None:
        """Begin with the next frame, if it has come whole, and with the one after it, if that needed no waiting."""
        session, parked = self._session, self._parked
        assert parked is not None
        while not self._working:
            try:
                frame = self._splitter.next_frame()
            except ProtocolError as error:
                self._failure = error
                parked.set()
                return
            if frame is None:
                if session.holds_memory:
                    session.count_memory()
                session.phase = ConnectionPhase.RECEIVING if self._splitter.midway else session.phase_at_rest
                return
            session.turns += 1
            type_code, body = frame
            if type_code != _PUT or not self._begin(body):
                self._frame = type_code, body if len(body) >= KEPT_BUFFER_BYTES else memoryview(bytes(body))
                parked.set()
            if parked.is_set():
                return

    def _begin(self, body: memoryview) -> bool:
        """Give a PUT to the volume. False: it is for the task, to which everything that is wrong will show again."""
        if self._session.is_over:
            return False
        self._session.phase = _WORKING
        self._working = self._beginning = True
        self._began = time.perf_counter()
        try:
            taken = self._session.conversation.put_soon(body, self._answered)
        except ProtocolError:
            taken = False
        self._beginning = False
        if not taken:
            self._working = False
        return taken

    def _answered(self, epoch: int, answer: Answer) -> None:
        try:
            self._say(epoch, answer)
        except Exception as error:
            if concerns_all(error):
                raise
            self._fail(error)

    def _say(self, epoch: int, answer: Answer) -> None:
        parked, session = self._parked, self._session
        if parked is None:
            return  # the session has ended meanwhile
        if type(answer) is FileStatus:
            data = encode_status(epoch, answer)
        else:
            assert isinstance(answer, JournalError), "a PUT is answered by a status or an error"
            data = session.conversation.refusal(answer)
        self._working = False
        self._seconds.observe(time.perf_counter() - self._began)
        session.turns += 1
        session.said += 1
        if session.saying:  # that the request is still worked on: this comes after it
            self.unsent = data
        else:
            try:
                sent = self._plain.send_now(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self._failure = error
                parked.set()
                return
            self._metrics.bytes_out += sent
            if sent < len(data):
                self.unsent = data[sent:]
        session.phase = _IDLE
        if self.unsent or session.leaving:
            parked.set()
        elif not self._beginning:
            if not self._splitter.drained:
                self._serve()
            if not self._listening and not self._working and not parked.is_set():
                self._listen()
