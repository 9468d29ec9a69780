"""Reading a volume from copies: another one steps in where one is damaged, and nobody returns damage."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from journal.cli.batches import last_batches
from journal.copies.copies import open_directory_copy
from journal.copies.volume_reader import VolumeReader, open_reader
from journal.errors import DamagedJournalError, JournalCode, JournalError, UnavailableError
from journal.image.image import Image
from journal.image.index_snapshot import encode_snapshot, name_of_snapshot
from journal.records.change import ChunkChange, CommitChange, DeleteChange, PutChange, RenameChange
from journal.records.moments import AtBatch, AtLsn, AtTime, Now, parse_moment
from journal.records.record import HEADER_BYTES, Epoch, Lsn
from journal.records.segment import SegmentReader
from journal.records.stored_objects import CopiedObject
from tests.journal.histories import FIRST_TIME_MS, History

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class MemoryCopy:
    """Objects in memory, as a server would have them; counts what is read."""

    label: str = "memory"
    objects: dict[str, bytes] = field(default_factory=dict)
    silent: bool = False
    bytes_read: int = 0

    async def list(self) -> dict[str, CopiedObject]:
        self._answer()
        return {name: CopiedObject(name=name, size=len(data)) for name, data in self.objects.items()}

    async def read(self, name: str, offset: int, length: int) -> bytes:
        self._answer()
        data = bytes(self.objects.get(name, b"")[offset : offset + length])
        self.bytes_read += len(data)
        return data

    async def read_at_once(self, name: str, offset: int, length: int) -> bytes:
        return await self.read(name, offset, length)

    def _answer(self) -> None:
        if self.silent:
            raise UnavailableError(JournalCode.UNAVAILABLE, f"{self.label} does not answer")


def _image_of(history: History) -> Image:
    image = Image()
    for data in history.segments.values():
        reader = SegmentReader(lsn=image.lsn)
        reader.feed(data)
        while (record := reader.next_record()) is not None:
            image.apply_record(record)
    return image


def _batches(count: int, *, roll_every: int = 4) -> tuple[History, dict[str, bytes]]:
    """A query's history in several segments, with the snapshot at each roll."""
    history, snapshots = History(), dict[str, bytes]()
    history.open_segment()
    for batch in range(count):
        if batch and batch % roll_every == 0:
            image = _image_of(history)
            snapshots[str(name_of_snapshot(image, epoch=Epoch(1)))] = encode_snapshot(image)
            history.open_segment()
        history.add(PutChange(path=f"q/offsets/{batch}"), f"offsets {batch}".encode())
        history.add(PutChange(path=f"q/state/{batch}"), bytes([batch]) * 100_000)
        history.add(PutChange(path=f"q/commits/{batch}"), b"v1")
        if batch >= 3:
            history.add(DeleteChange(path=f"q/state/{batch - 3}"))
    history.add(PutChange(path="last"), b"the record after the last acknowledged one is not believed")
    return history, snapshots


def _copy(label: str, history: History, snapshots: dict[str, bytes] | None = None) -> MemoryCopy:
    return MemoryCopy(label, {name: bytes(data) for name, data in history.segments.items()} | (snapshots or {}))


async def _content(reader: VolumeReader, image: Image, path: str) -> bytes:
    return b"".join([piece async for piece in reader.read_file(image, path)])


async def test_the_whole_log_and_the_image_now() -> None:
    history, snapshots = _batches(10)
    copy = _copy("a", history, snapshots)
    reader = await open_reader("v", [copy])
    assert reader.acknowledged_lsn == history.headers[-1].lsn
    assert [record.header for record in [r async for r in reader.records()]] == history.headers[:-1]
    with_payloads = [record async for record in reader.records(payloads=True)]
    assert bytes(with_payloads[1].payload) == b"offsets 0"
    image = await reader.image(Now())
    assert {s.path for s in image.tree.walk("q/state")} == {"q/state", "q/state/7", "q/state/8", "q/state/9"}
    assert await _content(reader, image, "q/state/8") == bytes([8]) * 100_000
    assert b"".join([p async for p in reader.read_file(image, "q/offsets/9", 3, 5)]) == b"sets "


