"""A shared connection (version 2): many requests in progress, each with a tag, answered as soon as they are done.

Belongs here: which requests are in progress, what they hold in memory, one write for all answers that are ready. What
a request means is conversation.py's. PUTs are given to the volume at once, a burst of them as it has come, and answered
by callbacks; each other request is a task. Nothing is read while too much is in progress: TCP makes the client wait.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalError
from journal.gateway.phase import ConnectionPhase
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_request
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.messages import FileMessageType
from journal.gateway.wire.tagging import OF_THE_CONNECTION, tagged, tagged_status, untagged
from journal.volume import FileStatus
from sos_client.net.plain_stream import PlainStream
from sos_client.serving.containment import concerns_all
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from journal.gateway.conversation import GatewaySurroundings
    from journal.gateway.session import GatewaySession
    from journal.volume import Answer
    from sos_client.wire.frames import FrameSplitter

TASKS_MAX: Final = 64
"""Requests in progress that are no PUTs, or PUTs that wait for room."""
ANSWERS_BYTES_MAX: Final = 1 << 20
"""Of answers that have not been sent: beyond it nothing is read, and what would answer with much waits."""
_PUT: Final = int(FileMessageType.PUT)
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


class SharedTalk:
    """All that is said on one connection after a greeting in version 2. `run` it once."""

    def __init__(
        self,
        session: GatewaySession,
        stream: trio.abc.Stream,
        splitter: FrameSplitter,
        surroundings: GatewaySurroundings,
    ) -> None:
        self._session = session
        self._conversation = session.conversation
        self._stream = stream
        self._receive_some = stream.receive_view if isinstance(stream, PlainStream) else stream.receive_some
        self._splitter = splitter
        self._metrics = surroundings.metrics
        self._put_seconds = surroundings.metrics.seconds[FileMessageType.PUT]
        self._tags: set[int] = set()  # of requests in progress
        self._tasks = self._task_bytes = 0  # those that are tasks, and their frames
        self._answers: list[bytes] = []
        self._answer_bytes = self._sending_bytes = 0
        self._receiving = trio.CancelScope()
        self._scope = trio.CancelScope()  # of everything, once it runs
        self._answered = trio.lowlevel.ParkingLot()  # the sender waits here
        self._progress = trio.lowlevel.ParkingLot()  # whoever waits for room, or for the end of everything
        self._quit: int | None = None  # the tag of QUIT
        self._failure: Exception | None = None

    @property
    def held_bytes(self) -> int:
        """What is kept here of requests and answers; what the volume has taken is the volume's."""
        return self._task_bytes + self._answer_bytes + self._sending_bytes

    async def run(self) -> None:
        """Until either side ends it; what is in progress then is answered before. Raises as the stream does."""
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            nursery.start_soon(self._send_answers)
            try:
                with self._receiving:
                    await self._receive(nursery)
                await self._wait_until_idle()
                if self._quit is not None:
                    self._answer(self._quit, tagged(self._quit, encode(m.ByeAnswer())))
                    await self._wait_until_idle()
            except (ProtocolError, *_GONE) as error:
                self._fail(error)
            nursery.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._scope.cancel()

    def leave(self) -> None:
        """Take no more requests."""
        self._receiving.cancel()

    def say_waiting(self, waited_seconds: float) -> None:
        """Give a sign of life to a peer whose requests take long."""
        waiting = m.WaitingAnswer(epoch=self._conversation.epoch, waited_ms=int(waited_seconds * 1000))
        self._queue(tagged(OF_THE_CONNECTION, encode(waiting)))

    # ── what comes ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _receive(self, nursery: trio.Nursery) -> None:
        splitter = self._splitter
        while True:
            frame_count = 0
            while (frame := splitter.next_frame()) is not None:
                frame_count += 1
                self._session.turns += 1
                type_code, (tag, body) = frame[0], untagged(frame[1])
                self._begin(tag)
                if type_code != _PUT or not self._put(tag, body):
                    await self._take(nursery, tag, type_code, body)
                if self._quit is not None:
                    return
                if self._is_full:
                    splitter.keep_rest()  # the buffer is everybody's
                    await self._wait_for_room()
            self._show_phase()
            self._session.count_memory()
            if frame_count > 1:
                await trio.lowlevel.checkpoint()  # the members are sent what was written while more is taken
            data = await self._receive_some()
            if not data:
                return
            await trio.lowlevel.checkpoint_if_cancelled()  # it may have come just before this session was ended
            self._metrics.bytes_in += len(data)
            splitter.feed(data)

    def _begin(self, tag: int) -> None:
        if tag in self._tags or tag == OF_THE_CONNECTION:
            raise ProtocolError(f"tag {tag} is in use")
        self._tags.add(tag)

    def _put(self, tag: int, body: memoryview) -> bool:
        """Give a PUT to the volume. False: it has to wait, or is to be refused."""
        began = time.perf_counter()
        return self._conversation.put_soon(body, partial(self._put_answered, tag, began))

    def _put_answered(self, tag: int, began: float, epoch: int, answer: Answer) -> None:
        """Called by the writer, which calls others, too: what goes wrong here is this session's."""
        try:
            if type(answer) is FileStatus:
                data = tagged_status(tag, epoch, answer)
            else:
                assert isinstance(answer, JournalError), "a PUT is answered by a status or an error"
                data = tagged(tag, self._conversation.refusal(answer))
            self._put_seconds.observe(time.perf_counter() - began)
            self._answer(tag, data)
        except Exception as error:
            if concerns_all(error):
                raise
            self._fail(error)

    async def _take(self, nursery: trio.Nursery, tag: int, type_code: int, body: memoryview) -> None:
        request = decode_request(type_code, memoryview(bytes(body)))
        if isinstance(request, m.OpenRequest):  # what follows is for the volume that it opens
            if len(self._tags) > 1:
                raise ProtocolError("OPEN while other requests are in progress")
            self._splitter.keep_rest()
            try:
                await self._work(tag, type_code, request, 0)
            finally:
                self._tags.discard(tag)  # also when the service leaves meanwhile
        elif isinstance(request, m.QuitRequest):
            self._quit = tag
            self._tags.discard(tag)
        else:
            self._tasks += 1
            self._task_bytes += len(body)
            nursery.start_soon(self._work_beside, tag, type_code, request, len(body))

    async def _work_beside(self, tag: int, type_code: int, request: m.Request | None, size: int) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()  # the session may have been ended since the frame was taken
        while self._answer_bytes > ANSWERS_BYTES_MAX:
            await self._progress.park()
        await self._work(tag, type_code, request, size)
        self._tasks -= 1

    async def _work(self, tag: int, type_code: int, request: m.Request | None, size: int) -> None:
        began = time.perf_counter()
        self._show_phase()
        try:
            data = await self._conversation.reply(type_code, request)
        except JournalError as error:
            data = self._conversation.refusal(await self._conversation.confirmed(error))
        self._task_bytes -= size
        if request is not None:
            self._metrics.seconds[type_code].observe(time.perf_counter() - began)
        self._answer(tag, tagged(tag, data))

    @property
    def _is_full(self) -> bool:
        return (
            len(self._tags) >= limits.REQUESTS_MAX
            or self._tasks >= TASKS_MAX
            or self._task_bytes >= limits.FRAME_BYTES_MAX
            or self._answer_bytes >= ANSWERS_BYTES_MAX
        )

    async def _wait_for_room(self) -> None:
        while self._is_full:
            self._session.count_memory()
            self._show_phase()
            await self._progress.park()

    async def _wait_until_idle(self) -> None:
        while self._tags or self._answers or self._sending_bytes:
            await self._progress.park()

    # ── what is answered ──────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, tag: int, frame: bytes) -> None:
        self._tags.discard(tag)
        self._queue(frame)

    def _queue(self, frame: bytes) -> None:
        self._answers.append(frame)
        self._answer_bytes += len(frame)
        if self._answered:
            self._answered.unpark()

    async def _send_answers(self) -> None:
        """One write for all that are ready: those of a burst of PUTs are acknowledged together."""
        session = self._session
        while True:
            while not self._answers:
                await self._answered.park()
            answers, self._answers = self._answers, []
            data = b"".join(answers)
            self._answer_bytes, self._sending_bytes = 0, len(data)
            session.turns += 1
            session.said += 1
            session.phase = ConnectionPhase.SENDING
            session.count_memory()
            try:
                await self._stream.send_all(data)
            except _GONE as error:
                self._fail(error)
                return
            self._metrics.bytes_out += len(data)
            self._sending_bytes = 0
            self._show_phase()
            session.count_memory()
            if self._progress:
                self._progress.unpark_all()

    def _show_phase(self) -> None:
        """For the watch: a peer that does not take its answers is looked at first, then whether it waits for one."""
        if self._sending_bytes:
            self._session.phase = ConnectionPhase.SENDING
        elif self._tags or self._answers:
            self._session.phase = ConnectionPhase.WORKING
        else:
            self._session.phase = ConnectionPhase.RECEIVING if self._splitter.midway else ConnectionPhase.IDLE
