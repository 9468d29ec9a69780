"""Services of two shards, killed and lost: what was acknowledged is there, and a shard's takeover stops nobody else."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import trio

from journal.gateway.client.client import ClientSettings
from journal.gateway.client.opening import WholeVolume, open_whole_volume
from journal.records.shards import shard_of, shards_of
from journal.takeover.volume_creation import create_shards
from tests.system.ports import free_port
from tests.system.server_process import ServerProcess
from tests.system.service_process import VOLUME, ServiceProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_PARTITIONS = 4


class Shards:
    """Three servers and the services of two shards."""

    def __init__(self, directory: Path) -> None:
        roots = [directory / f"server{number}" for number in range(3)]
        for root in roots:
            root.mkdir()
        self.servers = [ServerProcess(root, port=free_port()) for root in roots]
        self.services: list[ServiceProcess] = []
        self._directory = directory

    async def start(self) -> None:
        for server in self.servers:
            await trio.to_thread.run_sync(server.start)
        addresses = [server.address for server in self.servers]
        await create_shards(VOLUME, 2, addresses)
        for shard in shards_of(VOLUME, 2):
            service = ServiceProcess(self._directory / f"service{shard.index}", addresses, volume=shard.name)
            self.services.append(service)
            await trio.to_thread.run_sync(service.start)

    @property
    def addresses(self) -> list[str]:
        return [service.address for service in self.services]

    def kill(self) -> None:
        everything: list[ServiceProcess | ServerProcess] = [*self.services, *self.servers]
        for process in everything:
            with suppress(AssertionError):
                process.kill()


@asynccontextmanager
async def running_shards(directory: Path) -> AsyncIterator[Shards]:
    shards = Shards(directory)
    try:
        await shards.start()
        yield shards
    finally:
        shards.kill()


class PartitionWriter:
    """Writes one version after the other into a partition, as a state store does; knows which were acknowledged."""

    def __init__(self, partition: int) -> None:
        self.folder = f"q/state/0/{partition}"
        self.shard = shard_of(self.folder, 2)
        self.acknowledged = 0

    async def run(self, volume: WholeVolume) -> None:
        while True:
            path, data = self.file(self.acknowledged + 1)
            await volume.put(path, data, overwrite=True, operation=volume.new_operation())
            self.acknowledged += 1

    def file(self, version: int) -> tuple[str, bytes]:
        path = f"{self.folder}/{version}.delta"
        return path, path.encode()

    async def check(self, volume: WholeVolume) -> None:
        names = set()
        after, more = "", True
        while more:
            page = await volume.list(self.folder, after=after)
            names |= {entry.path for entry in page.entries}
            after, more = page.entries[-1].path.rpartition("/")[2], page.more
        for version in range(1, self.acknowledged + 1):
            path, data = self.file(version)
            assert path in names
            if version % 20 == 0:
                assert b"".join([piece async for piece in volume.read(path)]) == data


async def progress(writers: list[PartitionWriter], versions: int) -> None:
    goals = [(writer, writer.acknowledged + versions) for writer in writers]
    with trio.fail_after(600):
        while any(writer.acknowledged < goal for writer, goal in goals):  # noqa: ASYNC110
            await trio.sleep(0.02)


async def test_kills_of_either_shard_stop_only_that_one_and_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(3)
    writers = [PartitionWriter(partition) for partition in range(_PARTITIONS)]
    async with running_shards(tmp_path) as shards:
        async with open_whole_volume(shards.addresses, VOLUME) as volume, trio.open_nursery() as nursery:
            for writer in writers:
                nursery.start_soon(writer.run, volume)
            await progress(writers, 3)
            for killed in (1, 0, 1):
                shards.services[killed].kill()
                await trio.sleep(chance.uniform(0.0, 0.3))
                await progress([writer for writer in writers if writer.shard != killed], 10)
                if killed:
                    shards.services[killed].forget_directory()  # as if its machine were lost
                await trio.to_thread.run_sync(shards.services[killed].start)
                await progress(writers, 5)
            nursery.cancel_scope.cancel()
        async with open_whole_volume(shards.addresses, VOLUME) as other:
            for writer in writers:
                await writer.check(other)


async def test_a_volume_is_found_while_the_service_of_one_shard_is_away(tmp_path: Path) -> None:
    async with running_shards(tmp_path) as shards:
        shards.services[0].kill()
        settings = ClientSettings(seconds=20)
        async with open_whole_volume(shards.addresses, VOLUME, settings=settings) as volume:
            operation = volume.new_operation()
            with trio.move_on_after(3) as waited:  # home has to know the directory first
                await volume.put("q/state/0/1/1.delta", b"1", overwrite=True, operation=operation)
            assert waited.cancelled_caught
            await trio.to_thread.run_sync(shards.services[0].start)
            await volume.put("q/state/0/1/1.delta", b"1", overwrite=True, operation=operation)
            assert (await volume.stat("q/state/0/1/1.delta")).size == 1
