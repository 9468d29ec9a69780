"""The ingest log over many files: recovery from the newest streams and what follows, and who else may write there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.lowlevel

from connectors.ingest import ingest_log, places
from connectors.ingest.ingest_log import IngestLog
from connectors.wire.codec import encode
from connectors.wire.frames import MessageFrame, NotifyFrame
from journal.errors import JournalCode, JournalError
from journal.volume import OperationId
from tests.connectors.wallaroo_source import stored_rows
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from connectors.ingest.intake import IntakeShare

STREAMS = 20


class Listening:
    """A connection that remembers what it was told."""

    def __init__(self) -> None:
        self.told: dict[int, int] = {}

    def durable(self, share: IntakeShare) -> None:
        self.told.update(share.points)


async def feed(log: IngestLog, sender: Listening, message_id: int) -> None:
    """One message of each stream, in an intake of its own, until it is durable."""
    share = log.intake.share_of(sender)
    for stream_id in range(STREAMS):
        if log.accepted.introduce(stream_id, f"stream {stream_id}"):
            share.introduced[stream_id] = f"stream {stream_id}"
            notify = NotifyFrame(stream_id=stream_id, stream_name=f"stream {stream_id}", point_of_reference=0)
            log.intake.add(encode(notify), rows=0)
        log.intake.add(encode(MessageFrame(stream_id, message_id, 0, b"", b"payload")), rows=1)
        share.points[stream_id] = log.accepted.points[stream_id] = message_id
    log.wake()
    while sender.told.get(0) != message_id:
        await trio.lowlevel.checkpoint()


async def opened(volume: MemoryVolume, wall_ms: int = 1000) -> IngestLog:
    log = IngestLog(volume, wall_ms=lambda: wall_ms)
    await log.open()
    return log


async def names(volume: MemoryVolume, directory: str) -> list[str]:
    return [entry.path for entry in (await volume.list(directory)).entries]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_log, "LOG_FILE_BYTES_MAX", 3000)
    monkeypatch.setattr(ingest_log, "LOG_FILE_BLOCKS_MAX", 4)
    monkeypatch.setattr(ingest_log, "BLOCK_FRAMES_BYTES_MAX", 500)


@pytest.mark.usefixtures("small")
async def test_files_are_left_when_they_are_full_and_read_again_from_the_newest_streams() -> None:
    volume, sender = MemoryVolume("v"), Listening()
    for start in range(0, 40, 10):
        log = await opened(volume)
        assert log.durable.points == (dict.fromkeys(range(STREAMS), start - 1) if start else {})
        assert log.next_sequence == start * STREAMS
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.run)
            for message_id in range(start, start + 10):
                await feed(log, sender, message_id)
            nursery.cancel_scope.cancel()
    files, streams = await names(volume, places.LOG), await names(volume, places.STREAMS)
    assert len(files) > 10
    assert 1 < len(streams) < len(files)
    data = b"".join([b"".join([piece async for piece in volume.read(path)]) for path in files])
    rows = stored_rows(data)
    assert [(row[0], row[1], row[2]) for row in rows] == [(n, n % STREAMS, n // STREAMS) for n in range(40 * STREAMS)]
    for path in files:  # what is before the newest streams is not needed to go on
        if path.rpartition("/")[2] < streams[-1].rpartition("/")[2]:
            await volume.delete(path, recursive=False, operation=OperationId(b"x" * 16, 1), claim=log._claim)
    log = await opened(volume)
    assert (log.next_sequence, log.durable.points) == (40 * STREAMS, dict.fromkeys(range(STREAMS), 39))
    assert log.durable.names == {n: f"stream {n}" for n in range(STREAMS)}


@pytest.mark.usefixtures("small")
async def test_a_log_that_ends_with_its_streams_goes_on_there() -> None:
    """The crash between the two: streams are written, the file of the log that follows is not."""
    volume, sender = MemoryVolume("v"), Listening()
    log = await opened(volume)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        message_id = 0
        while not await _has_streams(volume):
            await feed(log, sender, message_id)
            message_id += 1
        nursery.cancel_scope.cancel()
    newest = (await names(volume, places.LOG))[-1]
    claim = log._claim
    await volume.delete(newest, recursive=False, operation=OperationId(b"x" * 16, 1), claim=claim)
    log = await opened(volume)
    assert log.next_sequence == places.sequence_of(newest)
    assert log.durable.points == dict.fromkeys(range(STREAMS), message_id - 2)


@pytest.mark.usefixtures("small")
async def test_a_file_without_rows_is_left_too() -> None:
    """Messages without payload: points of reference move, and no file gets another name by it."""
    volume, sender = MemoryVolume("v"), Listening()
    for start in range(0, 60, 20):
        log = await opened(volume)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.run)
            if not start:
                await feed(log, sender, 0)
            for message_id in range(start + 1, start + 20):
                log.intake.add(encode(MessageFrame(1, message_id, 0, b"", b"")), rows=0)
                log.intake.share_of(sender).points[1] = log.accepted.points[1] = message_id
                log.wake()
                while sender.told.get(1) != message_id:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        log = await opened(volume)
        assert (log.durable.points[1], log.next_sequence) == (start + 19, STREAMS)
    files = (await volume.list(places.LOG)).entries
    assert len(files) == 2
    assert all(file.size < 3000 for file in files)


async def _has_streams(volume: MemoryVolume) -> bool:
    try:
        return bool(await names(volume, places.STREAMS))
    except JournalError:
        return False


async def test_nobody_else_writes_the_log() -> None:
    volume = MemoryVolume("v")
    await opened(volume)
    with pytest.raises(JournalError) as caught:
        await volume.put(f"{places.LOG}/x", b"", overwrite=False, operation=OperationId(b"x" * 16, 1))
    assert caught.value.code is JournalCode.FENCED
    await volume.put(f"{places.READERS}/q", b"", overwrite=False, operation=OperationId(b"x" * 16, 2))


@pytest.mark.parametrize(
    "content",
    [b"garbage", encode(MessageFrame(1, 1, 0, b"", b"x"))],
)
async def test_a_log_that_no_listener_wrote_is_not_gone_on_with(content: bytes) -> None:
    volume = MemoryVolume("v")
    log = await opened(volume)
    await log._put(places.log_file(0), content)
    with pytest.raises(JournalError) as caught:
        await opened(volume)
    assert caught.value.code is JournalCode.DAMAGED


async def test_a_format_of_the_future_is_left_alone() -> None:
    volume = MemoryVolume("v")
    log = await opened(volume)
    await log._put(places.FORMAT_FILE, b"sos-ingest 2\n")
    with pytest.raises(JournalError, match="newer sos-connector"):
        await opened(volume)
