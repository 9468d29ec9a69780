"""The real store on a simulated drive: power cuts at any moment, failed syncs, a full disk. Nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError, ErrorCode, RefusedError
from sos_server.service.metrics import ServerMetrics, Traffic
from sos_server.store.namespace import Claim
from tests.fakes.simulated_disk import DiskFaults
from tests.sos_server.store_world import RUNS, SMALL, Known, StoreWorld

if TYPE_CHECKING:
    from sos_server.store.namespace import Namespace
    from sos_server.store.object_store import ObjectStore
    from sos_server.store.settings import StoreSettings

SEEDS = range(60)
LIVES = 6


def run(main: object, *args: object) -> None:
    """Run with a clock that jumps: simulated time costs nothing."""
    trio.run(main, *args, clock=trio.testing.MockClock(autojump_threshold=0))  # type: ignore[arg-type]


async def live_and_die(world: StoreWorld, *, power_cut: bool) -> None:
    """A store checks what it finds and serves a dozen clients until the power fails."""
    async with world.running() as store:
        await world.check(store)
        async with trio.open_nursery() as clients:
            names = [("a", f"o{n}") for n in range(6)] + [(f"n{n}", "o") for n in range(3)]
            for namespace_name, name in names:
                times = world.rng.randrange(1, 30)
                clients.start_soon(world.append_for_a_while, store, namespace_name, name, times)
            if world.rng.random() < 0.5:
                clients.start_soon(world.fence, store, world.rng.choice(["a", "n1"]))
            await trio.sleep(world.rng.choice([0.0005, 0.005, 0.05, 0.3]) * world.rng.random())
            if power_cut:
                world.drive.lose_power()
            else:
                world.drive.kill_processes()
            clients.cancel_scope.cancel()


async def many_lives(seed: int, settings: StoreSettings = SMALL) -> None:
    world = StoreWorld(seed, settings=settings)
    for _ in range(LIVES):
        await live_and_die(world, power_cut=world.rng.random() < 0.8)
    world.faults = None
    async with world.running() as store:
        await world.check(store)
        await store.close()
    async with world.running() as store:
        await world.check(store)


@pytest.mark.parametrize("seed", SEEDS)
def test_power_cuts_lose_nothing_acknowledged(seed: int) -> None:
    run(many_lives, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_power_cuts_lose_nothing_of_runs(seed: int) -> None:
    run(many_lives, seed, RUNS)


@pytest.mark.parametrize("settings", [SMALL, RUNS], ids=["log", "runs"])
@pytest.mark.parametrize("seed", SEEDS)
def test_failed_operations_are_never_acknowledged(seed: int, settings: StoreSettings) -> None:
    """Syncs, writes and reads fail at random while the store runs; it is restarted on a drive that works again."""

    async def main() -> None:
        world = StoreWorld(1000 + seed, settings=settings)
        for _ in range(LIVES):
            world.faults = DiskFaults()
            async with world.running() as store:
                await world.check(store)
                rate = world.rng.choice([0.01, 0.1, 0.4])
                world.faults.error_rates = dict.fromkeys(("sync", "write", "sync_directory"), rate)
                async with trio.open_nursery() as clients:
                    for number in range(5):
                        clients.start_soon(world.append_for_a_while, store, "a", f"o{number}", 20)
                    await trio.sleep(world.rng.uniform(0, 0.2))
                    world.drive.lose_power()
                    clients.cancel_scope.cancel()
        world.faults = None
        async with world.running() as store:
            await world.check(store)

    run(main)


@pytest.mark.parametrize("seed", range(10))
def test_a_seal_that_failed_does_not_open_the_object_to_appends_that_another_seal_shuts_out(seed: int) -> None:
    """The second one comes after the failure, and before the first one hears of it."""

    async def main() -> None:
        world = StoreWorld(seed, faults=DiskFaults())
        async with world.running() as store:
            namespace = await store.namespace("n", create=True)
            appender = await world.start(namespace, "o", Known())
            await appender.end()
            assert world.faults is not None
            world.faults.fail_at("write", path_part="log")

            async def seal_again() -> None:
                await store.log.wait_room()  # the batch was closed
                await store.log.wait_room()  # and has failed
                await namespace.seal("o", size=0, claim=None)

            async with trio.open_nursery() as others:
                others.start_soon(seal_again)
                await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(RefusedError, match="IO_ERROR"):
                    await namespace.seal("o", size=0, claim=None)
                await trio.lowlevel.checkpoint()
                with pytest.raises(RefusedError, match="SEALED"):
                    await world.start(namespace, "o", Known())

    run(main)


def test_a_log_of_which_no_file_can_be_written_is_told_and_counted() -> None:
    class NoConnections:
        connections = refused_connections = 0

    async def main() -> None:
        world = StoreWorld(1, faults=DiskFaults())
        async with world.running() as store:
            namespace = await store.namespace("n", create=True)
            collector = ServerMetrics(store, Traffic(), NoConnections())
            assert refusing(collector) == 0
            assert world.faults is not None
            for number in range(1, 10):
                world.faults.fail_at("write", path_part=f"/000{number}")
            with pytest.raises(RefusedError, match="IO_ERROR"):
                await namespace.fence(Claim(epoch=1, holder=bytes(16)))
            await trio.sleep(1)
            with pytest.raises(RefusedError, match=r"disk failed \(Input/output error; the store needs a restart\);"):
                await world.start(namespace, "o", Known())
            assert refusing(collector) == 1
            assert len([sentence for sentence in world.reports if "no file of the commit log" in sentence]) == 1

    def refusing(collector: ServerMetrics) -> float:
        (found,) = [metric for metric in collector.collect() if metric.name == "sos_refusing_appends"]
        return found.samples[0].value

    run(main)


async def fill(world: StoreWorld, store: ObjectStore) -> RefusedError:
    """Append to one object after the other, each sealed, until something is refused."""
    namespace = await store.namespace("full", create=True)
    payload = bytes(range(256)) * 256
    for number in range(10_000):
        name = f"o{number}"
        known = world.objects.setdefault(("full", name), Known())
        try:
            appender = await world.start(namespace, name, known)
            for _ in range(4):
                await appender.wait_room()
                appender.append(appender.written, crc32c(payload), payload)
                known.sent += payload
            await appender.end()
            known.synced, known.maybe_sealed = appender.synced, True
            await namespace.seal(name, size=known.synced, claim=namespace.claim)
            known.sealed = True
        except RefusedError as refusal:
            return refusal
    raise AssertionError("the disk never became full")


async def appends_until_room(world: StoreWorld, store: ObjectStore) -> None:
    """The first append that is taken again."""
    namespace = await store.namespace("full", create=True)
    known = world.objects.setdefault(("full", "later"), Known())
    while True:
        try:
            appender = await world.start(namespace, "later", known)
            appender.append(0, crc32c(b"room"), b"room")
            known.sent += b"room"
            await appender.end()
        except RefusedError as refusal:
            if refusal.code is not ErrorCode.NO_SPACE:
                raise
            await trio.sleep(0.1)
        else:
            known.synced = 4
            return


@pytest.mark.parametrize("settings", [SMALL, RUNS], ids=["log", "runs"])
@pytest.mark.parametrize("seed", range(10))
def test_a_full_disk_refuses_appends_and_nothing_else(seed: int, settings: StoreSettings) -> None:
    async def main() -> None:
        world = StoreWorld(seed, capacity_bytes=(12 << 20) + seed * 300_000, settings=settings)
        async with world.running() as store:
            refusal = await fill(world, store)
            assert refusal.code is ErrorCode.NO_SPACE
            await world.check(store)
            if seed % 2:
                world.drive.lose_power()
        async with world.running() as store:
            await world.check(store)
            namespace = await store.namespace("full", create=False)
            for name in ("o0", "o1", "o2", "o3"):
                await namespace.delete(name, claim=None)
                world.objects["full", name].deleted = True
            with trio.fail_after(3):
                await appends_until_room(world, store)
            await world.check(store)
        async with world.running() as store:
            await world.check(store)

    run(main)


@pytest.mark.parametrize("settings", [SMALL, RUNS], ids=["log", "runs"])
@pytest.mark.parametrize("seed", range(10))
def test_a_disk_that_others_filled_is_claimed_read_and_cleaned(seed: int, settings: StoreSettings) -> None:
    """Nothing can be copied any more, so the log fills up. Claims, seals and deletes find room in it all the same.

    After restarts, too: without them nobody could take over, or make room.
    """

    async def main() -> None:
        world = StoreWorld(seed, capacity_bytes=24 << 20, settings=settings)
        async with world.running() as store:
            for number in range(8):
                await world.append_for_a_while(store, "full", f"copied{number}", 40)
            await store.copy_everything()
            world.drive.capacity_bytes -= world.drive.free_bytes - seed * 4000
            refusal = await fill(world, store)
            assert refusal.code is ErrorCode.NO_SPACE
            await check_full(world, store)
        for restart in range(8):
            async with world.running() as store:
                await check_full(world, store)
                if restart % 3 == seed % 3:
                    await store.close()
            if restart % 2:
                world.drive.lose_power()
        async with world.running() as store:
            namespace = await store.namespace("full", create=False)
            for info in namespace.list("", 1000):
                if not info.sealed:
                    await namespace.seal(info.name, size=info.size, claim=namespace.claim)
                    world.objects["full", info.name].sealed = True
                await namespace.delete(info.name, claim=namespace.claim)
                world.objects["full", info.name].deleted = True
            with trio.fail_after(5):
                await appends_until_room(world, store)
            await world.check(store)

    run(main)


async def check_full(world: StoreWorld, store: ObjectStore) -> None:
    """All that a full server must still do is done; an append is refused, with the reason."""
    await world.check(store)
    namespace = await store.namespace("full", create=False)
    claim = Claim(epoch=1 + (namespace.claim.epoch if namespace.claim else 0), holder=world.rng.randbytes(16))
    await namespace.fence(claim)
    world.claims["full"] = claim.epoch
    with pytest.raises(RefusedError, match="NO_SPACE"):
        await world.start(namespace, "more", Known())


async def read_or_refuse(namespace: Namespace, name: str, known: Known) -> bool:
    """Whether the object is whole; what can be read of it is right in any case."""
    offset, whole = 0, True
    assert namespace.stat(name).size == known.synced
    while offset < known.synced:
        try:
            piece, crc = await namespace.read(name, offset, 4096)
        except RefusedError as refusal:
            if refusal.code is not ErrorCode.DAMAGED:
                raise
            whole, offset = False, offset + 4096
        else:
            assert bytes(piece) == known.sent[offset : offset + len(piece)]
            assert crc == crc32c(piece)
            offset += len(piece)
    return whole


@pytest.mark.parametrize("settings", [SMALL, RUNS], ids=["log", "runs"])
@pytest.mark.parametrize("seed", range(40))
def test_rot_is_seen_and_never_served(seed: int, settings: StoreSettings) -> None:
    """One bit flips somewhere in a store at rest: it refuses to start, refuses that read, or the bit meant nothing."""

    async def main() -> None:
        world = StoreWorld(seed, settings=settings)
        async with world.running() as store:
            async with trio.open_nursery() as clients:
                for number in range(4):
                    clients.start_soon(world.append_for_a_while, store, "a", f"o{number}", 30)
            await store.close()
        path = world.drive.flip_random_bit(path_part=world.rng.choice(["objects/", "catalog/", "identity", "log/"]))
        try:
            async with world.running() as store:
                for (_, name), known in world.objects.items():
                    if not known.deleted:
                        namespace = await store.namespace("a", create=False)
                        whole = await read_or_refuse(namespace, name, known)
                        assert whole or (path is not None and path.startswith("objects/"))
        except DamagedError:
            assert path is not None
            assert path.startswith(("catalog/", "identity"))

    run(main)
