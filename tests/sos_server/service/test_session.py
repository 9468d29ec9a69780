"""Every request and every refusal of a session, over memory and over sockets."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
import trio
import trio.testing

from sos_client.net.plain_stream import PlainStream
from sos_client.wire import messages as m
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode
from sos_client.wire.holders import shown_holder
from sos_server.config import LimitsSection
from tests.fakes.memory_store import ROOM_BYTES
from tests.fakes.scripted_client import append, data
from tests.sos_server.conversations import NOW, Scene, scene

HOLDER = b"holder number 1."
OTHER = b"holder number 2."

pytestmark = pytest.mark.parametrize("carrier", ["memory", "socket"])


async def test_hello_use_and_quit(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        client = here.connect()
        welcome = await client.hello()
        assert welcome.server_identity == here.store.identity
        assert welcome.server_time == NOW
        using = await client.use("payments")
        assert (using.epoch, using.holder) == (0, b"")
        assert await client.ask(m.Ping(n=7), m.Pong) == m.Pong(n=7)
        await client.ask(m.Quit(), m.Bye)
        assert await client.receive() is None


async def test_another_version_is_named(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        client = here.connect()
        await client.send(m.Hello(version=2, token=None, client="new", instance=bytes(16)))
        error = await client.ends_with(ErrorCode.VERSION)
        assert error.fields["version"] == 1


async def test_an_append_is_acknowledged_once_per_commit(carrier: str) -> None:
    async with scene(carrier=carrier, commits_at_once=False) as here:
        client = await here.entered()
        await client.send(append("log"), data(0, b"one"), data(3, b"two"))
        assert await client.expect(m.Appending) == m.Appending(size=0)
        await trio.testing.wait_all_tasks_blocked(0.01)
        here.store.commit()
        assert await client.expect(m.Ack) == m.Ack(6, 6)
        await client.send(data(6, b"three"), m.Ping(n=1), m.End(), m.Stat(object="log"))
        assert await client.expect(m.Pong) == m.Pong(n=1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        here.store.commit()
        assert await client.expect(m.Ack) == m.Ack(11, 11)
        assert await client.expect(m.Ended) == m.Ended(size=11)
        info = await client.expect(m.ObjectInfo)
        assert (info.size, info.crc) == (11, crc32c(b"onetwothree"))
        assert here.service.traffic.appends == 3


async def test_a_refused_append_is_discarded_up_to_end(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        client = await here.entered()
        await client.send(append("log", 5), data(5, b"x"), m.Ping(n=2), m.End(), append("log"), data(0, b"y"), m.End())
        assert (await client.expect(m.Error)).code is ErrorCode.WRONG_SIZE
        await client.expect(m.Pong)
        await client.expect(m.Appending)
        await client.expect(m.Ack)
        assert await client.expect(m.Ended) == m.Ended(size=1)


async def test_wrong_size_and_prefix_tell_the_real_ones(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        client = await here.entered()
        await client.send(append("log"), data(0, b"abc"), m.End())
        for kind in (m.Appending, m.Ack, m.Ended):
            await client.expect(kind)
        for request in (append("log", 2), append("log", 3, prefix_crc=1)):
            error = await client.refused(request)
            assert error.fields == {"size": 3, "crc": crc32c(b"abc"), "epoch": 0}
            await client.send(m.End())


async def test_another_client_is_busy_and_the_same_one_takes_over(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        first = await here.entered()
        await first.ask(append("log"), m.Appending)
        other = here.connect()
        await other.hello(instance=b"another instance")
        await other.use("ns")
        assert (await other.refused(append("log"))).code is ErrorCode.BUSY
        second = await here.entered()
        await second.ask(append("log"), m.Appending)
        assert (await first.expect(m.Error)).code is ErrorCode.FENCED


async def test_a_fence_evicts_and_the_evicted_goes_on_otherwise(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        old = await here.entered()
        await old.ask(m.Fence(epoch=1, holder=HOLDER), m.Fenced)
        await old.ask(append("log", epoch=1, holder=HOLDER), m.Appending)
        await old.send(data(0, b"abc"))
        await old.acknowledged(3)
        new = await here.entered()
        await new.ask(m.Fence(epoch=2, holder=OTHER), m.Fenced)
        fenced = await old.expect(m.Error)
        assert (fenced.code, fenced.fields) == (ErrorCode.FENCED, {"epoch": 2, "holder": OTHER})
        await old.send(data(3, b"def"), m.End(), m.Stat(object="log"))
        assert (await old.expect(m.ObjectInfo)).size == 3
        assert (await old.refused(m.Fence(epoch=2, holder=HOLDER))).code is ErrorCode.STALE_EPOCH
        assert (await old.refused(append("log", 3, epoch=1, holder=HOLDER))).code is ErrorCode.FENCED
        audited = [json.loads(line) for line in here.log_lines if '"audit"' in line]
        assert [(line["event"], line["epoch"], line["holder"]) for line in audited] == [
            ("FENCE", 1, shown_holder(HOLDER).hex()),
            ("FENCE", 2, shown_holder(OTHER).hex()),
        ]


async def test_an_eviction_while_the_end_waits(carrier: str) -> None:
    async with scene(carrier=carrier, commits_at_once=False) as here:
        old = await here.entered()
        await old.ask(append("log"), m.Appending)
        await old.send(data(0, b"abc"), m.End(), m.Stat(object="log"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        new = await here.entered()
        await new.ask(m.Fence(epoch=2, holder=OTHER), m.Fenced)
        assert (await old.expect(m.Error)).code is ErrorCode.FENCED
        assert (await old.expect(m.ObjectInfo)).size == 0


async def test_back_pressure_stops_reading_and_loses_nothing(carrier: str) -> None:
    async with scene(carrier=carrier, commits_at_once=False) as here:
        client = await here.entered()
        await client.ask(append("log"), m.Appending)
        payload = bytes(100_000)
        total = 40 * len(payload)

        async def send() -> None:
            for number in range(40):
                await client.send(data(number * len(payload), payload))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            synced = 0
            while synced < total:
                await trio.testing.wait_all_tasks_blocked(0.01)
                for appender in here.store.dirty:
                    assert len(appender.pending) < ROOM_BYTES + 65536 + len(payload)
                if here.store.dirty:
                    here.store.commit()
                    synced = (await client.expect(m.Ack)).synced
        assert here.store.namespaces["ns"].objects["log"].content == bytes(total)


async def test_an_appender_that_vanishes_leaves_the_object_free(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        client = await here.entered()
        await client.ask(append("log"), m.Appending)
        await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert here.store.namespaces["ns"].objects["log"].appender is None
        assert not here.service.sessions


async def fill(here: Scene, name: str, content: bytes) -> None:
    client = await here.entered()
    await client.send(append(name), data(0, content), m.End(), m.Quit())
    while await client.receive() is not None:
        pass


@pytest.mark.parametrize(("offset", "length"), [(0, None), (0, 10), (999_999, None), (2_500_000, None), (7, 1_500_000)])
async def test_get(carrier: str, offset: int, length: int | None) -> None:
    content = bytes(range(250)) * 10_000
    async with scene(carrier=carrier) as here:
        await fill(here, "log", content)
        client = await here.entered()
        await client.send(m.Get(object="log", offset=offset, length=length, follow=False), m.Ping(n=1))
        received = b""
        while isinstance(message := await client.receive(), m.Data):
            received += bytes(message.payload)
        expected = content[offset:] if length is None else content[offset : offset + length]
        assert received == expected
        assert message == m.GetEnd(next_offset=offset + len(expected))
        await client.expect(m.Pong)
        assert here.service.traffic.read_bytes == len(expected)


async def test_get_refusals(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        await fill(here, "log", b"abc")
        client = await here.entered()
        error = await client.refused(m.Get(object="log", offset=4, length=None, follow=False))
        assert (error.code, error.fields) == (ErrorCode.RANGE, {"size": 3})
        error = await client.refused(m.Get(object="none", offset=0, length=None, follow=True))
        assert error.code is ErrorCode.NOT_FOUND
        await client.send(m.Stop())
        assert await client.ask(m.Ping(n=3), m.Pong)


@pytest.mark.parametrize("follow", [False, True])
async def test_a_get_never_goes_on_in_another_object_of_the_same_name(carrier: str, *, follow: bool) -> None:
    async with scene(carrier=carrier) as here:
        await fill(here, "log", bytes(4_000_000))
        reader, owner = await here.entered(), await here.entered()
        await reader.send(m.Get(object="log", offset=0, length=None, follow=follow))
        await trio.testing.wait_all_tasks_blocked(0.01)  # nobody takes the pieces yet
        await owner.ask(m.Seal(object="log", size=4_000_000, epoch=0, holder=b""), m.Sealed)
        await owner.ask(m.Delete(object="log", epoch=0, holder=b""), m.Deleted)
        await fill(here, "log", b"x" * 4_000_000)
        received = b""
        while isinstance(message := await reader.receive(), m.Data):
            received += bytes(message.payload)
        assert received == bytes(len(received))
        if len(received) < 4_000_000:  # over memory all of it went out before the delete
            assert isinstance(message, m.Error)
            assert message.code is ErrorCode.NOT_FOUND


async def test_follow_sees_growth_until_stop(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        writer = await here.entered()
        await writer.ask(append("log"), m.Appending)
        reader = await here.entered()
        await reader.send(m.Get(object="log", offset=0, length=None, follow=True))
        await writer.send(data(0, b"abc"))
        assert bytes((await reader.expect(m.Data)).payload) == b"abc"
        await reader.send(m.Ping(n=9))
        await reader.expect(m.Pong)
        await writer.send(data(3, b"def"))
        assert bytes((await reader.expect(m.Data)).payload) == b"def"
        await reader.send(m.Stop())
        assert await reader.expect(m.GetEnd) == m.GetEnd(next_offset=6)
        await reader.ask(m.Stat(object="log"), m.ObjectInfo)


async def test_a_pong_comes_through_although_data_waits_for_the_reader(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        await fill(here, "log", bytes(4_000_000))
        reader = await here.entered()
        await reader.send(m.Get(object="log", offset=0, length=None, follow=True))
        await trio.testing.wait_all_tasks_blocked(0.01)
        await reader.send(m.Ping(n=1), m.Ping(n=2))
        await trio.testing.wait_all_tasks_blocked(0.01)
        await reader.send(m.Stop())
        received: list[m.Message | None] = []
        while not isinstance(message := await reader.receive(), m.GetEnd):
            received.append(message)
        assert [message for message in received if isinstance(message, m.Pong)] == [m.Pong(n=1), m.Pong(n=2)]


async def test_follow_ends_with_a_sealed_object(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        await fill(here, "log", b"abc")
        reader = await here.entered()
        await reader.send(m.Get(object="log", offset=0, length=None, follow=True))
        await reader.expect(m.Data)
        writer = await here.entered()
        assert await writer.ask(m.Seal(object="log", size=3, epoch=0, holder=b""), m.Sealed)
        assert await reader.expect(m.GetEnd) == m.GetEnd(next_offset=3)
        await reader.send(m.Stop(), m.Ping(n=1))
        await reader.expect(m.Pong)


async def test_seal_and_delete(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        await fill(here, "log", b"abc")
        client = await here.entered()
        seal = m.Seal(object="log", size=3, epoch=0, holder=b"")
        delete = m.Delete(object="log", epoch=0, holder=b"")
        assert (await client.refused(m.Seal(object="log", size=2, epoch=0, holder=b""))).code is ErrorCode.WRONG_SIZE
        assert (await client.refused(delete)).code is ErrorCode.NOT_SEALED
        assert await client.ask(seal, m.Sealed) == m.Sealed(size=3, crc=crc32c(b"abc"))
        assert (await client.refused(append("log", 3))).code is ErrorCode.SEALED
        await client.send(m.End())
        await client.ask(delete, m.Deleted)
        assert (await client.refused(m.Stat(object="log"))).code is ErrorCode.NOT_FOUND
        events = [json.loads(line)["event"] for line in here.log_lines if '"audit"' in line]
        assert events == ["SEAL", "DELETE"]


async def test_an_epoch_without_a_holder_is_no_claim(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        client = await here.entered()
        assert (await client.refused(append("log", epoch=7))).code is ErrorCode.FENCED
        await client.send(m.End())
        await fill(here, "log", b"abc")
        assert (await client.refused(m.Seal(object="log", size=3, epoch=7, holder=b""))).code is ErrorCode.FENCED
        assert (await client.refused(m.Delete(object="log", epoch=7, holder=b""))).code is ErrorCode.FENCED


async def test_listing_in_pages(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        names = [f"o{number:03}" for number in range(25)]
        for name in names:
            await fill(here, name, b"x")
        client = await here.entered()
        seen: list[str] = []
        more = True
        while more:
            page = await client.ask(m.List(after=seen[-1] if seen else "", limit=10), m.Listing)
            seen += [entry.name for entry in page.entries]
            more = page.more
            assert len(page.entries) <= 10
        assert seen == names


async def test_a_namespace_comes_first(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        client = here.connect()
        await client.hello()
        error = await client.refused(m.Stat(object="log"))
        assert error.code is ErrorCode.NOT_FOUND
        assert "USE first" in error.message
        assert (await client.refused(m.Use(namespace="none", create=False))).code is ErrorCode.NOT_FOUND


BAD_NAMES = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc/passwd",
    "a\0b",
    ".hidden",
    "-x",
    "ä",
    "a b",
    "x" * 129,
    "a\n",
    "C:\\x",
]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_names_that_are_paths_or_worse(carrier: str, name: str) -> None:
    async with scene(carrier=carrier) as here:
        client = await here.entered()
        for request in (
            m.Use(namespace=name, create=True),
            m.Stat(object=name),
            m.Get(object=name, offset=0, length=None, follow=False),
            m.Seal(object=name, size=0, epoch=0, holder=b""),
            m.Delete(object=name, epoch=0, holder=b""),
            append(name),
        ):
            assert (await client.refused(request)).code is ErrorCode.BAD_NAME


async def test_an_unknown_request_is_refused_and_the_connection_stays(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        client = await here.entered()
        error = await client.refused(m.Unknown(type_code=0x2A))
        assert (error.code, error.fields) == (ErrorCode.UNSUPPORTED, {"type": 0x2A})
        await client.ask(m.Ping(n=1), m.Pong)


@pytest.mark.parametrize(
    "frames",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x10\x01",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"\x00\x00\x00\x02\x0c\x90",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x01\x00",
    ],
)
async def test_what_no_server_has_to_understand(carrier: str, frames: bytes) -> None:
    async with scene(carrier=carrier) as here:
        client = here.connect()
        await client.stream.send_all(frames)
        error = await client.ends_with(ErrorCode.PROTOCOL)
        if frames[0] == 0x16:
            assert "without TLS" in error.message


async def test_a_wrong_crc_ends_the_connection_only(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        bystander = await here.entered()
        client = await here.entered()
        await client.ask(append("log"), m.Appending)
        await client.stream.send_all(b"\x00\x00\x00\x0e\x40" + bytes(8) + b"\x00\x00\x00\x01" + b"x")
        await client.ends_with(ErrorCode.PROTOCOL)
        assert await bystander.ask(m.Stat(object="log"), m.ObjectInfo)


async def test_stop_finishes_appends_and_tells_everybody(carrier: str) -> None:
    async with scene(carrier=carrier, commits_at_once=False) as here:
        idle, writer, reader = await here.entered(), await here.entered(), await here.entered()
        await writer.ask(append("log"), m.Appending)
        await reader.send(m.Get(object="log", offset=0, length=None, follow=True))
        await writer.send(data(0, b"abc"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(here.service.stop)
            await idle.ends_with(ErrorCode.SHUTTING_DOWN)
            await trio.testing.wait_all_tasks_blocked(0.01)
            here.store.commit()
            assert await writer.expect(m.Ack) == m.Ack(3, 3)
            await writer.ends_with(ErrorCode.SHUTTING_DOWN)
            while isinstance(message := await reader.receive(), m.Data):
                pass
            assert isinstance(message, m.Error)
        assert not here.service.sessions


PACED = LimitsSection(pace_seconds=0.2, pace_bytes_per_second_min=1000)


async def test_who_does_not_greet_is_left(carrier: str) -> None:
    async with scene(carrier=carrier, limits=LimitsSection(handshake_seconds=0.05)) as here:
        client = here.connect()
        await client.stream.send_all(b"\x00\x00")
        assert "HELLO" in (await client.ends_with(ErrorCode.TOO_SLOW)).message


async def test_who_asks_for_nothing_is_left(carrier: str) -> None:
    limits = LimitsSection(idle_seconds=0.5, pace_seconds=0.1)
    async with scene(carrier=carrier, limits=limits) as here:
        client = await here.entered()
        assert "nothing was asked" in (await client.ends_with(ErrorCode.TOO_SLOW)).message


@pytest.mark.parametrize("appending", [False, True])
async def test_one_byte_at_a_time_is_too_slow(carrier: str, *, appending: bool) -> None:
    async with scene(carrier=carrier, limits=PACED) as here:
        client = await here.entered()
        if appending:
            await client.ask(append("log"), m.Appending)

        async def drip() -> None:
            with suppress(trio.BrokenResourceError):  # it may be left before it has read why
                for byte in b"\x00\x00\x10\x00\x40" + bytes(1000):
                    await client.stream.send_all(bytes([byte]))
                    await trio.sleep(0.02)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip)
            await client.expect(m.Error)
            nursery.cancel_scope.cancel()


async def test_an_appender_may_be_silent_between_frames(carrier: str) -> None:
    limits = LimitsSection(idle_seconds=0.5, pace_seconds=0.2, pace_bytes_per_second_min=1000)
    async with scene(carrier=carrier, limits=limits) as here:
        client = await here.entered()
        await client.ask(append("log"), m.Appending)
        await trio.sleep(1.0)
        await client.send(data(0, b"x"))
        assert await client.expect(m.Ack) == m.Ack(1, 1)


async def test_a_reader_that_does_not_read_is_left_and_holds_nobody_up(carrier: str) -> None:
    async with scene(carrier=carrier, limits=PACED) as here:
        await fill(here, "log", bytes(4_000_000))
        greedy, healthy = await here.entered(), await here.entered()
        await greedy.send(m.Get(object="log", offset=0, length=None, follow=False))
        if isinstance(greedy.stream, PlainStream):
            with trio.fail_after(300):
                while len(here.service.sessions) > 1:
                    await healthy.ask(m.Ping(n=1), m.Pong)
                    await trio.sleep(0.05)
