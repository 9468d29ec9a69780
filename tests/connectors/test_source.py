"""`open_source` against a listener: what is cut off, refused, moved, slow or gone."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio
import trio.lowlevel
import trio.testing

from connectors.listener.settings import ProtocolSettings
from connectors.source.source import SILENT_SECONDS, Source
from connectors.source.source_link import ListenerRefusedError
from connectors.wire.frames import HelloFrame, NotifyFrame, OkFrame, RestartFrame
from sos_client.nurseries import background
from sos_client.wire.errors import DeadlineError, MisuseError
from sos_client.wire.strangers import WrongPortError
from tests.connectors.house import HELLO, OTHER, House, Peer, accepted, listening
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from connectors.source.source import OpenStream
    from connectors.wire.session import ConnectorSession

SETTINGS = ProtocolSettings(credits=10)


@asynccontextmanager
async def sourcing(
    dial: Callable[[str], Awaitable[trio.abc.Stream]],
    *,
    hello: HelloFrame = HELLO,
    window_bytes: int = 10_000,
    patience_seconds: float = 60.0,
) -> AsyncIterator[Source]:
    source = Source(["a", "b"], hello, dial, window_bytes=window_bytes, patience_seconds=patience_seconds)
    async with background() as nursery:
        nursery.start_soon(source.run)
        yield source


async def payloads(house: House) -> list[bytes]:
    return [row[3] for row in await house.rows()]


async def test_everything_arrives_once_and_in_order() -> None:
    async with listening(settings=SETTINGS) as house, sourcing(house.dial) as source:
        stream = await source.open_stream(1, "s")
        assert stream.outbox.point == -1
        for n in range(100):
            await stream.send(n, b"%d" % n, key=b"k", event_time=n)
        await stream.flush()
        assert stream.point_of_reference == 99
        with pytest.raises(MisuseError, match="open already"):
            await source.open_stream(1, "s")
        await stream.aclose()
        with pytest.raises(MisuseError, match="closed"):
            await stream.send(100, b"")
        assert await payloads(house) == [b"%d" % n for n in range(100)]


async def test_many_are_sent_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Without payload, too: such a message is no row. What is not in order is not taken at all."""
    async with listening(settings=SETTINGS) as house, sourcing(house.dial) as source:
        stream = await source.open_stream(1, "s")
        for first in range(0, 100, 20):
            ids = list(range(first, first + 20))
            await stream.send_many(ids, [b"%d" % n if n % 7 else b"" for n in ids])
            if first == 40:
                await house.ends[-1].aclose()
        for ids, sent, reason in (
            ([100, 100], [b"x", b"x"], "must grow"),
            ([100], [b"x", b"x"], "1 ids for 2"),
            ([-1, 100], [b"x", b"x"], "range"),
            ([100], [bytes(1 << 20)], "1 MiB"),
        ):
            with pytest.raises(MisuseError, match=reason):
                await stream.send_many(ids, sent)
        await stream.send_many([], [])
        await stream.send(100, b"100")
        await stream.aclose()
        with pytest.raises(MisuseError, match="closed"):
            await stream.send_many([101], [b"x"])
        assert await payloads(house) == [b"%d" % n for n in range(101) if n % 7]


async def test_it_goes_on_after_each_cut(autojump_clock: trio.testing.MockClock) -> None:
    async with listening(settings=SETTINGS) as house, sourcing(house.dial) as source:
        streams = [await source.open_stream(n, f"s{n}") for n in range(3)]
        for n in range(100):
            for stream in streams:
                await stream.send(n, b"%d" % n)
            if n % 10 == 3:
                await house.ends[-1].aclose()  # what is in the memory between the two is lost
            if n % 7 == 0:
                await trio.sleep(1)
        for stream in streams:
            await stream.aclose()
        assert source.connections > 5
        rows = await house.rows()
        for number in range(3):
            assert [row[3] for row in rows if row[1] == number] == [b"%d" % n for n in range(100)]


async def test_a_program_that_begins_again_passes_over_what_is_there() -> None:
    volume = MemoryVolume("v")
    for run in (30, 60):
        async with listening(volume, SETTINGS) as house, sourcing(house.dial) as source:
            stream = await source.open_stream(1, "s")
            assert stream.point_of_reference == (None if run == 30 else 29)
            for n in range(run):
                await stream.send(n, b"%d" % n)
            await stream.flush()
            assert await payloads(house) == [b"%d" % n for n in range(run)]


