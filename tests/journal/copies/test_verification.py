"""Verifying and mending: any flipped bit is found, named and never returned; what is whole elsewhere mends it."""

from __future__ import annotations

import pytest

from journal.copies.extents import RANGE_BYTES_MAX, group_extents, read_group
from journal.copies.promise import Verdict
from journal.copies.repairing import read_segment
from journal.copies.verification import verify_copy
from journal.copies.volume_reader import open_reader
from journal.errors import DamagedJournalError
from journal.records.change import MakeDirectoryChange, PutChange
from journal.records.moments import Now
from tests.journal.copies.test_volume_reader import MemoryCopy
from tests.journal.histories import History

CONTENT = {"a": b"first file", "b/c": b"second file"}


def _history() -> History:
    history = History()
    for path, data in CONTENT.items():
        history.add(PutChange(path=path), data)
    history.add(MakeDirectoryChange(path="d"))
    history.open_segment()
    history.add(MakeDirectoryChange(path="e"))
    return history


def _objects(history: History) -> dict[str, bytes]:
    return {name: bytes(data) for name, data in history.segments.items()}


async def test_any_flipped_bit_is_found_and_never_returned() -> None:
    history = _history()
    objects = _objects(history)
    first = next(iter(objects))
    for bit in range(8 * len(objects[first])):
        damaged = bytearray(objects[first])
        damaged[bit // 8] ^= 1 << bit % 8
        copy = MemoryCopy("m", objects | {first: bytes(damaged)})
        hit = next(header for header in history.headers if bit // 8 < header.end_lsn)
        try:
            reader = await open_reader("v", [copy])
        except DamagedJournalError:
            if hit.lsn == 0:  # only the header can keep the volume from being opened
                continue
            raise
        report = await verify_copy(reader, copy, lambda _done: None)
        assert report.verdict is Verdict.FAILURE
        assert [fault.lsn for fault in report.faults] == [hit.lsn]
        try:
            image = await reader.image(Now())
            for path, data in CONTENT.items():
                assert b"".join([piece async for piece in reader.read_file(image, path)]) == data
        except DamagedJournalError:
            continue
        pytest.fail(f"bit {bit} was flipped, and everything reads as before")


async def test_a_damaged_newest_header_is_not_taken_for_an_older_state() -> None:
    objects = _objects(_history())
    last = max(objects)
    damaged = bytearray(objects[last])
    damaged[100] ^= 1
    with pytest.raises(DamagedJournalError):
        await open_reader("v", [MemoryCopy("m", objects | {last: bytes(damaged)})])
    reader = await open_reader("v", [MemoryCopy("m", objects | {last: bytes(damaged)}), MemoryCopy("n", objects)])
    assert reader.chain.links[-1].segment == last


@pytest.mark.parametrize("size", [0, 50, 4096])
async def test_an_incomplete_or_empty_newest_header_does_not_exist(size: int) -> None:
    objects = _objects(_history())
    last = max(objects)
    torn = bytes(size) if size == 4096 else objects[last][:size]
    reader = await open_reader("v", [MemoryCopy("m", objects | {last: torn})])
    assert reader.chain.links[-1].segment != last


async def test_a_segment_is_put_together_from_copies_that_are_damaged_in_different_places() -> None:
    history = _history()
    objects = _objects(history)
    first = next(iter(objects))
    copies = []
    for header in history.headers[1:3]:
        damaged = bytearray(objects[first])
        damaged[header.payload_lsn] ^= 1
        copies.append(MemoryCopy(str(header.lsn), objects | {first: bytes(damaged)}))
    reader = await open_reader("v", copies)
    link = reader.chain.links[0]
    assert link.end is not None
    assert await read_segment(link, copies, stop=link.end) == objects[first]
    with pytest.raises(DamagedJournalError):
        await read_segment(link, copies[:1], stop=link.end)


async def test_files_that_lie_together_are_read_together_and_checked_one_by_one() -> None:
    history = History()
    for number in range(5):
        history.add(PutChange(path=f"{number}"), bytes([number]) * 1000)
    history.add(PutChange(path="far"), bytes(RANGE_BYTES_MAX - 4000))
    history.add(PutChange(path="empty"))
    history.open_segment()
    objects = _objects(history)
    first = next(iter(objects))
    damaged = bytearray(objects[first])
    damaged[history.headers[2].payload_lsn] ^= 1
    copies = [MemoryCopy("m", objects | {first: bytes(damaged)}), MemoryCopy("n", objects)]
    reader = await open_reader("v", copies)
    image = await reader.image(Now())
    paths = ["far", "4", "empty", "0", "1", "2", "3"]
    groups = group_extents((path, image.tree.extents(path)) for path in paths)
    assert [[path for path, _ in group] for group in groups] == [["0", "1", "2", "3", "4"], ["far"], ["empty"]]
    pieces = await read_group(reader.copies, [extents[0] for _, extents in groups[0]])
    assert pieces == [bytes([number]) * 1000 for number in range(5)]


async def test_a_closed_segment_that_ends_too_early_is_a_fault_and_the_open_one_only_lags() -> None:
    history = _history()
    history.open_segment()
    history.add(MakeDirectoryChange(path="f"))
    objects = _objects(history)
    first, _, last = objects
    whole = MemoryCopy("whole", objects)
    short = MemoryCopy("short", objects | {first: objects[first][:-10]})
    behind = MemoryCopy("behind", objects | {last: objects[last][:50]})
    reader = await open_reader("v", [whole, short, behind])
    reports = [await verify_copy(reader, copy, lambda _done: None) for copy in (whole, short, behind)]
    assert [report.verdict for report in reports] == [Verdict.OK, Verdict.FAILURE, Verdict.WARNING]
    assert "synced up to" in reports[1].faults[0].what
    assert reports[2].behind_bytes > 0
