"""Looking after an ingest log: what is deleted, when sources wait for a reader, what a listener says of itself."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
import trio.testing

from connectors.ingest import ingest_log, places
from connectors.ingest.drain_order import DrainOrder, drain_text
from connectors.ingest.persistent_changes import PersistentChanges
from connectors.ingest.reader_position import reader_text
from connectors.ingest.recovery import VolumeFiles, stored_log, stored_readers
from connectors.ingest.retention import MessageRetention
from connectors.listener.report import listener_report
from connectors.listener.reporting_volume import WRITTEN_AGAIN_SECONDS, ReportingVolume
from connectors.listener.sources import SWEEP_SECONDS
from connectors.listener.upkeep import Upkeep
from connectors.wire.frames import OkFrame
from journal.errors import JournalError
from sos_client.serving.event_log import EventLog
from tests.connectors.house import HELLO, OTHER, House, ack, listening, message, notify
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from journal.service.keeper import OwnedVolume

FAR = 1 << 50  # past every age


class Looked:
    """An upkeep over a house's log, and what it was told to drain to."""

    def __init__(self, house: House, retention: MessageRetention, *, now_ms: int = FAR) -> None:
        assert house.sources.ingest is not None
        self.ingest = house.sources.ingest
        self.volume = house.volume
        self.drained: list[str] = []
        self._changes = PersistentChanges()
        self.upkeep = Upkeep(
            house.volume,
            self.ingest,
            retention,
            now_ms=lambda: now_ms,
            log=EventLog(write=lambda _: None),
            drain=self.drained.append,
        )

    async def put(self, path: str, content: bytes) -> None:
        await self.volume.put(path, content, overwrite=True, operation=self._changes.next_operation())

    async def reader(self, name: str, needs: int) -> None:
        await self.put(places.reader_file(name), reader_text(needs))

    async def end_reader(self, name: str) -> None:
        path = places.reader_file(name)
        await self.volume.delete(path, recursive=False, operation=self._changes.next_operation())

    async def names(self, directory: str) -> list[int | None]:
        return [places.sequence_of(entry.path) for entry in (await self.volume.list(directory)).entries]


