"""A shared connection to a journal service (version 2), from the client's side: many tasks ask, each gets its answer.

Belongs here: tags, who waits for which, one write for all requests that are ready. As a ServiceLink it neither retries
nor knows of other services. What ends the connection leaves everybody without an answer: each asks again elsewhere,
with the operation id that it has.
"""

from __future__ import annotations

from math import inf
from typing import Final, TypeVar

import trio

from journal.errors import JournalError, journal_error
from journal.gateway.client.service_link import ServiceLink, checked, refusal_error
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_answer
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.tagging import OF_THE_CONNECTION, TAG_MAX, tagged, untagged
from sos_client.nurseries import background
from sos_client.wire.errors import ConnectionLostError, ProtocolError, SosError

A = TypeVar("A", bound=m.Answer)

IN_PROGRESS_MAX: Final = 256
"""Requests of one client at once on the connection, with those given up whose answers have not come; the others wait.
A service takes four times as many."""


class Question:
    """A request that is made, and whether it has left."""

    __slots__ = ("answer", "answered", "failure", "has_left")

    def __init__(self) -> None:
        self.has_left = False
        self.answered = trio.Event()
        self.answer: m.Answer | None = None
        self.failure: SosError | None = None


class SharedLink:
    """`greet` it, `run` it in a nursery, take a `turn` for each request."""

    def __init__(self, stream: trio.abc.Stream, address: str) -> None:
        self.address = address
        self._link = ServiceLink(stream, address)
        self._questions: dict[int, Question] = {}  # also those whose asker has gone: their tags are in use
        self._last_tag = 0
        self._frames: dict[int, bytes] = {}  # of these questions, to be sent
        self._due = trio.lowlevel.ParkingLot()  # the sender waits here
        self._room = trio.lowlevel.ParkingLot()  # who would be one too many waits here
        self._patience = trio.CancelScope()
        self._retired = False
        self._failure: SosError | None = None

    @property
    def is_open(self) -> bool:
        """Whether anything may be asked, as far as this side knows."""
        return self._failure is None and not self._retired

    async def greet(self, hello: m.HelloRequest, opening: m.OpenRequest) -> None:
        """Say who is there and open the volume, in one round trip. Raises as ServiceLink does; then `aclose` it."""
        await self._link.begin(hello, tagged(self._next_tag(), encode(opening)))
        answer: m.Answer | None = None
        while answer is None or isinstance(answer, m.WaitingAnswer):
            type_code, (tag, body) = _parts(await self._link.next_frame())
            answer = decode_answer(type_code, body)
        if isinstance(answer, m.RefusalAnswer):
            raise refusal_error(answer)
        if tag != self._last_tag:
            raise ProtocolError(f"{self.address} answered request {tag}, which was not asked")
        checked(self.address, opening, answer, m.OpenedAnswer)

    async def run(self) -> None:
        """Bring requests there and answers back until the connection ends. Raises nothing but Cancelled."""
        failure: SosError = ConnectionLostError(f"{self.address}: this client closes the connection")
        try:
            async with background() as nursery:
                nursery.start_soon(self._send_requests)
                with self._patience:
                    await self._take_answers()
            failure = ConnectionLostError(f"{self.address}: no sign for {limits.SILENCE_SECONDS_MAX:g} s")
        except ProtocolError as error:
            failure = error
        except SosError as error:  # what the service says at the end is no answer to anybody's request
            failure = ConnectionLostError(f"{self.address}: {error}")
        finally:
            self.fail(failure)
            await self.aclose()

    async def aclose(self) -> None:
        """Close within a bounded time."""
        await self._link.aclose()

    def fail(self, failure: SosError) -> None:
        """Nothing more is asked or believed here; whoever waits for an answer is told."""
        if self._failure is None:
            self._failure = failure
            for question in self._questions.values():
                question.failure = failure
                question.answered.set()
            self._questions.clear()
            self._frames.clear()
            self._room.unpark_all()
            self._patience.cancel()

    def retire(self) -> None:
        """Take no more requests; close when those that wait have their answers."""
        self._retired = True
        if not self._questions:
            self.fail(ConnectionLostError(f"{self.address}: another service is asked"))

    def turn(self) -> SharedTurn:
        """For one request."""
        return SharedTurn(self)

    async def ask(self, request: m.Request, question: Question) -> m.Answer:
        """The answer, a refusal as it is. Cancelled: the request is done, or not, and its answer is thrown away."""
        while len(self._questions) >= IN_PROGRESS_MAX:
            await self._room.park()
        if self._failure is not None:
            raise each_its_own(self._failure)
        tag = self._next_tag()
        self._frames[tag] = tagged(tag, encode(request))
        self._questions[tag] = question
        if len(self._questions) == 1:
            self._heard()
        if self._due:
            self._due.unpark()
        try:
            await question.answered.wait()
        finally:
            if self._frames.pop(tag, None) is not None:  # given up before it has left: nobody will answer it
                self._over(tag)
        if question.failure is not None:
            raise each_its_own(question.failure)
        assert question.answer is not None
        return question.answer

    def _next_tag(self) -> int:
        self._last_tag = self._last_tag % TAG_MAX + 1
        while self._last_tag in self._questions:
            self._last_tag = self._last_tag % TAG_MAX + 1
        return self._last_tag

    async def _send_requests(self) -> None:
        while True:
            while not self._frames:
                await self._due.park()
            frames, self._frames = self._frames, {}
            for tag in frames:
                self._questions[tag].has_left = True
            await self._link.send_frames(b"".join(frames.values()))

    async def _take_answers(self) -> None:
        while True:
            type_code, (tag, body) = _parts(await self._link.next_frame(silence_seconds=inf, heard=self._heard))
            answer = decode_answer(type_code, body)
            if tag != OF_THE_CONNECTION:
                self._answered(tag, answer)
            elif isinstance(answer, m.RefusalAnswer):
                raise refusal_error(answer)
            elif not isinstance(answer, m.WaitingAnswer):
                raise ProtocolError(f"{self.address}: {type(answer).__name__} that answers nothing")

    def _heard(self) -> None:
        """From now on the service may be silent for so long, if an answer is due."""
        if self._questions:
            self._patience.deadline = trio.current_time() + limits.SILENCE_SECONDS_MAX

    def _answered(self, tag: int, answer: m.Answer) -> None:
        question = self._questions.get(tag)
        if question is None or tag in self._frames:
            raise ProtocolError(f"{self.address} answered request {tag}, which was not asked")
        question.answer = answer
        question.answered.set()
        self._over(tag)

    def _over(self, tag: int) -> None:
        """No answer to this request is due any more."""
        self._questions.pop(tag, None)
        self._room.unpark()
        if not self._questions:
            self._patience.deadline = inf
            if self._retired:
                self.fail(ConnectionLostError(f"{self.address}: another service is asked"))