async def test_an_image_costs_the_snapshot_and_the_tail_without_payloads() -> None:
    history, snapshots = _batches(12)
    copy = _copy("a", history, snapshots)
    reader = await open_reader("v", [copy])
    copy.bytes_read = 0
    await reader.image(Now())
    tail = len(next(reversed(history.segments.values())))
    assert copy.bytes_read < max(map(len, snapshots.values())) + tail
    assert copy.bytes_read < sum(map(len, history.segments.values())) / 2


async def test_every_moment_is_the_image_of_the_log_up_to_it() -> None:
    history, snapshots = _batches(9)
    reader = await open_reader("v", [_copy("a", history, snapshots)])
    image = Image()
    for data in history.segments.values():
        segment = SegmentReader(lsn=image.lsn)
        segment.feed(data)
        while (record := segment.next_record()) is not None and record.header.end_lsn <= reader.acknowledged_lsn:
            image.apply_record(record)
            for moment in (AtLsn(lsn=image.lsn), AtTime(time_ms=record.header.time_ms)):
                seen = await reader.image(moment)
                assert (seen.lsn, seen.chain) == (image.lsn, image.chain)
                assert list(seen.tree.walk()) == list(image.tree.walk())


async def test_a_moment_inside_a_record_is_the_one_before_it() -> None:
    history, snapshots = _batches(9)
    for header in history.headers[:-1]:
        for lsn in (header.lsn + 1, header.lsn + HEADER_BYTES - 1, header.lsn + HEADER_BYTES, header.end_lsn - 1):
            reader = await open_reader("v", [_copy("a", history, snapshots)])
            assert (await reader.image(AtLsn(lsn=Lsn(lsn)))).lsn == header.lsn


async def test_a_batch_is_the_moment_of_its_commit() -> None:
    history, snapshots = _batches(9)
    reader = await open_reader("v", [_copy("a", history, snapshots)])
    image = await reader.image(AtBatch(batch=5), path="q")
    assert image.tree.find("q/commits/5") is not None
    assert image.tree.find("q/offsets/6") is None
    assert image.tree.find("q/state/2") is not None
    assert (await reader.image(AtBatch(batch=5))).lsn == image.lsn
    assert (await reader.image(AtBatch(batch=5), path="q/state")).lsn == image.lsn
    with pytest.raises(JournalError, match="no query at q/metadata, above it or below it, has committed batch 99"):
        await reader.image(AtBatch(batch=99), path="q/metadata")


async def test_a_commit_by_rename_or_by_stream_counts_and_two_queries_must_be_told_apart() -> None:
    history = History()
    history.add(PutChange(path="p/commits/.tmp"), b"v1")
    history.add(RenameChange(source="p/commits/.tmp", target="p/commits/1"))
    history.add(ChunkChange(upload=1, offset=0), b"v1")
    history.add(CommitChange(upload=1, path="q/commits/1", size=2))
    history.add(PutChange(path="end"))
    reader = await open_reader("v", [_copy("a", history)])
    assert await reader.lsn_of(AtBatch(batch=1), path="p") == history.headers[2].end_lsn
    assert await reader.lsn_of(AtBatch(batch=1), path="q/commits") == history.headers[4].end_lsn
    with pytest.raises(JournalError, match="p, q"):
        await reader.lsn_of(AtBatch(batch=1))


async def test_the_past_beyond_retention_is_refused_in_words() -> None:
    history, snapshots = _batches(9)
    names = list(history.segments)
    trimmed = int(names[1][:16], 16)
    history.open_segment(trim=trimmed)
    history.add(PutChange(path="x"))
    copy = _copy("a", history, snapshots)
    del copy.objects[names[0]]
    reader = await open_reader("v", [copy])
    assert reader.oldest_lsn == trimmed
    assert (await reader.image(AtLsn(lsn=Lsn(trimmed)))).lsn == trimmed
    with pytest.raises(JournalError, match="older than what is kept") as caught:
        await reader.image(AtLsn(lsn=Lsn(trimmed - 1)))
    assert caught.value.code == JournalCode.OUT_OF_RETENTION


