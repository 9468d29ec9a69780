"""What a listener does with connections: resumption, exclusive streams, credits, what is illegal, what waits."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from connectors.ingest.ingest_log import IngestLog
from connectors.ingest.persistent_changes import PAUSE_SECONDS
from connectors.listener.sources import SWEEP_SECONDS
from connectors.wire.frames import (
    EosFrame,
    ErrorFrame,
    Frame,
    HelloFrame,
    NotifyAckFrame,
    OkFrame,
    RestartFrame,
)
from connectors.wire.limits import NOTHING_SEEN
from journal.errors import JournalCode, JournalError, journal_error
from tests.connectors.house import (
    HELLO,
    OTHER,
    SETTINGS,
    FromOutside,
    Peer,
    accepted,
    ack,
    listening,
    message,
    notify,
    refused,
)
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from journal.volume import Buffer, FileStatus, OperationId, PathClaim


class FullVolume(MemoryVolume):
    """Has no room for a while."""

    full = False

    async def append(
        self,
        path: str,
        data: Buffer,
        *,
        size: int,
        modified_ms: int,
        operation: OperationId,
        claim: PathClaim | None = None,
    ) -> FileStatus:
        if self.full:
            raise journal_error(JournalCode.OUTCOME_UNKNOWN, "the members are full")
        return await super().append(path, data, size=size, modified_ms=modified_ms, operation=operation, claim=claim)


class DoubtfulVolume(MemoryVolume):
    """Does an append, and then says that."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.says: list[JournalCode] = []

    async def append(
        self,
        path: str,
        data: Buffer,
        *,
        size: int,
        modified_ms: int,
        operation: OperationId,
        claim: PathClaim | None = None,
    ) -> FileStatus:
        made = await super().append(path, data, size=size, modified_ms=modified_ms, operation=operation, claim=claim)
        if self.says:
            raise journal_error(self.says.pop(0), "not now")
        return made


async def test_messages_are_stored_and_acknowledged() -> None:
    async with listening() as house:
        peer = await house.opened(1, 2)
        await peer.say(message(5), message(7), message(1, b"y", 2))
        await peer.hears(ack(3, (1, 7), (2, 1)))
        assert await house.rows() == [(0, 1, 5, b"x"), (1, 1, 7, b"x"), (2, 2, 1, b"y")]


async def test_what_came_before_is_acknowledged_and_not_stored_again() -> None:
    async with listening() as house:
        peer = await house.opened(1)
        await peer.say(message(5), message(5), message(4), message(6))
        await peer.hears(ack(4, (1, 6)))
        await peer.say(message(2))
        await peer.hears(ack(1))
        assert [row[2] for row in await house.rows()] == [5, 6]


async def test_an_empty_message_moves_the_point_of_reference_and_is_no_row() -> None:
    async with listening() as house:
        peer = await house.opened(1)
        await peer.say(message(5, b""))
        await peer.hears(ack(1, (1, 5)))
        assert await house.rows() == []
        await peer.say(EosFrame(stream_id=1), notify())
        await peer.hears(ack(0, (1, 5)), accepted(point=5), ack(1))


async def test_the_end_of_a_stream_is_acknowledged_with_its_last_message() -> None:
    async with listening() as house:
        peer = await house.opened(1, 2)
        await peer.say(message(5), message(9), EosFrame(stream_id=1), EosFrame(stream_id=2))
        await peer.hears(ack(0, (1, 9)), ack(0, (2, NOTHING_SEEN)), ack(2, (1, 9)))


async def test_a_new_listener_goes_on_where_the_last_one_was() -> None:
    volume = MemoryVolume("v")
    async with listening(volume) as house:
        peer = await house.opened(1, 2)
        await peer.say(message(5), message(3, b"", 2))
        await peer.hears(ack(2, (1, 5), (2, 3)))
    async with listening(volume) as house:
        peer = await house.opened()
        await peer.say(notify(1), notify(2), notify(3))
        await peer.hears(accepted(1, 5), accepted(2, 3), accepted(3), ack(3))
        await peer.say(message(5), message(6))
        await peer.hears(ack(2, (1, 6)))
        assert await house.rows() == [(0, 1, 5, b"x"), (1, 1, 6, b"x")]


