"""Shared connections: many requests in progress, each with its tag, over memory and over a real socket."""

from __future__ import annotations

import contextlib
import socket
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.errors import JournalCode
from journal.gateway import shared_talk
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_answer
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.tagging import OF_THE_CONNECTION, tagged, untagged
from journal.volume import OperationId
from sos_client.net.plain_stream import PlainStream
from sos_client.wire.frames import FrameSplitter
from tests.journal.gateway.conftest import INSTANCE, OPEN, Service

if TYPE_CHECKING:
    from collections.abc import Callable

HELLO = m.HelloRequest(version=limits.SHARED_VERSION, token=None, client="test", instance=INSTANCE)


class SharedPeer:
    """A client that says what it is told to, with tags that count from 1, and shows what comes."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.tag = 0
        self._splitter = FrameSplitter(frame_bytes_max=limits.FRAME_BYTES_MAX)

    async def greet(self) -> None:
        self.tag += 1
        await self.stream.send_all(encode(HELLO) + tagged(self.tag, encode(OPEN)))
        welcome = decode_answer(*await self.frame())
        assert isinstance(welcome, m.WelcomeAnswer)
        assert welcome.version == limits.SHARED_VERSION
        assert await self.receive() == (1, m.OpenedAnswer(epoch=1, volume="payments"))

    async def send(self, *requests: m.Request) -> list[int]:
        """In one write; the tags."""
        tags = list(range(self.tag + 1, self.tag + 1 + len(requests)))
        self.tag += len(requests)
        await self.stream.send_all(b"".join(tagged(tag, encode(one)) for tag, one in zip(tags, requests, strict=True)))
        return tags

    async def frame(self) -> tuple[int, memoryview]:
        while (frame := self._splitter.next_frame()) is None:
            data = await self.stream.receive_some()
            if not data:
                raise trio.EndOfChannel
            self._splitter.feed(data)
        return frame

    async def receive(self) -> tuple[int, m.Answer]:
        type_code, body = await self.frame()
        tag, rest = untagged(body)
        return tag, decode_answer(type_code, rest)

    async def ask(self, request: m.Request) -> m.Answer:
        [tag] = await self.send(request)
        answered, answer = await self.receive()
        assert answered == tag
        return answer

    async def ends_with(self, code: JournalCode) -> None:
        tag, answer = await self.receive()
        assert tag == OF_THE_CONNECTION
        assert isinstance(answer, m.RefusalAnswer), answer
        assert answer.code == code
        with pytest.raises(trio.EndOfChannel):
            await self.frame()


def put(path: str, sequence: int, payload: bytes = b"content", *, epoch_seen: int = 0) -> m.PutRequest:
    operation = OperationId(client=sequence.to_bytes(16), sequence=1)  # one id for each that is in progress
    stamp = m.Stamp(operation=operation, claim=None, epoch_seen=epoch_seen)
    return m.PutRequest(path=path, overwrite=True, stamp=stamp, payload=payload)


@pytest.fixture(params=["memory", "socket"])
async def shared(request: pytest.FixtureRequest, service: Service, nursery: trio.Nursery) -> SharedPeer:
    if request.param == "memory":
        peer = SharedPeer(service.connect().stream)
    else:
        here, there = socket.socketpair()

        async def talk() -> None:
            stream = PlainStream(there)
            await service.gateway.talk(stream, peer="socket")
            stream.close()

        nursery.start_soon(talk)
        peer = SharedPeer(trio.SocketStream(trio.socket.from_stdlib_socket(here)))
    nursery.start_soon(service.gateway.run)
    await peer.greet()
    return peer


def hold(service: Service) -> list[Callable[[], None]]:
    """From now on PUTs are answered when the test calls what comes into this list."""
    service.volume.held = []
    return service.volume.held


async def test_each_request_gets_its_answer(shared: SharedPeer) -> None:
    status = await shared.ask(put("q/1", 1))
    assert isinstance(status, m.StatusAnswer)
    assert (status.status.path, status.status.size) == ("q/1", 7)
    assert await shared.ask(put("q/1", 1)) == status, "sent again, it is answered again"
    tags = await shared.send(
        m.StatRequest(path="q/1", epoch_seen=0),
        m.PingRequest(number=7),
        m.StatRequest(path="none", epoch_seen=0),
        put("q//1", 2),
        put("q/1", 3, epoch_seen=9),
    )
    answers = dict([await shared.receive() for _ in tags])
    assert [type(answers[tag]).__name__ for tag in tags[:2]] == ["StatusAnswer", "PongAnswer"]
    codes = [answer.code for tag in tags[2:] if isinstance(answer := answers[tag], m.RefusalAnswer)]
    assert codes == [JournalCode.NOT_FOUND, JournalCode.BAD_PATH, JournalCode.NOT_OWNER]


async def test_answers_come_in_the_order_in_which_they_are_ready(shared: SharedPeer, service: Service) -> None:
    held = hold(service)
    first, second, third = await shared.send(put("a", 1), put("b", 2, b"22"), m.PingRequest(number=1))
    assert (await shared.receive())[0] == third
    held.pop()()
    assert (await shared.receive())[0] == second
    held.pop()()
    assert (await shared.receive())[0] == first
    assert not held


async def test_a_burst_is_answered_with_one_write(shared: SharedPeer, service: Service) -> None:
    held = hold(service)
    tags = await shared.send(*(put(f"burst/{number}", number + 1) for number in range(50)))
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert len(held) == 50
    for answer in held:
        answer()
    data = bytes(await shared.stream.receive_some(1 << 20))
    splitter = FrameSplitter(frame_bytes_max=limits.FRAME_BYTES_MAX)
    splitter.feed(data)
    seen = []
    while (frame := splitter.next_frame()) is not None:
        seen.append(untagged(frame[1])[0])
    assert seen == tags
    assert sum(service.metrics.seconds[m.FileMessageType.PUT].counts) == 50


@pytest.mark.parametrize(
    "request_of_many_frames",
    [
        m.ReadRequest(path="q/1", offset=0, length=None, modified_ms=None, epoch_seen=0),
        m.WriteCommitRequest(size=1),
        m.WriteCancelRequest(),
        m.FileData(offset=0, payload=b"x"),
    ],
)
async def test_what_is_read_or_streamed_has_its_own_connection(
    shared: SharedPeer, request_of_many_frames: m.Request
) -> None:
    answer = await shared.ask(request_of_many_frames)
    assert isinstance(answer, m.RefusalAnswer)
    assert answer.code == JournalCode.UNSUPPORTED
    assert isinstance(await shared.ask(m.PingRequest(number=1)), m.PongAnswer)


async def test_a_tag_that_is_in_use_breaks_the_connection(shared: SharedPeer, service: Service) -> None:
    hold(service)
    await shared.send(put("a", 1))
    shared.tag -= 1
    await shared.send(put("b", 2))
    await shared.ends_with(JournalCode.PROTOCOL)


@pytest.mark.parametrize("frame", [bytes([0, 0, 0, 1, 0x30]), tagged(0, encode(m.PingRequest(number=1)))])
async def test_a_frame_needs_a_tag_of_its_own(shared: SharedPeer, frame: bytes) -> None:
    await shared.stream.send_all(frame)
    await shared.ends_with(JournalCode.PROTOCOL)


async def test_changed_bytes_end_the_connection(shared: SharedPeer, service: Service) -> None:
    frame = bytearray(tagged(7, encode(put("a", 1))))
    frame[-1] ^= 1
    await shared.stream.send_all(frame)
    await shared.ends_with(JournalCode.PROTOCOL)
    assert "a" not in service.volume.tree


async def test_open_waits_until_nothing_is_in_progress(shared: SharedPeer, service: Service) -> None:
    assert isinstance(await shared.ask(OPEN), m.OpenedAnswer)
    hold(service)
    await shared.send(put("a", 1), OPEN)
    await shared.ends_with(JournalCode.PROTOCOL)


async def test_quit_comes_after_what_is_in_progress(shared: SharedPeer, service: Service) -> None:
    held = hold(service)
    first, leaving, late = await shared.send(put("a", 1), m.QuitRequest(), m.PingRequest(number=1))
    await trio.testing.wait_all_tasks_blocked(0.01)
    held.pop()()
    assert (await shared.receive())[0] == first
    assert await shared.receive() == (leaving, m.ByeAnswer())
    with pytest.raises(trio.EndOfChannel):
        await shared.frame()
    assert late == shared.tag


async def test_a_service_that_stops_answers_what_is_in_progress(
    shared: SharedPeer, service: Service, nursery: trio.Nursery
) -> None:
    held = hold(service)
    [tag] = await shared.send(put("a", 1))
    await trio.testing.wait_all_tasks_blocked(0.01)
    nursery.start_soon(service.gateway.stop)
    await trio.testing.wait_all_tasks_blocked(0.01)
    held.pop()()
    assert (await shared.receive())[0] == tag
    await shared.ends_with(JournalCode.SHUTTING_DOWN)


async def test_a_service_that_stops_while_it_greets_serves_nothing_more(
    service: Service, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    here, there = trio.testing.memory_stream_pair()
    deliver = there.send_stream.send_all_hook
    assert deliver is not None

    async def slowly() -> None:
        await deliver()
        there.send_stream.send_all_hook = deliver
        nursery.start_soon(service.gateway.stop)
        await trio.sleep(1)

    there.send_stream.send_all_hook = slowly
    nursery.start_soon(partial(service.gateway.talk, there, peer="memory"))
    peer = SharedPeer(here)
    await here.send_all(encode(HELLO) + tagged(1, encode(OPEN)))
    assert isinstance(decode_answer(*await peer.frame()), m.WelcomeAnswer)
    tag, refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer), refusal
    assert (tag, refusal.code) == (OF_THE_CONNECTION, JournalCode.SHUTTING_DOWN)


async def test_a_service_that_stops_while_a_volume_is_opened(service: Service, nursery: trio.Nursery) -> None:
    async def never(_name: str) -> None:
        await trio.sleep_forever()

    peer = SharedPeer(service.connect().stream)
    service.volumes.settle = never  # type: ignore[method-assign]
    await peer.stream.send_all(encode(HELLO) + tagged(1, encode(OPEN)))
    await peer.frame()
    await trio.testing.wait_all_tasks_blocked(0.01)
    nursery.start_soon(service.gateway.stop)
    await peer.ends_with(JournalCode.SHUTTING_DOWN)


async def test_a_client_that_closes_its_side_gets_its_answers(shared: SharedPeer, service: Service) -> None:
    held = hold(service)
    [tag] = await shared.send(put("a", 1))
    await trio.testing.wait_all_tasks_blocked(0.01)
    if isinstance(shared.stream, trio.SocketStream | trio.StapledStream):
        await shared.stream.send_eof()
    await trio.testing.wait_all_tasks_blocked(0.01)
    held.pop()()
    assert (await shared.receive())[0] == tag
    with pytest.raises(trio.EndOfChannel):
        await shared.frame()


async def test_a_sign_of_life_while_requests_wait(
    service: Service, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    shared = SharedPeer(service.connect().stream)
    nursery.start_soon(service.gateway.run)
    await shared.greet()
    held = hold(service)
    [tag] = await shared.send(put("a", 1))
    began = trio.current_time()
    for _ in range(3):
        of_whom, waiting = await shared.receive()
        assert of_whom == OF_THE_CONNECTION
        assert isinstance(waiting, m.WaitingAnswer)
    assert 3 * limits.WAITING_SECONDS <= trio.current_time() - began < 3 * limits.SILENCE_SECONDS_MAX
    held.pop()()
    assert (await shared.receive())[0] == tag


async def test_who_asks_on_while_nothing_is_answered_is_told_that_it_is_worked_on(
    service: Service, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """What comes is no sign for the client: it hears only what is said."""
    del autojump_clock
    shared = SharedPeer(service.connect().stream)
    nursery.start_soon(service.gateway.run)
    await shared.greet()
    hold(service)

    async def ask_on() -> None:
        for number in range(40):
            await shared.send(put(f"more/{number}", number + 1))
            await trio.sleep(limits.WAITING_SECONDS / 3)

    async with trio.open_nursery() as asking:
        asking.start_soon(ask_on)
        for _ in range(3):
            with trio.fail_after(limits.SILENCE_SECONDS_MAX):
                _, waiting = await shared.receive()
            assert isinstance(waiting, m.WaitingAnswer)


async def test_beyond_what_may_be_in_progress_nothing_is_read(
    shared: SharedPeer, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REQUESTS_MAX", 10)
    held = hold(service)
    tags = await shared.send(*(put(f"many/{number}", number + 1) for number in range(25)))
    answered: list[int] = []
    while len(answered) < 25:
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert 0 < len(held) <= 10
        now, held[:] = held[:], []
        for answer in now:
            answer()
        answered += [(await shared.receive())[0] for _ in now]
    assert answered == tags


async def test_answers_that_nobody_takes_are_bounded(
    service: Service, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """A peer that asks and does not read is read no more, and given up after a while."""
    del autojump_clock
    monkeypatch.setattr(shared_talk, "ANSWERS_BYTES_MAX", 1000)
    here, there = trio.testing.lockstep_stream_pair()
    ended = trio.Event()

    async def talk() -> None:
        await service.gateway.talk(there, peer="slow")
        ended.set()

    nursery.start_soon(talk)
    nursery.start_soon(service.gateway.run)
    shared = SharedPeer(here)
    await shared.greet()

    async def asking() -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            while True:
                await shared.send(m.PingRequest(number=1))

    async with trio.open_nursery() as asker:
        asker.start_soon(asking)
        await ended.wait()
        await there.aclose()
    assert shared.tag < 200
    assert service.gateway.connections == 0


async def test_nobody_else_waits_for_a_request_that_waits_for_room(
    shared: SharedPeer, service: Service, nursery: trio.Nursery
) -> None:
    full, room = True, trio.Event()
    volume = service.volume

    class Full(type(volume)):  # type: ignore[misc]
        is_full = property(lambda self: full)

        async def wait_room(self) -> None:
            await room.wait()

        def put_soon(self, *arguments: object, **options: object) -> bool:
            return False if full else super().put_soon(*arguments, **options)

    volume.__class__ = Full
    del nursery
    waiting, quick = await shared.send(put("a", 1), m.StatRequest(path="", epoch_seen=0))
    assert (await shared.receive())[0] == quick
    full = False
    room.set()
    assert (await shared.receive())[0] == waiting


async def test_a_version_that_is_not_there_is_refused_as_before(service: Service) -> None:
    for version in (0, 3):
        peer = service.connect()
        refusal = await peer.refused(m.HelloRequest(version=version, token=None, client="test", instance=INSTANCE))
        assert refusal.code == JournalCode.VERSION
        assert dict(refusal.fields) == {"minimum": 1, "maximum": 2}