async def test_another_copy_steps_in_for_each_damaged_or_missing_record() -> None:
    history, snapshots = _batches(6)
    first, second = _copy("a", history, snapshots), _copy("b", history)
    names = list(history.segments)
    starts = {name: int(name[:16], 16) for name in names}
    for copy, header in ((first, history.headers[2]), (second, history.headers[5])):
        data = bytearray(copy.objects[names[0]])
        data[header.payload_lsn - starts[names[0]] + 3] ^= 1
        copy.objects[names[0]] = bytes(data)
    del first.objects[names[1]]
    reader = await open_reader("v", [first, second])
    assert [r.header async for r in reader.records(payloads=True)] == history.headers[:-1]
    image = await reader.image(Now())
    for status in image.tree.walk():
        if not status.is_directory:
            assert len(await _content(reader, image, status.path)) == status.size


async def test_damage_on_every_copy_is_named_and_never_returned() -> None:
    history, _ = _batches(2)
    copy = _copy("a", history)
    name, hit = next(iter(history.segments)), history.headers[2]
    data = bytearray(copy.objects[name])
    data[hit.payload_lsn] ^= 1
    copy.objects[name] = bytes(data)
    reader = await open_reader("v", [copy])
    image = await reader.image(Now())
    with pytest.raises(DamagedJournalError, match="damaged bytes"):
        await _content(reader, image, "q/state/0")
    assert await _content(reader, image, "q/offsets/0") == b"offsets 0"
    with pytest.raises(DamagedJournalError) as caught:
        [record async for record in reader.records(payloads=True)]
    assert caught.value.fields["lsn"] == hit.lsn


async def test_a_missing_middle_segment_is_lost_in_those_words() -> None:
    history, _ = _batches(9)
    copy = _copy("a", history)
    del copy.objects[list(history.segments)[1]]
    with pytest.raises(DamagedJournalError, match=r"^LOST: segment") as caught:
        await open_reader("v", [copy])
    assert caught.value.code == JournalCode.LOST


async def test_nothing_is_lost_while_a_copy_that_may_have_it_was_not_heard() -> None:
    history, _ = _batches(9)
    names = list(history.segments)
    whole, without = _copy("a", history), _copy("b", history)
    image = await (await open_reader("v", [whole])).image(Now())
    del without.objects[names[0]]
    for copies, unopened in (([without], ["c"]), ([without, MemoryCopy("c", silent=True)], [])):
        with pytest.raises(UnavailableError, match=f"{names[0]}.*: c$") as caught:
            await _content(await open_reader("v", copies, unopened=unopened), image, "q/offsets/0")
        assert caught.value.code == JournalCode.UNAVAILABLE
    del without.objects[names[1]]
    for copies, unopened in (([without], ["c"]), ([without, MemoryCopy("c", silent=True)], [])):
        with pytest.raises(UnavailableError, match=r"no answer from: c$"):
            await open_reader("v", copies, unopened=unopened)


async def test_a_truncated_tail_is_no_fuss() -> None:
    history, _ = _batches(3)
    copy = _copy("a", history)
    name = next(reversed(history.segments))
    copy.objects[name] = copy.objects[name][:-5]
    reader = await open_reader("v", [copy])
    assert reader.acknowledged_lsn == history.headers[-1].lsn
    assert (await reader.image(Now())).tree.find("q/commits/2") is not None


async def test_copies_that_do_not_answer_are_reported_and_those_behind_do_not_hold_back() -> None:
    history, _ = _batches(3)
    silent, whole = MemoryCopy("silent", silent=True), _copy("b", history)
    behind = _copy("c", history)
    name = next(reversed(history.segments))
    behind.objects[name] = behind.objects[name][: history.headers[4].end_lsn]
    reader = await open_reader("v", [silent, behind, whole])
    assert list(reader.problems) == ["silent"]
    assert reader.acknowledged_lsn == history.headers[-1].lsn
    with pytest.raises(UnavailableError):
        await open_reader("v", [silent])
    with pytest.raises(JournalError) as caught:
        await open_reader("v", [MemoryCopy("empty")])
    assert caught.value.code == JournalCode.VOLUME_NOT_FOUND


async def test_a_snapshot_of_a_forked_past_or_a_damaged_one_does_not_count() -> None:
    history, snapshots = _batches(9)
    copy = _copy("a", history, snapshots)
    best = max(snapshots)
    copy.objects[best] = copy.objects[best][:-1] + b"x"
    forked = History()
    forked.add(PutChange(path="other"), b"x")
    image = _image_of(forked)
    copy.objects[str(name_of_snapshot(image, epoch=Epoch(1)))] = encode_snapshot(image)
    reader = await open_reader("v", [copy])
    now = await reader.image(Now())
    assert now.tree.find("q/commits/8") is not None
    assert now.tree.find("other") is None


