"""kill -9 of the service and of servers, under load: nothing that was acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from journal.gateway.client.client import RemoteVolume, open_volume
from tests.system.file_load import FileWriter, check_races
from tests.system.service_process import VOLUME, Cluster, running_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.system.server_process import ServerProcess
    from tests.system.service_process import ServiceProcess

WRITERS = 6


@asynccontextmanager
async def load(cluster: Cluster, seed: int) -> AsyncIterator[list[FileWriter]]:
    """Writers that change files during the block; at its end all is checked, by another client, too."""
    writers = [FileWriter(number) for number in range(WRITERS)]
    stop = trio.Event()
    async with open_volume(cluster.service_addresses, VOLUME) as volume, trio.open_nursery() as nursery:
        for writer in writers:
            nursery.start_soon(writer.run, volume, random.Random(f"{seed}/{writer.number}"), stop)
        yield writers
        stop.set()
    async with open_volume(cluster.service_addresses, VOLUME) as other:
        await check_all(other, writers)


async def check_all(volume: RemoteVolume, writers: list[FileWriter]) -> None:
    for writer in writers:
        await writer.check(volume)
    await check_races(volume, writers)


async def progress(writers: list[FileWriter], changes: int) -> None:
    """Every writer gets this many changes acknowledged from now on."""
    goals = [writer.changes + changes for writer in writers]
    with trio.fail_after(600):
        while any(writer.changes < goal for writer, goal in zip(writers, goals, strict=True)):  # noqa: ASYNC110
            await trio.sleep(0.05)


async def kill_in_rounds(cluster: Cluster, chance: random.Random, rounds: int, writers: list[FileWriter]) -> None:
    processes: list[ServerProcess | ServiceProcess] = [cluster.service, *cluster.servers]
    for _ in range(rounds):
        await trio.sleep(chance.uniform(0.05, 0.5))
        victim = chance.choice(processes)
        victim.kill()
        await trio.sleep(chance.choice([0, 0, 0.3]))
        await trio.to_thread.run_sync(victim.start)
        if chance.random() < 0.2:
            await progress(writers, 3)
    await progress(writers, 5)


async def kill_rounds(tmp_path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    async with running_cluster(tmp_path) as cluster:
        async with load(cluster, seed) as writers:
            await kill_in_rounds(cluster, chance, rounds, writers)
        assert cluster.service.terminate() == 0


async def test_kills(tmp_path: Path) -> None:
    await kill_rounds(tmp_path, rounds=6, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_many_kills(tmp_path: Path) -> None:
    await kill_rounds(tmp_path, rounds=30, seed=2)


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_a_thousand_kills(tmp_path: Path) -> None:
    await kill_rounds(tmp_path, rounds=1000, seed=3)


async def test_a_machine_is_lost_with_its_local_copy(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, load(cluster, 3) as writers:
        for _ in range(2):
            await progress(writers, 20)
            cluster.service.kill()
            cluster.service.forget_directory()
            await trio.to_thread.run_sync(cluster.service.start)
        await progress(writers, 20)
