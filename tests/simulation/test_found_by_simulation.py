"""What the simulator found once, each as small as it gets, so that it stays mended whatever seeds do later."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from functools import partial
from typing import Any
from unittest import mock

import pytest
import trio

from journal.copies.copies import MemberCopy
from journal.copies.volume_reader import open_reader
from journal.errors import UnavailableError
from journal.kept_past import Retention
from journal.owner.opening import open_journal
from journal.records.record import Lsn
from journal.records.settings import JournalSettings
from journal.takeover import chain_end, driver
from journal.takeover.membership_change import Wish, change_members
from sos_client.client import SosClient, open_client
from sos_client.link import Link
from sos_client.wire.errors import MisuseError
from sos_server.store.object_store import ObjectStore
from tests.fakes.cut_stream import CutStream
from tests.fakes.simulated_disk import SimulatedDisk
from tests.fakes.simulated_drive import SimulatedDrive, Survival
from tests.fakes.simulated_network import SimulatedNetwork
from tests.fakes.virtual_time import in_virtual_time
from tests.journal.cluster import addresses, create, memory_cluster, open_on, surroundings
from tests.simulation.process import SimulatedHost
from tests.simulation.server_process import serve, store_settings
from tests.simulation.world import World


async def opened(drive: SimulatedDrive, disk: SimulatedDisk | None = None) -> ObjectStore:
    chance = random.Random(1)
    return await ObjectStore.open(
        disk or SimulatedDisk(drive),
        settings=store_settings(),
        wall_clock=lambda: 1.8e9,
        random_bytes=chance.randbytes,
    )


@in_virtual_time
async def test_a_log_header_that_only_the_page_cache_has_is_never_built_upon() -> None:
    """A header's sync failed and the server died of it; the next start read the header from the page cache and linked
    the next generation to it; after a power cut there was no such generation, and the server would not start.
    """
    for seed in range(20):
        drive = SimulatedDrive(random.Random(seed))
        await opened(drive)
        drive.kill_processes()
        dying = SimulatedDisk(drive)
        dying.faults.fail_at("sync", nth=1 + seed % 3)
        with contextlib.suppress(OSError):
            await opened(drive, dying)
        drive.kill_processes()
        await opened(drive)
        drive.lose_power(Survival.NOTHING)
        await opened(drive)


@in_virtual_time
async def test_a_catalog_that_only_the_page_cache_has_is_never_built_upon() -> None:
    """The catalog's sync failed and the server was killed; the next start took the catalog from the page cache and
    noted its number in a log header; after a power cut the catalog was older than that, and the server would not start.
    """
    for seed in range(20):
        drive = SimulatedDrive(random.Random(seed))
        dying = SimulatedDisk(drive)
        dying.faults.fail_at("sync", path_part="catalog/")
        with pytest.raises(OSError, match="Input/output error"):
            await opened(drive, dying)
        drive.kill_processes()
        await opened(drive)
        drive.lose_power(Survival.NOTHING)
        await opened(drive)


@in_virtual_time
async def test_an_identity_that_only_the_page_cache_has_is_never_built_upon() -> None:
    """The server died when the name of its identity could not be synced; the next start found it all the same, and made
    everything else durable; after a power cut there was data without an identity, and the server would not start.
    """
    drive = SimulatedDrive(random.Random(1))
    dying = SimulatedDisk(drive)
    dying.faults.fail_at("sync_directory", nth=2)
    with pytest.raises(OSError, match="Input/output error"):
        await opened(drive, dying)
    drive.kill_processes()
    identity = (await opened(drive)).identity
    drive.lose_power(Survival.NOTHING)
    assert (await opened(drive)).identity == identity


@in_virtual_time
async def test_a_log_file_whose_name_was_never_synced_is_never_built_upon() -> None:
    """Killed between making a log file and syncing its directory; the next start committed to that file."""
    drive = SimulatedDrive(random.Random(1))
    dying = SimulatedDisk(drive)
    dying.faults.fail_at("sync_directory", path_part="log")
    with contextlib.suppress(OSError):
        await opened(drive, dying)
    drive.kill_processes()
    await opened(drive)
    drive.lose_power(Survival.NOTHING)
    await opened(drive)


@in_virtual_time
async def test_a_link_on_which_somebody_still_sends_says_no_goodbye() -> None:
    """The listener closed a link whose append was over while the sender was still in the middle of a frame: on TLS
    that is BusyResourceError, which nobody expected.
    """
    network = SimulatedNetwork(random.Random(1))
    network.listen("server:1")
    link = Link(await network.dial("server:1", source="client"), "server:1")
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            with pytest.raises(Exception):  # noqa: B017, PT011 - only the other task is looked at
                await link.send_bytes(bytes(1 << 20))

        nursery.start_soon(send)
        await trio.sleep(1)
        assert not link.reusable
        await link.aclose()


@in_virtual_time
async def test_an_append_that_is_being_opened_when_its_client_is_closed_says_so() -> None:
    """The journal's housekeeping shares a member's client with replication, which closed it while an append for an
    index snapshot was waiting for its answer: RuntimeError, and the service fell over.
    """
    world = World(1)
    host = SimulatedHost(world, "server", serve)
    async with trio.open_nursery() as nursery:
        host.start(nursery)
        await trio.sleep(1)
        dial = partial(world.network.dial, source="client")
        closing = trio.Event()

        async def append(client: SosClient) -> None:
            with pytest.raises(MisuseError):
                async with client.append("space", "object", size=0):
                    pass
            closing.set()

        async with open_client("server:7400", dial=dial) as client:
            await client.use("space", create=True)
            nursery.start_soon(append, client)
            await trio.sleep(0.0005)
        with trio.fail_after(10):
            await closing.wait()
        nursery.cancel_scope.cancel()


@in_virtual_time
async def test_a_connection_that_breaks_during_a_takeover_is_never_called_a_loss() -> None:
    """It broke while the image was read, and was there again when the member was asked whether it answers: LOST, which
    is final, and the service gave a volume up that was whole.
    """
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=JournalSettings(segment_bytes_max=4000)) as journal:
            for number in range(12):
                await journal.put(f"file/{number}", bytes(1000))
        around = surroundings(servers, "next")
        for received in range(600, 21_000, 600):
            dialled: list[str] = []

            async def dial(address: str, received: int = received, dialled: list[str] = dialled) -> trio.abc.Stream:
                stream = await servers.dial(address.partition(":")[0], "next")
                dialled.append(address)
                is_first = address == "c:7400" and dialled.count(address) == 1
                return CutStream(stream, sent_max=1 << 20, received_max=received) if is_first else stream

            around = dataclasses.replace(around, dial=dial)
            async with open_journal("payments", servers=addresses(servers), surroundings=around):
                pass


@in_virtual_time
async def test_a_server_without_the_volume_does_not_keep_a_member_from_being_replaced() -> None:
    """A member had been replaced, its server was empty and still in the list of servers, before the others: the next
    member that was to be filled asked it first, and the change was refused: no such volume.
    """
    async with memory_cluster("abcde") as servers:
        await create(servers, "bcd")
        async with open_on(servers, names="bcd", settings=JournalSettings(segment_bytes_max=4000)) as journal:
            for number in range(12):
                await journal.put(f"file/{number}", bytes(1000))
        wish = Wish(joining="e:7400", leaving="b:7400")
        await change_members("payments", addresses(servers), wish, surroundings=surroundings(servers, "operator"))
        async with open_on(servers, names="cde") as journal:
            assert (await journal.stat("file/1")).size == 1000


@in_virtual_time
async def test_a_damaged_segment_that_was_trimmed_meanwhile_is_not_written_anew() -> None:
    """Verified as damaged, then trimmed by the owner: `repair` looked it up to write beside it, and raised KeyError."""
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=JournalSettings(segment_bytes_max=4000)) as journal:
            for number in range(12):
                await journal.put(f"file/{number}", bytes(1000))
        dial = partial(servers.dial, source="operator")
        async with open_client("a", dial=dial) as client:
            copy = MemberCopy(client, label="a", volume="payments")
            oldest = min(await copy.list())
            del servers.objects("a")[oldest]
            with pytest.raises(UnavailableError, match="trimmed meanwhile"):
                await copy.replace(oldest, b"whole", present=True)
            assert oldest not in await copy.list()


@in_virtual_time
async def test_the_oldest_moment_can_be_read_from_each_member_that_counts() -> None:
    """A member was away while the index snapshot of the oldest moment was adopted, and had a later one. A takeover gave
    it the newest alone, and it counted: when the two that had the other one were lost, which four members with three
    acknowledgements may be, a pinned moment could not be read.
    """
    settings = JournalSettings(segment_bytes_max=4000, retention=Retention(bytes=12_000))
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=settings) as journal:
            while not journal.log.segment.oldest:
                await journal.put("file", bytes(1000), overwrite=True)
            pinned = journal.log.segment.oldest
            await journal.pin("fork", lsn=pinned, seconds=3600)
            for _ in range(40):
                await journal.put("file", bytes(1000), overwrite=True)
            await trio.sleep(2)
            assert journal.log.segment.oldest == pinned
        there = servers.objects("c")
        snapshots = sorted(name for name in there if name.endswith(".idx"))
        assert int(snapshots[0][:16], 16) == pinned < int(snapshots[-1][:16], 16)
        del there[snapshots[0]]
        await servers.down("a")
        async with open_on(servers, settings=settings) as journal:
            await journal.put("file", b"last", overwrite=True)
        async with open_client("c", dial=partial(servers.dial, source="operator")) as client:
            reader = await open_reader("payments", [MemberCopy(client, label="c", volume="payments")])
            assert (await reader.image_at(Lsn(pinned))).lsn == pinned


@in_virtual_time
async def test_what_a_newer_owner_has_trimmed_is_never_called_a_loss() -> None:
    """A takeover waited for a silent member between its claim and its reading. Meanwhile another one succeeded, and
    trimmed what the first had in its list: LOST, which is final, and the service gave a volume up that was whole.
    """
    settings = JournalSettings(segment_bytes_max=4000, retention=Retention(bytes=4000))
    right, overtaken = chain_end.assemble, False

    async def assemble(*arguments: Any, **named: Any) -> Any:
        nonlocal overtaken
        if not overtaken:
            overtaken = True
            async with open_on(servers, settings=settings) as newer:
                for _ in range(40):
                    await newer.put("file", bytes(1000), overwrite=True)
                await trio.sleep(2)
        return await right(*arguments, **named)

    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=settings) as journal:
            await journal.put("file", bytes(1000), overwrite=True)
        with mock.patch.object(driver, "assemble", assemble):
            async with open_on(servers, settings=settings) as journal:
                assert (await journal.stat("file")).size == 1000