async def test_a_stream_is_open_on_one_connection() -> None:
    async with listening() as house:
        first, second = await house.opened(1), await house.opened(hello=OTHER)
        await second.say(notify(1))
        await second.hears(refused())
        await first.say(message(4), EosFrame(stream_id=1))
        await first.hears(ack(0, (1, 4)), ack(1, (1, 4)))
        await second.say(notify(1))
        await second.hears(accepted(point=4), ack(1))


async def test_who_is_refused_a_stream_asks_again_later(autojump_clock: trio.testing.MockClock) -> None:
    """As Wallaroo's client does at the next ACK: its credit comes back with the next sweep, not at once."""
    async with listening() as house:
        await house.opened(1)
        second = await house.opened(hello=OTHER)
        began = trio.current_time()
        for _ in range(5):
            await second.say(notify(1))
            await second.hears(refused(), ack(1))
        assert trio.current_time() - began > 4 * SWEEP_SECONDS


async def test_a_notification_without_a_credit_brings_none() -> None:
    async with listening(settings=replace(SETTINGS, credits=1, streams_max=100)) as house:
        peer = await house.opened()
        await peer.say(*(notify(n) for n in range(50)))
        await peer.hears(*(accepted(n) for n in range(50)), ack(1))
        await peer.say(message(1, stream_id=7), message(2, stream_id=7))
        assert isinstance(await peer.next(), ErrorFrame)


async def test_programs_without_a_name_do_not_take_streams_from_each_other() -> None:
    nameless = replace(HELLO, instance="")
    async with listening() as house:
        await house.opened(1, hello=nameless)
        second = await house.opened(hello=nameless)
        await second.say(notify(1))
        await second.hears(refused())


async def test_a_stream_is_free_when_its_connection_is_gone() -> None:
    async with listening() as house:
        first, second = await house.opened(1), await house.opened(hello=OTHER)
        await first.say(message(4))
        await first.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        await second.say(notify(1))
        await second.hears(accepted(point=4), ack(1))


async def test_the_same_instance_takes_its_streams_from_its_lost_connection() -> None:
    async with listening() as house:
        first = await house.opened(1)
        await first.say(message(4))
        second = await house.opened()
        await second.say(notify(1))
        await second.hears(accepted(point=4), ack(1))
        await first.hears(ack(1, (1, 4)))
        assert isinstance(await first.next(), ErrorFrame)
        await first.is_closed()


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (HelloFrame(version="v0.0.1", cookie=b"", program="p", instance="i"), "version 'v0.0.1'"),
        (HelloFrame(version="0.0.1", cookie=b"secret", program="p", instance="i"), "cookie"),
        (notify(), "NOTIFY"),
    ],
)
async def test_who_is_not_let_in(hello: Frame, why: str) -> None:
    async with listening() as house:
        peer = await house.connect(hello)
        answer = await peer.next()
        assert isinstance(answer, ErrorFrame)
        assert why in answer.reason
        assert "secret" not in answer.reason
        await peer.is_closed()


@pytest.mark.parametrize(
    "wrong",
    [
        [message(1, stream_id=2)],
        [notify(1)],
        [EosFrame(stream_id=3)],
        [OkFrame(initial_credits=1)],
        [message(n) for n in range(11)],
        [message(1, bytes(3000))],
        [message(NOTHING_SEEN)],
        [notify(2), notify(3), notify(4)],
    ],
    ids=["not introduced", "twice", "end of nothing", "not its own", "no credit", "too large", "no id", "streams"],
)
async def test_what_is_illegal_ends_the_connection_and_no_other(wrong: list[Frame]) -> None:
    async with listening() as house:
        other = await house.opened(7, hello=OTHER)
        peer = await house.opened(1)
        await peer.say(*wrong)
        while not isinstance(answer := await peer.next(), ErrorFrame):
            assert answer is not None
        await peer.is_closed()
        await other.say(message(1, stream_id=7))
        await other.hears(ack(1, (7, 1)))