async def test_a_stream_that_another_has_is_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    async with listening(settings=SETTINGS) as house, sourcing(house.dial) as first:
        stream = await first.open_stream(1, "s")
        await stream.send(4, b"x")
        async with sourcing(house.dial, hello=OTHER) as second, trio.open_nursery() as nursery:

            async def end_later() -> None:
                await trio.sleep(10)
                await stream.aclose()

            nursery.start_soon(end_later)
            assert (await second.open_stream(1, "s")).point_of_reference == 4
            assert trio.current_time() >= 10


async def test_a_busy_stream_leaves_credits_to_others(autojump_clock: trio.testing.MockClock) -> None:
    async with listening(settings=SETTINGS) as house, sourcing(house.dial) as source:
        busy = await source.open_stream(1, "busy")

        async def write() -> None:
            for n in range(100_000):
                await busy.send(n, b"x")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await trio.lowlevel.checkpoint()
            with trio.fail_after(10):
                other = await source.open_stream(2, "other")
                await other.send(1, b"y")
                await other.flush()
            nursery.cancel_scope.cancel()


async def test_a_listener_that_has_lost_its_volume_is_asked_again(autojump_clock: trio.testing.MockClock) -> None:
    volume = MemoryVolume("v")
    async with listening(volume, SETTINGS) as house, sourcing(house.dial) as source:
        stream = await source.open_stream(1, "s")
        ingest = house.sources._ingest
        house.sources._ingest = None
        await house.ends[-1].aclose()
        await stream.send(1, b"1")
        await trio.sleep(10)
        house.sources._ingest = ingest
        await stream.flush()
        assert await payloads(house) == [b"1"]


async def test_a_connection_that_says_nothing_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async with listening(settings=SETTINGS) as house:
        silent: list[trio.abc.Stream] = []

        async def dial(address: str) -> trio.abc.Stream:
            stream = await house.dial(address)
            if not silent:
                silent.append(stream)
            return stream

        async with sourcing(dial) as source:
            stream = await source.open_stream(1, "s")
            house.sources.ingest.wake = lambda: None  # type: ignore[union-attr, method-assign]
            await stream.send(1, b"1")
            await trio.sleep(SILENT_SECONDS + 1)
            del house.sources.ingest.wake  # type: ignore[union-attr]
            await stream.flush()
            assert source.connections > 1


async def test_streams_that_have_ended_are_opened_again() -> None:
    async with listening(settings=SETTINGS) as house, sourcing(house.dial) as source:
        for n in range(30):
            stream = await source.open_stream(1, "s")
            await stream.send(n, b"%d" % n)
            await stream.aclose()
        assert await payloads(house) == [b"%d" % n for n in range(30)]


async def test_a_message_that_no_listener_takes() -> None:
    async with listening(settings=SETTINGS) as house, sourcing(house.dial) as source:
        stream = await source.open_stream(1, "s")
        with pytest.raises(MisuseError, match="1 MiB"):
            await stream.send(1, bytes(1 << 20))
        await stream.send(1, b"1")
        await stream.flush()


async def test_who_is_refused_is_told_why() -> None:
    wrong = replace(HELLO, cookie=b"x")
    async with listening(settings=SETTINGS) as house, sourcing(house.dial, hello=wrong) as source:
        for stream_id in (1, 2):
            with pytest.raises(ListenerRefusedError, match="cookie"):
                await source.open_stream(stream_id, "s")


async def test_a_restart_leads_to_the_address_that_it_names(autojump_clock: trio.testing.MockClock) -> None:
    volume, dialled = MemoryVolume("v"), list[str]()
    async with listening(volume, SETTINGS) as house:

        async def dial(address: str) -> trio.abc.Stream:
            dialled.append(address)
            if len(dialled) > 1:
                house.sources._moved_to = None  # the one at the new address takes it
            return await house.dial()

        async with sourcing(dial) as source:
            stream = await source.open_stream(1, "s")
            await stream.send(1, b"1")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(house.sources.stop, "elsewhere:1")
                await stream.send(2, b"2")
                await stream.flush()
            assert dialled == ["a", "elsewhere:1"]
            assert await payloads(house) == [b"1", b"2"]


