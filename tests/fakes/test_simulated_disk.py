"""The simulated disk keeps the contract of the real one, and loses exactly what a real one may lose."""

from __future__ import annotations

import errno
import random

import pytest
import trio

from journal.disk.disk import DiskLockedError, OpenMode
from tests.contracts.disk_contract import DiskContract
from tests.fakes.simulated_disk import DiskFaults, ProcessDied, SimulatedDisk
from tests.fakes.simulated_drive import SimulatedDrive, Survival
from tests.fakes.virtual_time import in_virtual_time


@pytest.fixture
def drive() -> SimulatedDrive:
    return SimulatedDrive(random.Random(7))


@pytest.fixture
def disk(drive: SimulatedDrive) -> SimulatedDisk:
    return SimulatedDisk(drive)


class TestSimulatedDisk(DiskContract):
    pass


async def stored_file(disk: SimulatedDisk, path: str, content: bytes) -> None:
    file = await disk.open(path, OpenMode.CREATE)
    await file.write_and_sync(0, [content])
    file.close()
    await disk.sync_directory("")


async def content_after(drive: SimulatedDrive, path: str) -> bytes | None:
    disk = SimulatedDisk(drive)
    if not await disk.exists(path):
        return None
    return await (await disk.open(path, OpenMode.READ)).read(0, 1 << 20)


@in_virtual_time
async def test_what_was_synced_survives_every_power_cut(disk: SimulatedDisk, drive: SimulatedDrive) -> None:
    await stored_file(disk, "a", b"kept" * 300)
    for survival in Survival:
        drive.lose_power(survival)
        assert await content_after(drive, "a") == b"kept" * 300


@in_virtual_time
async def test_unsynced_bytes_are_lost_kept_or_torn() -> None:
    seen = set()
    for seed in range(60):
        drive = SimulatedDrive(random.Random(seed))
        disk = SimulatedDisk(drive)
        await stored_file(disk, "a", bytes(2048))
        await (await disk.open("a", OpenMode.WRITE)).write(0, [b"x" * 2048])
        drive.lose_power()
        content = await content_after(drive, "a")
        assert content is not None
        assert set(content) <= {0, ord("x")}
        seen.add("lost" if not any(content) else "kept" if all(content) else "torn")
    assert seen == {"lost", "kept", "torn"}


@in_virtual_time
async def test_kill_keeps_the_page_cache(disk: SimulatedDisk, drive: SimulatedDrive) -> None:
    await (await disk.open("a", OpenMode.CREATE)).write(0, [b"cached"])
    drive.kill_processes()
    assert await content_after(drive, "a") == b"cached"


@in_virtual_time
async def test_a_name_that_was_not_synced_is_lost_although_its_bytes_were(
    disk: SimulatedDisk, drive: SimulatedDrive
) -> None:
    file = await disk.open("a", OpenMode.CREATE)
    await file.write_and_sync(0, [b"bytes"])
    drive.lose_power(Survival.NOTHING)
    assert await content_after(drive, "a") is None


@in_virtual_time
async def test_unsynced_rename_and_unlink_are_undone(disk: SimulatedDisk, drive: SimulatedDrive) -> None:
    await stored_file(disk, "a", b"first")
    await stored_file(disk, "b", b"second")
    await disk.rename("a", "c")
    await disk.unlink("b")
    drive.lose_power(Survival.NOTHING)
    assert await content_after(drive, "a") == b"first"
    assert await content_after(drive, "b") == b"second"
    assert await content_after(drive, "c") is None


@in_virtual_time
async def test_a_rename_between_directories_is_stored_whole(disk: SimulatedDisk, drive: SimulatedDrive) -> None:
    await stored_file(disk, "a", b"moved")
    await disk.make_directory("d")
    await disk.rename("a", "d/a")
    await disk.sync_directory("d")
    drive.lose_power(Survival.NOTHING)
    assert await content_after(drive, "d/a") == b"moved"
    assert await content_after(drive, "a") is None