async def test_no_greeting(autojump_clock: trio.testing.MockClock) -> None:
    async with listening() as house:
        peer = await house.connect(HELLO)
        silent = await house.connect(EosFrame(stream_id=1))
        assert isinstance(await silent.next(), ErrorFrame)
        await peer.hears(OkFrame(initial_credits=SETTINGS.credits))
        mute = await house.connect()
        await trio.sleep(SETTINGS.hello_seconds)
        answer = await mute.next()
        assert isinstance(answer, ErrorFrame)
        assert "no HELLO" in answer.reason


async def test_credits_wait_while_the_volume_is_full(autojump_clock: trio.testing.MockClock) -> None:
    volume = FullVolume("v")
    async with listening(volume) as house:
        peer = await house.opened(1)
        volume.full = True
        await peer.say(*(message(n) for n in range(10)))
        await trio.sleep(100)
        await peer.hears(ack(0), ack(0))  # the listener is there, and gives no credits
        assert house.sources.ingest is not None
        assert house.sources.ingest.stopped_by == "the members are full"
        volume.full = False
        await trio.sleep(PAUSE_SECONDS)
        await peer.hears(ack(10, (1, 9)))
        assert len(await house.rows()) == 10


async def test_when_the_listener_stops_sources_are_sent_elsewhere() -> None:
    async with listening() as house:
        peer = await house.opened(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.sources.stop, "b:7431")
            await peer.hears(RestartFrame(address="b:7431"))
            await peer.is_closed()
        late = Peer(await house.dial())
        await late.is_closed()


async def test_what_came_before_the_stop_is_acknowledged(autojump_clock: trio.testing.MockClock) -> None:
    """Without an address nothing else is said: RESTART ends Wallaroo's client, a closed connection does not."""
    volume = FullVolume("v")
    async with listening(volume) as house:
        peer = await house.opened(1)
        volume.full = True
        await peer.say(message(1))
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.sources.stop)
            await trio.sleep(1)
            volume.full = False
            await peer.hears(ack(1, (1, 1)))
            await peer.is_closed()


async def test_nothing_is_said_behind_half_a_frame() -> None:
    """It would be read as the other half: a point of reference that nobody has reached."""
    async with listening(settings=replace(SETTINGS, credits=4000, streams_max=4000)) as house:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        peer = Peer(trio.SocketStream(trio.socket.from_stdlib_socket(theirs)))
        outside: Any = FromOutside(trio.SocketStream(trio.socket.from_stdlib_socket(ours)))
        async with trio.open_nursery() as nursery:

            async def converse() -> None:
                await house.sources.converse(outside)
                await outside.stream.aclose()

            nursery.start_soon(converse)
            await peer.say(HELLO)
            await peer.hears(OkFrame(initial_credits=4000))
            await peer.say(*(notify(n) for n in range(3000)))
            await trio.sleep(0.2)  # it has begun to answer, and stands with half a frame
            await house.sources.stop("elsewhere:1")
            while (frame := await peer.next()) is not None:
                assert isinstance(frame, NotifyAckFrame)
                assert (frame.accepted, frame.point_of_reference) == (True, NOTHING_SEEN)


async def test_an_error_and_an_acknowledgement_at_the_same_moment() -> None:
    async with listening() as house:
        for n in range(60):
            peer = await house.opened(n)
            await peer.say(message(1, stream_id=n))
            for _ in range(n % 12):
                await trio.lowlevel.cancel_shielded_checkpoint()
            await peer.say(ErrorFrame(reason="mine"))
            while await peer.next() is not None:
                pass
        assert house.failed == []


async def test_an_unknown_outcome_is_asked_again_with_the_same_operation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Made, but not known; then not even taken; then asked again: the same operation, so it is done once."""
    volume = DoubtfulVolume("v")
    async with listening(volume) as house:
        peer = await house.opened(1)
        volume.says = [JournalCode.OUTCOME_UNKNOWN, JournalCode.UNAVAILABLE]
        await peer.say(message(1))
        await peer.hears(ack(1, (1, 1)))
        assert len(await house.rows()) == 1
        assert not volume.says


async def test_a_volume_of_something_else_is_refused() -> None:
    volume = MemoryVolume("v")
    await IngestLog(volume, wall_ms=lambda: 0)._put("query/offsets/0", b"x")
    with pytest.raises(JournalError, match="not an ingest volume"):
        await IngestLog(volume, wall_ms=lambda: 0).open()
