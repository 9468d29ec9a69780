"""Worse than a kill: two services for one volume, stopped processes that come back, a lost disk, too few members."""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from journal.gateway.client.client import ClientSettings, open_volume
from tests.system.service_process import VOLUME, Cluster, running_cluster
from tests.system.test_service_kills import load, progress

if TYPE_CHECKING:
    from pathlib import Path


def epochs(cluster: Cluster) -> list[int]:
    """Of every takeover that any service reported."""
    events = [event for service in cluster.services if service.log_path.exists() for event in service.log()]
    return [event["epoch"] for event in events if event["event"] == "volume taken over"]


async def test_the_later_service_wins_and_the_earlier_one_says_where_it_is(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, services=2) as cluster:
        first, second = cluster.services
        async with open_volume([first.address], VOLUME) as volume:
            await volume.put("f", b"1", overwrite=False, operation=volume.new_operation())
            await trio.to_thread.run_sync(second.start)
            await volume.put("f", b"2", overwrite=True, operation=volume.new_operation())
            assert (await volume.read_file("f"))[1] == b"2"
            assert volume.epoch == max(epochs(cluster))
        async with open_volume([first.address], VOLUME) as volume:
            assert (await volume.read_file("f"))[1] == b"2"
        lost = [event for event in first.log() if event["event"] == "volume lost to another owner"]
        assert len(lost) == 1
        assert f"epoch {max(epochs(cluster))}" in lost[0]["reason"]


async def test_two_services_that_fight_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(5)
    async with running_cluster(tmp_path, services=2) as cluster, load(cluster, 5) as writers:
        await trio.to_thread.run_sync(cluster.services[1].start)
        for _ in range(4):
            await trio.sleep(chance.uniform(0.1, 0.6))
            both = chance.random() < 0.5
            victims = cluster.services if both else [chance.choice(cluster.services)]
            for victim in victims:
                victim.kill()
            async with trio.open_nursery() as nursery:
                for victim in victims:
                    nursery.start_soon(trio.to_thread.run_sync, victim.start)
            await progress(writers, 3)
        granted = epochs(cluster)
        assert len(granted) == len(set(granted)), "two owners with one epoch"


async def test_a_stopped_service_comes_back_to_a_volume_that_is_not_its_own(tmp_path: Path) -> None:
    """SIGSTOP, a successor elsewhere, SIGCONT: the zombie acknowledges nothing, and shows nothing old."""
    async with running_cluster(tmp_path, services=2) as cluster:
        zombie, successor = cluster.services
        async with open_volume([zombie.address], VOLUME) as volume:
            await volume.put("f", b"old", overwrite=False, operation=volume.new_operation())
        zombie.send_signal(signal.SIGSTOP)
        await trio.to_thread.run_sync(successor.start)
        async with open_volume([successor.address], VOLUME) as volume:
            await volume.put("f", b"new", overwrite=True, operation=volume.new_operation())
            await volume.put("g", b"new", overwrite=False, operation=volume.new_operation())
        zombie.send_signal(signal.SIGCONT)
        async with open_volume([zombie.address], VOLUME) as volume:
            with pytest.raises(JournalError) as caught:
                await volume.put("g", b"zombie", overwrite=False, operation=volume.new_operation())
            assert caught.value.code is JournalCode.ALREADY_EXISTS, "the successor answered"
            assert (await volume.read_file("f"))[1] == b"new"


@pytest.mark.parametrize("seconds", [1.0, pytest.param(60.0, marks=pytest.mark.slow)])
async def test_a_stopped_server_slows_nobody(tmp_path: Path, seconds: float) -> None:
    async with running_cluster(tmp_path) as cluster, load(cluster, 6) as writers:
        for server in cluster.servers:
            await progress(writers, 3)
            server.signal(signal.SIGSTOP)
            await progress(writers, 5)
            await trio.sleep(seconds)
            await progress(writers, 5)
            server.signal(signal.SIGCONT)
            await trio.sleep(0.5)  # it catches up before the next one stops
            if seconds > 10:
                break


async def test_a_lost_disk_loses_nothing(tmp_path: Path) -> None:
    """A server comes back empty: the volume goes on with the other two, and a new owner is not misled by it."""
    async with running_cluster(tmp_path) as cluster, load(cluster, 7) as writers:
        await progress(writers, 10)
        victim = cluster.servers[0]
        victim.kill()
        cluster.wipe(victim)
        await trio.to_thread.run_sync(victim.start)
        await progress(writers, 10)
        cluster.service.kill()
        cluster.service.forget_directory()
        await trio.to_thread.run_sync(cluster.service.start)
        await progress(writers, 10)


async def test_below_the_quorum_writes_wait_and_then_are_acknowledged(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, load(cluster, 8) as writers:
        await progress(writers, 3)
        for server in cluster.servers[:2]:
            server.kill()
        before = sum(writer.changes for writer in writers)
        await trio.sleep(1.5)
        assert sum(writer.changes for writer in writers) <= before + 2 * len(writers)
        for server in cluster.servers[:2]:
            await trio.to_thread.run_sync(server.start)
        await progress(writers, 5)


async def test_below_the_quorum_an_impatient_client_is_told_that_it_cannot_know(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        settings = ClientSettings(seconds=2.0)
        async with open_volume([cluster.service.address], VOLUME, settings=settings) as volume:
            await volume.put("f", b"1", overwrite=False, operation=volume.new_operation())
            for server in cluster.servers[:2]:
                server.kill()
            operation = volume.new_operation()
            with pytest.raises(JournalError) as caught:
                await volume.put("g", b"2", overwrite=False, operation=operation)
            assert caught.value.code is JournalCode.OUTCOME_UNKNOWN
            for server in cluster.servers[:2]:
                await trio.to_thread.run_sync(server.start)
        async with open_volume([cluster.service.address], VOLUME) as volume:
            status = await volume.put("g", b"2", overwrite=False, operation=operation)
            assert (status.size, (await volume.read_file("g"))[1]) == (1, b"2")


async def test_a_standby_takes_over_when_the_owner_is_silent(tmp_path: Path) -> None:
    """Nobody starts anything: the standby points to the owner while it lives, and has the volume when it does not."""
    async with running_cluster(tmp_path, services=2) as cluster:
        owner, standby = cluster.services
        standby.flags.append("--standby")
        await trio.to_thread.run_sync(standby.start)
        assert len(epochs(cluster)) == 1
        async with open_volume([standby.address], VOLUME) as volume:
            await volume.put("f", b"1", overwrite=False, operation=volume.new_operation())
        async with open_volume(cluster.service_addresses, VOLUME) as volume:
            await volume.put("g", b"1", overwrite=False, operation=volume.new_operation())
            owner.send_signal(signal.SIGSTOP)
            await volume.put("h", b"1", overwrite=False, operation=volume.new_operation())
            assert [entry.path for entry in (await volume.list("")).entries] == ["f", "g", "h"]
        assert len(epochs(cluster)) == 2


async def test_an_orderly_restart_loses_nothing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, load(cluster, 9) as writers:
        for _ in range(2):
            await progress(writers, 5)
            assert await trio.to_thread.run_sync(cluster.service.terminate) == 0
            await trio.to_thread.run_sync(cluster.service.start)
        await progress(writers, 5)


async def test_one_server_is_a_volume_too(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, servers=1) as cluster, load(cluster, 10) as writers:
        await progress(writers, 5)
        for process in (cluster.service, cluster.servers[0]):
            process.kill()
        await trio.to_thread.run_sync(cluster.servers[0].start)
        await trio.to_thread.run_sync(cluster.service.start)
        await progress(writers, 5)