async def test_the_address_that_a_restart_names_is_asked_until_it_answers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The one at the new address may not have the volume yet, and the old one is gone for good."""
    volume, asked = MemoryVolume("v"), list[str]()
    async with listening(volume, SETTINGS) as house:

        async def dial(address: str) -> trio.abc.Stream:
            asked.append(address)
            if len(asked) > 1 and (address != "elsewhere:1" or asked.count(address) < 3):
                raise ConnectionRefusedError("nobody")
            return await house.dial()

        async with sourcing(dial) as source:
            stream = await source.open_stream(1, "s")
            await stream.send(1, b"1")
            await house.sources.stop("elsewhere:1")
            house.sources._moved_to = None
            for n in (2, 3):  # and it is remembered when that connection is lost
                await stream.send(n, b"%d" % n)
                await stream.flush()
                await house.ends[-1].aclose()
            assert await payloads(house) == [b"1", b"2", b"3"]


async def test_listeners_that_send_a_source_to_each_other_are_not_asked_without_a_pause(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Each was told to drain to the other. The source asks again and again, ever more slowly, until one has it."""
    volume, asked = MemoryVolume("v"), list[str]()
    async with listening(volume, SETTINGS) as house, trio.open_nursery() as nursery:
        settled = False

        async def send_on(there: trio.abc.Stream, other: str) -> None:
            peer = Peer(there)
            while (frame := await peer.next()) is not None:
                if isinstance(frame, HelloFrame):
                    await peer.say(OkFrame(initial_credits=10))
                elif isinstance(frame, NotifyFrame):
                    await peer.say(accepted(frame.stream_id), RestartFrame(address=other))
                    await there.aclose()
                    return

        async def dial(address: str) -> trio.abc.Stream:
            asked.append(address)
            if settled:
                return await house.dial()
            here, there = trio.testing.memory_stream_pair()
            nursery.start_soon(send_on, there, "y:1" if address == "x:1" else "x:1")
            return here

        async with sourcing(dial) as source:
            nursery.start_soon(source.open_stream, 1, "s")
            await trio.sleep(60)
            assert asked[:3] == ["a", "x:1", "y:1"]
            assert 10 <= len(asked) <= 40
            settled = True
            stream = source._streams[1]
            await stream.send(1, b"1")
            await stream.flush()
            assert await payloads(house) == [b"1"]


async def test_send_waits_while_too_much_is_not_acknowledged(autojump_clock: trio.testing.MockClock) -> None:
    async with listening(settings=SETTINGS) as house, sourcing(house.dial, window_bytes=1000) as source:
        stream = await source.open_stream(1, "s")
        for n in range(50):
            await stream.send(n, bytes(200))
            assert stream.outbox.held_bytes <= 1000
        await stream.flush()


async def test_nobody_waits_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    async def dial(address: str) -> trio.abc.Stream:
        raise OSError(111, "Connection refused")

    async with sourcing(dial, patience_seconds=20.0) as source:
        with pytest.raises(DeadlineError, match=r"waited 20 s .* connection refused"):
            await source.open_stream(1, "s")
    assert trio.current_time() < 30


async def test_a_message_costs_no_look_at_the_other_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    looks_at = Source._of_stream

    def counted(source: Source, session: ConnectorSession, stream: OpenStream) -> list[bytes]:
        looked.append(stream.stream_id)
        return looks_at(source, session, stream)

    async with listening(settings=SETTINGS) as house, sourcing(house.dial) as source:
        streams = [await source.open_stream(n, f"s{n}") for n in range(200)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        monkeypatch.setattr(Source, "_of_stream", counted)
        for n in range(50):
            await streams[7].send(n, b"x")
        await streams[7].flush()
        assert set(looked) == {7}
        assert len(looked) <= 51
        await streams[8].aclose()
        assert set(looked) == {7}
        assert await payloads(house) == [b"x"] * 50


async def test_who_is_on_another_port_is_told(autojump_clock: trio.testing.MockClock) -> None:
    """A journal service refuses HELLO in words that no listener has."""

    async def dial(_: str) -> trio.abc.Stream:
        here, there = trio.testing.memory_stream_pair()
        await there.send_all(bytes.fromhex("00000003aa9001"))
        return here

    async with sourcing(dial) as source:
        with pytest.raises(WrongPortError, match=r"a is the port of a journal service .*; a listener .* was expected"):
            await source.open_stream(1, "s")


async def test_it_says_why_there_is_no_connection(autojump_clock: trio.testing.MockClock) -> None:
    async with listening(settings=SETTINGS) as house:
        here = False

        async def dial(address: str) -> trio.abc.Stream:
            if not here:
                raise ConnectionRefusedError("nobody")
            return await house.dial(address)

        async with sourcing(dial) as source:
            await trio.sleep(1)
            assert source.trouble in ("a: nobody", "b: nobody")
            here = True
            await source.open_stream(1, "s")
            assert source.trouble == ""