class SharedTurn:
    """One request on a shared link, and what belongs to its answer alone."""

    def __init__(self, link: SharedLink) -> None:
        self.address = link.address
        self.epoch = 0  # of the answer
        self._link = link
        self._question = Question()

    @property
    def has_sent(self) -> bool:
        """Whether the request has left."""
        return self._question.has_left

    async def ask(self, request: m.Request, kind: type[A]) -> A:
        """As ServiceLink's."""
        answer = await self._link.ask(request, self._question)
        self.epoch = getattr(answer, "epoch", 0)
        if isinstance(answer, m.RefusalAnswer):
            raise refusal_error(answer)
        try:
            return checked(self.address, request, answer, kind)
        except ProtocolError as error:
            self._link.fail(error)
            raise

    def distrust(self) -> None:
        """The answer cannot be, or is not the owner's: nothing more is asked on this connection."""
        self._link.fail(ConnectionLostError(f"{self.address} gave somebody an answer that cannot be"))


def each_its_own(failure: SosError) -> SosError:
    """The error once more, for each who waited: what an exception passes through is written into it."""
    if isinstance(failure, JournalError):
        return journal_error(failure.code, failure.message, failure.fields)
    return type(failure)(str(failure))


def _parts(frame: tuple[int, memoryview]) -> tuple[int, tuple[int, memoryview]]:
    return frame[0], untagged(frame[1])