@asynccontextmanager
async def many_files(volume: MemoryVolume | None = None) -> AsyncIterator[House]:
    """A listener with twelve messages, two in each file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest_log, "LOG_FILE_BLOCKS_MAX", 2)
        async with listening(volume) as house:
            peer = await house.opened(1)
            for n in range(12):
                await peer.say(message(n))
                await peer.hears(ack(1, (1, n)))
            yield house


async def test_what_all_readers_have_passed_is_deleted() -> None:
    volume = MemoryVolume("v")
    async with many_files(volume) as house:
        looked = Looked(house, MessageRetention(seconds=1))
        await looked.upkeep.look()
        before = await looked.names(places.LOG)
        assert len(before) > 5  # nobody reads yet
        await looked.reader("fast", 12)
        await looked.reader("slow", 7)
        await looked.upkeep.look()
        left = await looked.names(places.LOG)
        assert left == before[before.index(left[0]) :]
        assert left[0] is not None
        assert left[0] <= 7
        assert looked.upkeep.oldest_sequence == left[0] > 0
        await looked.end_reader("slow")
        await looked.upkeep.look()
        assert len(await looked.names(places.LOG)) <= 2
        assert len(await looked.names(places.STREAMS)) == 1
        oldest = looked.upkeep.oldest_sequence
    async with listening(volume) as house:  # a new listener goes on
        assert house.sources.ingest is not None
        assert house.sources.ingest.files[0].first == oldest
        assert house.sources.ingest.next_sequence == 12
        assert house.sources.ingest.durable.points == {1: 11}
        peer = await house.opened()
        await peer.say(notify(1))
        await peer.next()
        await peer.say(message(12))
        await peer.hears(ack(1), ack(1, (1, 12)))
        assert (await house.rows())[-1] == (12, 1, 12, b"x")


async def test_a_young_message_stays_however_far_its_readers_are() -> None:
    async with many_files() as house:
        looked = Looked(house, MessageRetention(seconds=3600), now_ms=0)
        await looked.reader("q", 12)
        await looked.upkeep.look()
        assert looked.upkeep.oldest_sequence == 0
        assert looked.upkeep.oldest_received_ms == 1790000001000


async def test_a_reader_that_is_not_understood_keeps_all() -> None:
    async with many_files() as house:
        looked = Looked(house, MessageRetention(seconds=1))
        await looked.reader("q", 12)
        await looked.put(places.reader_file("odd"), b"what is this")
        await looked.put(f"{places.READERS}/directory/x", b"")
        await looked.upkeep.look()
        assert looked.upkeep.oldest_sequence == 0


async def test_sources_wait_for_a_reader_that_lags(autojump_clock: trio.testing.MockClock) -> None:
    async with listening() as house:
        looked = Looked(house, MessageRetention(lag_bytes_max=100))
        peer = await house.opened(1)
        await looked.reader("q", 0)
        await peer.say(message(0, b"y" * 200))
        await peer.hears(ack(1, (1, 0)))
        await looked.upkeep.look()
        assert "reader q is" in looked.ingest.stopped_by
        await peer.say(*(message(n) for n in range(1, 11)))
        await peer.hears(ack(0, (1, 10)))  # all it had credits for is taken, and there are no more
        late = await house.connect(OTHER)
        await late.hears(OkFrame(initial_credits=0))
        await trio.sleep(1000)
        await peer.hears(ack(0))
        await looked.reader("q", 11)
        await looked.upkeep.look()
        assert looked.ingest.stopped_by == ""
        await trio.sleep(SWEEP_SECONDS)
        await peer.hears(ack(10))
        await late.hears(ack(10))
        await late.say(notify(2))


async def test_an_order_to_drain_is_for_one_owner(autojump_clock: trio.testing.MockClock) -> None:
    async with listening() as house:
        looked = Looked(house, MessageRetention())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(looked.upkeep.run)
            await trio.sleep(2)
            for epoch in (0, 2):
                await looked.put(places.DRAIN, drain_text(DrainOrder(epoch=epoch, address="b:1")))
                await trio.sleep(2)
            assert looked.drained == []
            await looked.put(places.DRAIN, drain_text(DrainOrder(epoch=house.volume.epoch, address="b:1")))
            await trio.sleep(2)
            assert looked.drained[0] == "b:1"
            nursery.cancel_scope.cancel()


async def test_the_report_is_a_file(autojump_clock: trio.testing.MockClock) -> None:
    async with many_files() as house:
        looked = Looked(house, MessageRetention(seconds=1))
        await looked.reader("q", 5)
        await looked.put(places.reader_file("odd"), b"?")
        await looked.upkeep.look()

        def report() -> dict[str, Any]:
            return listener_report(
                volume="v",
                epoch=3,
                now_ms=5,
                address="here:1",
                sources=house.sources,
                ingest=looked.ingest,
                upkeep=looked.upkeep,
            )

        volume = ReportingVolume(cast("OwnedVolume", house.volume), report)
        status = await volume.stat(places.STATUS)
        content = b"".join([piece async for piece in volume.read(places.STATUS)])
        assert (status.path, status.size, status.is_directory) == (places.STATUS, len(content), False)
        assert b"".join([piece async for piece in volume.read(places.STATUS, 3, 4)]) == content[3:7]
        assert b"".join([piece async for piece in volume.read(places.STATUS, len(content))]) == b""
        await house.opened(2, hello=OTHER)
        assert (await volume.stat(places.STATUS)).modified_ms == status.modified_ms
        await trio.sleep(WRITTEN_AGAIN_SECONDS)
        later = await volume.stat(places.STATUS)
        assert later.modified_ms > status.modified_ms  # whoever reads in pieces notices
        value = json.loads(b"".join([piece async for piece in volume.read(places.STATUS)]))
        assert [one["program"] for one in value["connections"]] == [HELLO.program, OTHER.program]
        assert [one["credits"] for one in value["connections"]] == [10, 10]
        assert {one["stream_id"]: one["peer"] for one in value["streams"]} == {1: "test:1", 2: "test:1"}
        assert [wait["for"] for wait in value["waits"]] == ["reader odd, whose file is not understood"]
        assert [one["lag_messages"] for one in value["readers"]] == [12, 7]
        with pytest.raises(JournalError):
            await house.volume.stat(places.STATUS)  # it is not in the volume
        listed = await volume.list("ingest")
        assert places.LISTENER not in [entry.path for entry in listed.entries]
        assert (await volume.stat(places.FORMAT_FILE)).size
        assert [piece async for piece in volume.read(places.FORMAT_FILE)] == [places.FORMAT_TEXT]


async def test_what_is_stored_is_read_without_a_listener() -> None:
    volume = MemoryVolume("v")
    async with many_files(volume) as house:
        await Looked(house, MessageRetention()).reader("q", 5)
    stored = await stored_log(VolumeFiles(volume))
    assert (stored.next_sequence, stored.streams.points) == (12, {1: 11})
    assert [(one.name, one.needs) for one in await stored_readers(VolumeFiles(volume))] == [("q", 5)]


class CountingVolume(MemoryVolume):
    """Remembers which files were written as a whole, by a stream."""

    streamed: list[str]

    async def open_write(self, path: str, **options: Any) -> Any:
        self.streamed.append(path)
        return await super().open_write(path, **options)


async def test_a_file_of_many_small_blocks_is_written_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_log, "EXTENTS_MAX", 1)
    monkeypatch.setattr(ingest_log, "STREAMS_EVERY", 1_000_000)  # so that whoever begins reads many files
    volume = CountingVolume("v")
    volume.streamed = []
    async with many_files(volume) as house:
        before = await house.rows()
        looked = Looked(house, MessageRetention(seconds=0))
        closed = [places.log_file(file.first) for file in looked.ingest.files[:-1]]
        times = [(await volume.stat(path)).modified_ms for path in closed]
        await looked.ingest.gather_blocks()
        assert volume.streamed == closed
        assert await house.rows() == before
        assert [(await volume.stat(path)).modified_ms for path in closed] == times  # and no younger
        await looked.ingest.gather_blocks()
        assert volume.streamed == closed  # once
    volume.streamed = []
    async with listening(volume) as house:  # whoever begins does not know of the newest one, and of no other
        looked = Looked(house, MessageRetention(seconds=0))
        await looked.upkeep.look()
        assert volume.streamed == []  # sources are not kept waiting for it
        await looked.ingest.gather_blocks()
        assert volume.streamed == closed[-1:]
        assert await house.rows() == before