async def test_a_fenced_writers_tail_is_not_read() -> None:
    history = History()
    history.add(PutChange(path="a"), b"1")
    end = history.lsn
    history.open_segment(epoch=2)
    history.add(PutChange(path="b"), b"2")
    history.add(PutChange(path="c"), b"3")
    copy = _copy("a", history)
    stale = History()
    stale.add(PutChange(path="a"), b"1")
    stale.add(PutChange(path="never acknowledged"), b"x")
    stale.add(PutChange(path="neither"), b"x")
    name = next(iter(stale.segments))
    assert name in copy.objects
    copy.objects[name] = bytes(stale.segments[name])
    reader = await open_reader("v", [copy])
    assert reader.chain.links[0].end == end
    assert {status.path for status in (await reader.image(Now())).tree.walk()} == {"", "a", "b"}


@pytest.mark.parametrize("below", ["v", "."])
async def test_a_local_directory_is_a_copy(tmp_path: Path, below: str) -> None:
    history, snapshots = _batches(5)
    folder = tmp_path / below
    folder.mkdir(exist_ok=True)
    for name, data in ({name: bytes(data) for name, data in history.segments.items()} | snapshots).items():
        (folder / name).write_bytes(data)
    (folder / "notes.txt").write_text("somebody's own")
    async with open_directory_copy(tmp_path, "v") as copy:
        reader = await open_reader("v", [copy])
        image = await reader.image(Now())
        assert await _content(reader, image, "q/state/4") == bytes([4]) * 100_000
        assert "notes.txt" not in reader.chain.names
    with pytest.raises(UnavailableError):
        async with open_directory_copy(tmp_path / "nowhere", "v"):
            pass


NOON = int(dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", Now()),
        ("1234", AtLsn(lsn=Lsn(1234))),
        ("lsn:5", AtLsn(lsn=Lsn(5))),
        ("batch:7", AtBatch(batch=7)),
        ("2026-05-01T12:00", AtTime(time_ms=NOON)),
        ("2026-05-01 14:00:00+02:00", AtTime(time_ms=NOON)),
        ("15m", AtTime(time_ms=FIRST_TIME_MS - 15 * 60_000)),
        ("2h ago", AtTime(time_ms=FIRST_TIME_MS - 7_200_000)),
        ("2 hours ago", AtTime(time_ms=FIRST_TIME_MS - 7_200_000)),
        ("1h 30min", AtTime(time_ms=FIRST_TIME_MS - 5_400_000)),
        ("1 week", AtTime(time_ms=FIRST_TIME_MS - 7 * 86_400_000)),
    ],
)
def test_moments(text: str, moment: object) -> None:
    assert parse_moment(text, now_ms=FIRST_TIME_MS, zone=dt.UTC) == moment


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("12:00", 0),
        ("11:59:30", -1 / 120),
        ("12:01", -24 + 1 / 60),  # it was yesterday
        ("yesterday", -36),
        ("today", -12),
        ("yesterday 12:30", -23.5),
        ("today 13:00", 1),  # said to be in the future by whoever asks
    ],
)
def test_times_of_day(text: str, hours: float) -> None:
    assert parse_moment(text, now_ms=NOON, zone=dt.UTC) == AtTime(time_ms=NOON + round(hours * 3_600_000))


