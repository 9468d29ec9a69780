"""Appends of one round of the poller are committed together, on the spot while the disk is quick."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.store.object_store import ObjectStore
from tests.fakes.simulated_disk import DiskFaults, SimulatedDisk, SimulatedFile
from tests.fakes.simulated_drive import SimulatedDrive, Survival
from tests.sos_server.real_store import Client
from tests.sos_server.store_world import SMALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sos_server.store.namespace import Appender

PIECE = b"piece" * 200


class Disks:
    """A drive, and whether it says that it is quick."""

    def __init__(self, rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drive = SimulatedDrive(rng)
        self.faults = DiskFaults()
        self.calls: list[str] = []
        self.quick = True
        monkeypatch.setattr(SimulatedFile, "is_quick", lambda *_: self.quick)

    @asynccontextmanager
    async def store(self) -> AsyncIterator[ObjectStore]:
        disk = SimulatedDisk(self.drive, faults=self.faults, observe=lambda call, _: self.calls.append(call))
        store = await ObjectStore.open(disk, settings=SMALL, wall_clock=trio.current_time)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            yield store
            nursery.cancel_scope.cancel()


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    return Disks(random.Random(7), monkeypatch)


def append(appender: Appender) -> None:
    appender.append(appender.written, crc32c(PIECE), memoryview(PIECE))


async def appenders(store: ObjectStore, *names: str) -> list[Appender]:
    """Of objects that are there already, with one piece each."""
    client = Client(await store.namespace("n", create=True))
    for name in names:
        await client.put(name, PIECE)
    return [await client.start(name, len(PIECE)) for name in names]


async def test_a_round_is_durable_when_it_ends(disks: Disks, autojump_clock: trio.testing.MockClock) -> None:
    async with disks.store() as store:
        ours = await appenders(store, "a", "b")
        disks.calls.clear()
        store.begin_round()
        for appender in ours:
            append(appender)
            append(appender)
        assert [appender.synced for appender in ours] == [len(PIECE)] * 2
        store.end_round()
        assert [appender.synced for appender in ours] == [3 * len(PIECE)] * 2
        assert disks.calls == ["write", "sync"]
        disks.drive.lose_power(Survival.NOTHING)
    async with disks.store() as store:
        namespace = await store.namespace("n", create=False)
        assert [namespace.stat(name).size for name in ("a", "b")] == [3 * len(PIECE)] * 2


async def test_a_round_on_a_slow_disk_is_committed_by_the_task(
    disks: Disks, autojump_clock: trio.testing.MockClock
) -> None:
    async with disks.store() as store:
        (appender,) = await appenders(store, "a")
        disks.quick = False
        store.begin_round()
        append(appender)
        store.end_round()
        assert appender.synced == len(PIECE)
        await appender.end()
        assert appender.synced == 2 * len(PIECE)


async def test_a_round_waits_for_the_commit_before_it(disks: Disks, autojump_clock: trio.testing.MockClock) -> None:
    async with disks.store() as store:
        ours = await appenders(store, "a", "b")
        append(ours[0])  # not in a round: for the task, whose commit takes time
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        store.begin_round()
        append(ours[1])
        store.end_round()
        assert [appender.synced for appender in ours] == [len(PIECE)] * 2
        await ours[1].end()
        assert [appender.synced for appender in ours] == [2 * len(PIECE)] * 2


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_round_that_fails_is_refused_and_the_log_goes_on_in_another_file(
    disks: Disks, operation: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with disks.store() as store:
        (appender, other) = await appenders(store, "a", "b")
        disks.faults.fail_at(operation, path_part="log/")
        before = store.log.files.current
        store.begin_round()
        append(appender)
        store.end_round()
        assert appender.closed_by is None  # it is the task that decides, as it takes another file first
        with pytest.raises(RefusedError) as refused:
            await appender.end()
        assert refused.value.code is ErrorCode.IO_ERROR
        await trio.sleep(1)
        assert store.log.files.current is not before
        store.begin_round()
        append(other)
        store.end_round()
        assert other.synced == 2 * len(PIECE)
        disks.drive.lose_power(Survival.NOTHING)
    async with disks.store() as store:
        namespace = await store.namespace("n", create=False)
        assert (namespace.stat("a").size, namespace.stat("b").size) == (len(PIECE), 2 * len(PIECE))
