"""The real disk: the contract, and what only an operating system can do wrong."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
import trio

from journal.disk.disk import (
    INLINE_SYNC_BYTES_MAX,
    QUICK_SYNC_SECONDS,
    QUICK_SYNCS_MIN,
    Disk,
    DiskLockedError,
    OpenMode,
    open_disk,
)
from tests.contracts.disk_contract import DiskContract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    async with open_disk(tmp_path / "root", create=True) as disk:
        yield disk


class TestRealDisk(DiskContract):
    pass


async def test_missing_root_is_made_only_when_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with open_disk(tmp_path / "a"):
            pass
    async with open_disk(tmp_path / "a" / "b", create=True) as disk:
        assert await disk.list_directory("") == []


async def test_links_are_never_followed(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "file").symlink_to(tmp_path / "outside" / "secret")
    for path in ("link/secret", "file"):
        for mode in (OpenMode.READ, OpenMode.WRITE):
            with pytest.raises(OSError):  # noqa: PT011
                await disk.open(path, mode)
    with pytest.raises(OSError):  # noqa: PT011
        await disk.list_directory("link")
    assert await disk.exists("file")


async def test_second_owner_is_refused_until_the_first_is_gone(disk: Disk, tmp_path: Path) -> None:
    await disk.lock()
    async with open_disk(tmp_path / "root") as other:
        with pytest.raises(DiskLockedError):
            await other.lock()
        await disk.close()
        await other.lock()


async def test_a_root_that_was_moved_stays_reachable(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "root").rename(tmp_path / "moved")
    (await disk.open("a", OpenMode.CREATE)).close()
    assert (tmp_path / "moved" / "a").exists()


async def test_a_short_write_is_finished(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_most_two_bytes(descriptor: int, buffers: list[bytes], offset: int) -> int:
        return os.pwrite(descriptor, b"".join(buffers)[:2], offset)

    file = await disk.open("a", OpenMode.CREATE)
    monkeypatch.setattr(os, "pwritev", at_most_two_bytes)
    await file.write(1, [b"abc", b"def"])
    assert await file.read(0, 10) == b"\0abcdef"
    file.close()


async def test_failed_sync_is_raised(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "made up")

    file = await disk.open("a", OpenMode.CREATE)
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="made up"):
        await file.write_and_sync(0, [b"x"])
    with pytest.raises(OSError, match="made up"):
        await file.sync()
    file.close()


async def test_closing_a_file_ends_its_thread(disk: Disk) -> None:
    before = set(threading.enumerate())
    file = await disk.open("a", OpenMode.CREATE)
    await file.write_and_sync(0, [b"x"])
    (thread,) = [t for t in threading.enumerate() if t not in before and t.name == "sync a"]
    file.close()
    await trio.to_thread.run_sync(thread.join, 10)
    assert not thread.is_alive()
    file.close()


async def test_a_small_write_is_synced_on_the_spot_only_after_many_quick_ones(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, seconds, on_the_spot = threading.get_ident(), 0.0, []

    def write_and_sync(*_: object) -> float:
        on_the_spot.append(threading.get_ident() == here)
        return seconds

    monkeypatch.setattr("journal.disk.disk._write_and_sync", write_and_sync)
    file = await disk.open("log", OpenMode.CREATE)

    async def sync(times: int, length: int = 1) -> list[bool]:
        on_the_spot.clear()
        for _ in range(times):
            await file.write_and_sync(0, [bytes(length)])
        return on_the_spot

    assert not any(await sync(QUICK_SYNCS_MIN))
    assert all(await sync(3))
    assert await sync(1, INLINE_SYNC_BYTES_MAX + 1) == [False]
    for slowness, due in ((1, 1), (2.5, 2), (1000, QUICK_SYNCS_MIN)):  # the slower one is, the longer it is the last
        seconds = slowness * QUICK_SYNC_SECONDS
        assert await sync(1) == [True]
        seconds = 0.0
        assert await sync(due + 1) == [False] * due + [True]
    assert file.is_quick(INLINE_SYNC_BYTES_MAX)
    assert not file.is_quick(INLINE_SYNC_BYTES_MAX + 1)
    file.write_and_sync_now(0, [b"x"])
    assert on_the_spot[-1]
    seconds = 2 * QUICK_SYNC_SECONDS
    file.write_and_sync_now(0, [b"x"])
    assert not file.is_quick(1)
    file.close()


async def test_a_failed_sync_on_the_spot_raises_and_ends_them(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[OSError | None] = [*[None] * QUICK_SYNCS_MIN, OSError(5, "broken"), None]
    here, on_the_spot = threading.get_ident(), []

    def write_and_sync(*_: object) -> float:
        on_the_spot.append(threading.get_ident() == here)
        if (error := outcomes.pop(0)) is not None:
            raise error
        return 0.0

    monkeypatch.setattr("journal.disk.disk._write_and_sync", write_and_sync)
    file = await disk.open("log", OpenMode.CREATE)
    for _ in range(QUICK_SYNCS_MIN):
        await file.write_and_sync(0, [b"x"])
    with pytest.raises(OSError, match="broken"):
        await file.write_and_sync(0, [b"x"])
    await file.write_and_sync(0, [b"x"])
    assert on_the_spot[-2:] == [True, False]
    file.close()