@pytest.mark.parametrize(
    "text",
    [
        "tomorrow",
        "25:00",
        "yesterday12:00",
        "3 moons ago",
        "batch:",
        "batch:x",
        "-5",
        "9" * 20,
        "2026-13-01",
        "\0",
        "0001-01-01",
    ],
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(JournalError, match="is not a moment") as caught:
        parse_moment(text, now_ms=FIRST_TIME_MS, zone=dt.UTC)
    assert caught.value.code == JournalCode.BAD_REQUEST


@pytest.mark.slow
async def test_every_one_of_500_batches_reads_as_it_was() -> None:
    history, snapshots, files = History(), dict[str, bytes](), dict[str, bytes]()
    copies: list[dict[str, bytes]] = []
    history.open_segment()

    def put(path: str, data: bytes) -> None:
        history.add(PutChange(path=path), data)
        files[path] = data

    def delete(path: str) -> None:
        history.add(DeleteChange(path=path))
        del files[path]

    for batch in range(500):
        if batch and batch % 20 == 0:
            image = _image_of(history)
            snapshots[str(name_of_snapshot(image, epoch=Epoch(1)))] = encode_snapshot(image)
            history.open_segment()
        put(f"q/offsets/{batch}", b"offsets %d" % batch)
        for partition in range(3):
            put(f"q/state/0/{partition}/{batch + 1}.delta", bytes([batch % 256, partition]) * 50)
        put("q/state/0/0/latest", b"%d" % batch)
        put(f"q/commits/{batch}", b"v1\n{}")
        copies.append(dict(files))
        if batch >= 100:
            delete(f"q/offsets/{batch - 100}")
            delete(f"q/commits/{batch - 100}")
    history.open_segment()
    reader = await open_reader("v", [_copy("a", history, snapshots)])
    for batch, copy in enumerate(copies):
        image = await reader.image(AtBatch(batch=batch), path="q")
        paths = [status.path for status in image.tree.walk() if not status.is_directory]
        assert {path: await _content(reader, image, path) for path in paths} == copy


async def test_looking_again_reads_only_what_is_new() -> None:
    history, snapshots = _batches(9)
    copy = _copy("a", history, snapshots)
    reader = await open_reader("v", [copy])
    seen = [record.header async for record in reader.records()]
    for batch in range(100, 103):
        history.add(PutChange(path=f"q/offsets/{batch}"), b"new")
    copy.objects |= {name: bytes(data) for name, data in history.segments.items()}
    copy.bytes_read = 0
    await reader.refresh()
    seen += [record.header async for record in reader.records(seen[-1].end_lsn)]
    assert seen == history.headers[:-1]
    assert copy.bytes_read < 3000
    history.open_segment(epoch=2)
    history.add(PutChange(path="q/offsets/103"), b"new")
    copy.objects |= {name: bytes(data) for name, data in history.segments.items()}
    await reader.refresh()
    seen += [record.header async for record in reader.records(seen[-1].end_lsn)]
    assert seen == history.headers[:-1]


async def test_the_last_batches_cost_the_end_of_the_log_only() -> None:
    history, snapshots = _batches(40)
    copy = _copy("a", history, snapshots)
    reader = await open_reader("v", [copy])
    whole = sum(map(len, history.segments.values()))
    for path in ("", "q"):
        copy.bytes_read = 0
        lsn = await reader.lsn_of(AtBatch(batch=38), path=path)
        assert lsn in {header.end_lsn for header in history.headers if header.payload_bytes == 2}
        assert copy.bytes_read < whole / 4
    copy.bytes_read = 0
    read: list[int] = []
    found = await last_batches(reader, "", 5, read.append)
    assert [(one.query, one.number) for one in found] == [("q", number) for number in range(35, 40)]
    assert all(one.plan is not None and one.committed_lsn is not None for one in found)
    assert copy.bytes_read <= sum(read) < whole / 4
    everything = await last_batches(reader, "q", 1000, read.append)
    assert [one.number for one in everything] == list(range(40))
    assert [one for one in everything if one.number >= 35] == found


async def test_a_batch_of_two_queries_is_not_guessed() -> None:
    history = History()
    for number in range(30):
        history.open_segment()
        for query in ("q1", "q2") if number > 3 else ("q1",):
            history.add(PutChange(path=f"{query}/commits/{number}"), b"v1")
            history.add(PutChange(path=f"{query}/data"), bytes(100_000))
    reader = await open_reader("v", [_copy("a", history)])
    with pytest.raises(JournalError, match="which of q1, q2"):
        await reader.lsn_of(AtBatch(batch=7))
    assert await reader.lsn_of(AtBatch(batch=7), path="q2") > await reader.lsn_of(AtBatch(batch=7), path="q1")
    assert await reader.lsn_of(AtBatch(batch=3)) > 0
    with pytest.raises(JournalError, match="no query at / has committed batch 99"):
        await reader.lsn_of(AtBatch(batch=99))
