"""Ranges of files: whole and in their place, through the page cache or past it, whatever the file system takes."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from journal.disk.file_writing import (
    ALIGNED_WRITE_BYTES,
    BLOCK_BYTES,
    DIRECT_BYTES_MIN,
    SCRATCH_BYTES,
    TURN_SECONDS_MAX,
    LargeWriter,
    Turns,
    write_fully,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

PATTERN = bytes(number * 7 % 251 for number in range(1 << 20))


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield handle
    os.close(handle)


def _is_direct(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)


def _recorded(
    monkeypatch: pytest.MonkeyPatch, pwrite: Callable[[int, memoryview, int], int]
) -> list[tuple[bool, int, int]]:
    """Every pwrite: whether it was direct, where, and how much was asked for."""
    calls: list[tuple[bool, int, int]] = []

    def recording(descriptor: int, data: memoryview, offset: int) -> int:
        calls.append((_is_direct(descriptor), offset, len(data)))
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr("os.pwrite", recording)
    return calls


def _check(descriptor: int, offset: int, buffers: Sequence[bytes | memoryview]) -> None:
    content = b"".join(buffers)
    assert os.pread(descriptor, len(content) + 1, offset) == content
    assert os.fstat(descriptor).st_size == offset + len(content)
    assert not _is_direct(descriptor)


@given(
    offset=st.integers(0, 3 * BLOCK_BYTES),
    lengths=st.lists(st.integers(0, 200_000), max_size=8),
    is_aligned=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_range_is_written_where_it_belongs(
    descriptor: int, offset: int, lengths: list[int], *, is_aligned: bool
) -> None:
    os.ftruncate(descriptor, 0)
    if is_aligned:
        offset -= offset % BLOCK_BYTES
    buffers = [memoryview(PATTERN)[number : number + length] for number, length in enumerate(lengths)]
    os.pwrite(descriptor, b"before" * 3000, 0)
    os.ftruncate(descriptor, offset)
    LargeWriter(Turns()).write(descriptor, offset, buffers)
    _check(descriptor, offset, buffers)
    assert os.pread(descriptor, offset, 0) == (b"before" * 3000)[:offset]


def test_what_is_large_goes_past_the_cache_but_for_its_ends(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _recorded(monkeypatch, os.pwrite)
    buffers = [PATTERN] * 9
    LargeWriter(Turns()).write(descriptor, 100, buffers)
    _check(descriptor, 100, buffers)
    end = (9 * len(PATTERN) + 100) // BLOCK_BYTES * BLOCK_BYTES
    starts = range(BLOCK_BYTES, end, SCRATCH_BYTES)
    assert calls == [(True, start, min(SCRATCH_BYTES, end - start)) for start in starts]


def test_what_lies_as_a_disk_takes_it_is_written_from_there(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _recorded(monkeypatch, os.pwrite)
    memory = memoryview(mmap.mmap(-1, 4 << 20))
    memory[: 3 << 20] = PATTERN * 3
    content = memory[BLOCK_BYTES : (5 << 19) + BLOCK_BYTES]
    LargeWriter(Turns()).write(descriptor, 3 * BLOCK_BYTES, [content])
    _check(descriptor, 3 * BLOCK_BYTES, [content])
    starts = range(0, len(content), ALIGNED_WRITE_BYTES)
    assert calls == [
        (True, 3 * BLOCK_BYTES + start, min(ALIGNED_WRITE_BYTES, len(content) - start)) for start in starts
    ]


@pytest.mark.parametrize(("start", "stop", "offset"), [(1, 1 << 20, 0), (0, 1 << 20, 1), (0, (1 << 20) - 1, 0)])
def test_what_does_not_lie_so_goes_by_way_of_memory_that_does(
    descriptor: int, monkeypatch: pytest.MonkeyPatch, start: int, stop: int, offset: int
) -> None:
    calls = _recorded(monkeypatch, os.pwrite)
    memory = memoryview(mmap.mmap(-1, 1 << 20))
    memory[:] = PATTERN
    LargeWriter(Turns()).write(descriptor, offset, [memory[start:stop]])
    _check(descriptor, offset, [memory[start:stop]])
    assert {length for _, _, length in calls} <= {SCRATCH_BYTES, SCRATCH_BYTES - BLOCK_BYTES}


def test_what_is_small_goes_through_the_cache(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _recorded(monkeypatch, os.pwrite)
    LargeWriter(Turns()).write(descriptor, 1, [PATTERN[:DIRECT_BYTES_MIN]])
    _check(descriptor, 1, [PATTERN[:DIRECT_BYTES_MIN]])
    assert not calls


def test_what_a_file_system_does_not_take_directly_goes_through_the_cache(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite

    def refusing(descriptor: int, data: memoryview, offset: int) -> int:
        if _is_direct(descriptor):
            raise OSError(errno.EINVAL, "not aligned enough")
        return pwrite(descriptor, data, offset)

    calls = _recorded(monkeypatch, refusing)
    buffers = [PATTERN] * 5
    LargeWriter(Turns()).write(descriptor, 0, buffers)
    _check(descriptor, 0, buffers)
    assert [is_direct for is_direct, _, _ in calls] == [True] + [False] * (5 * len(PATTERN) // SCRATCH_BYTES)


def test_a_file_system_without_direct_writes(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    control = fcntl.fcntl

    def refusing(descriptor: int, command: int, flags: int = 0) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "no direct writes here")
        return control(descriptor, command, flags)

    monkeypatch.setattr("fcntl.fcntl", refusing)
    LargeWriter(Turns()).write(descriptor, 0, [PATTERN])
    _check(descriptor, 0, [PATTERN])


def test_a_short_direct_write_is_finished(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    calls = _recorded(
        monkeypatch,
        lambda descriptor, data, offset: pwrite(
            descriptor, data[: BLOCK_BYTES if _is_direct(descriptor) else 1000], offset
        ),
    )
    LargeWriter(Turns()).write(descriptor, 0, [PATTERN[:DIRECT_BYTES_MIN]])
    _check(descriptor, 0, [PATTERN[:DIRECT_BYTES_MIN]])
    assert len(calls) > 2


def test_a_failure_is_raised_and_leaves_the_file_as_others_expect_it(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    _recorded(monkeypatch, failing)
    with pytest.raises(OSError, match="no room"):
        LargeWriter(Turns()).write(descriptor, 0, [PATTERN])
    assert not _is_direct(descriptor)


def test_a_short_buffered_write_is_finished(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pwritev = os.pwritev
    monkeypatch.setattr("os.pwritev", lambda handle, parts, offset: pwritev(handle, [b"".join(parts)[:10]], offset))
    write_fully(descriptor, 3, [b"0123456", b"789abcdef", b"ghi"])
    assert os.pread(descriptor, 100, 3) == b"0123456789abcdefghi"


def test_a_write_in_the_background_waits_for_a_sync_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    turns.await_turn()  # nobody syncs
    first, second = turns.begin_sync(), turns.begin_sync()  # the second one does not wait
    assert (first, second) == (True, False)
    turns.end_sync(second)
    began = time.monotonic()
    turns.await_turn()  # the first one goes on for longer than anyone waits
    assert time.monotonic() - began >= TURN_SECONDS_MAX
    monkeypatch.setattr("journal.disk.file_writing.TURN_SECONDS_MAX", 60.0)
    threading.Timer(0.05, turns.end_sync, [first]).start()
    turns.await_turn()
    assert time.monotonic() - began < 30
    assert turns.begin_sync()