@in_virtual_time
async def test_after_a_failed_sync_the_next_one_succeeds_and_stores_nothing() -> None:
    shown, kept = set(), set()
    for seed in range(40):
        drive = SimulatedDrive(random.Random(seed))
        faults = DiskFaults()
        disk = SimulatedDisk(drive, faults=faults)
        await stored_file(disk, "a", b"old" * 500)
        faults.fail_at("sync")
        file = await disk.open("a", OpenMode.WRITE)
        with pytest.raises(OSError, match="Input/output error"):
            await file.write_and_sync(0, [b"new" * 500])
        await file.sync()
        shown.add(await file.read(0, 1500) == b"new" * 500)
        drive.lose_power(Survival.EVERYTHING)
        kept.add(await content_after(drive, "a") == b"new" * 500)
    assert shown == {True, False}
    assert False in kept


@in_virtual_time
async def test_a_sync_may_fail_with_what_another_handle_wrote() -> None:
    faults = DiskFaults(shared_sync_error_rate=1.0)
    disk = SimulatedDisk(SimulatedDrive(random.Random(1)), faults=faults)
    first = await disk.open("a", OpenMode.CREATE)
    second = await disk.open("a", OpenMode.WRITE)
    await first.write_and_sync(0, [b"alone"])
    await second.write_and_sync(5, [b"alone, too"])
    await first.write(0, [b"first"])
    await second.write(5, [b"second"])
    with pytest.raises(OSError, match="Input/output error"):
        await second.sync()
    disk.drive.kill_processes()
    again = await SimulatedDisk(disk.drive, faults=faults).open("a", OpenMode.WRITE)
    await again.write_and_sync(0, [b"the other process is gone"])


@in_virtual_time
async def test_planned_failures_hit_the_nth_call(disk: SimulatedDisk) -> None:
    disk.faults.fail_at("write", nth=2, number=errno.ENOSPC)
    file = await disk.open("a", OpenMode.CREATE)
    await file.write(0, [b"one"])
    with pytest.raises(OSError, match="No space"):
        await file.write(0, [b"two"])
    await file.write(0, [b"three"])


@in_virtual_time
async def test_a_full_disk_refuses_growth_only() -> None:
    disk = SimulatedDisk(SimulatedDrive(random.Random(1), capacity_bytes=1000))
    file = await disk.open("a", OpenMode.CREATE)
    await file.write(0, [bytes(900)])
    assert await disk.free_bytes() == 100
    with pytest.raises(OSError, match="No space"):
        await file.write(900, [bytes(101)])
    await file.write(0, [b"over"])
    await disk.unlink("a")
    assert await disk.free_bytes() == 1000


@in_virtual_time
async def test_a_dead_process_reaches_nothing(disk: SimulatedDisk, drive: SimulatedDrive) -> None:
    file = await disk.open("a", OpenMode.CREATE)
    await disk.lock()
    drive.kill_processes()
    for call in (lambda: file.write(0, [b"x"]), lambda: disk.open("b", OpenMode.CREATE), file.size):
        with pytest.raises(ProcessDied):
            await call()
    await SimulatedDisk(drive).lock()
    with pytest.raises(DiskLockedError):
        await SimulatedDisk(drive).lock()


@in_virtual_time
async def test_a_crash_during_a_call_lets_it_reach_nothing(disk: SimulatedDisk, drive: SimulatedDrive) -> None:
    file = await disk.open("a", OpenMode.CREATE)

    async def write() -> None:
        with pytest.raises(ProcessDied):
            await file.write_and_sync(0, [b"late"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        drive.kill_processes()
    assert await content_after(drive, "a") == b""


@in_virtual_time
async def test_rot_and_wipe(disk: SimulatedDisk, drive: SimulatedDrive) -> None:
    await stored_file(disk, "a", bytes(64))
    assert drive.flip_random_bit() == "a"
    content = await content_after(drive, "a")
    assert content is not None
    assert sum(byte.bit_count() for byte in content) == 1
    drive.wipe()
    assert await SimulatedDisk(drive).list_directory("") == []
