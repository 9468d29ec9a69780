"""Whoever may be lost is lost: after each step of a volume's life, every such set of members is taken away in turn.

Each time on copies of what the members that are left have stored, by a new process that has nothing of its own.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
from typing import TYPE_CHECKING

import pytest
import trio

from journal.copies.copies import MemberCopy
from journal.copies.promise import Verdict, judge
from journal.copies.surveying import survey
from journal.copies.verification import verify_called_damaged, verify_copy
from journal.copies.volume_reader import open_reader
from journal.disk.disk import OpenMode
from journal.errors import JournalCode, JournalError
from journal.image.index_snapshot import checked_snapshot
from journal.kept_past import Retention
from journal.records.moments import Now
from journal.records.settings import JournalSettings
from journal.takeover.membership_change import Wish, change_members
from tests.journal.cluster import (
    VOLUME,
    MemoryCluster,
    addresses,
    content,
    create,
    memory_cluster,
    new_disk,
    open_on,
    surroundings,
)

if TYPE_CHECKING:
    from trio.testing import MockClock

    from journal.owner.journal import Journal

# Small segments: the log is trimmed several times, and every owner rolls some.
SETTINGS = JournalSettings(segment_bytes_max=64 << 10, retention=Retention(bytes=512 << 10))
# As after a restart that keeps more: none of these owners rolls a segment, so none writes or forgets an index snapshot.
QUIET = JournalSettings(retention=Retention(bytes=64 << 20))
PRECIOUS = {f"precious/{number}": bytes([number]) * 5000 for number in range(8)}


async def write_much(journal: Journal, *, puts: int = 300) -> None:
    """Until the log has been trimmed and what is precious has been copied forward."""
    for number in range(puts):
        await journal.put(f"state/{number % 3}", bytes([number % 256]) * 5000, overwrite=True)
        await trio.sleep(1)


async def copied(servers: MemoryCluster, names: str) -> MemoryCluster:
    """Other servers, of which those named have stored the same, and the rest are gone."""
    twins = MemoryCluster(servers.names, servers.nursery)
    for name in servers.names:
        if name not in names:
            await twins.down(name)
            continue
        store = twins.servers[name].store
        for volume, namespace in servers.servers[name].store.namespaces.items():
            twin = await store.namespace(volume, create=True)
            twin.incarnation, twin.claim = namespace.incarnation, namespace.claim
            for stored in namespace.objects.values():
                same = copy.copy(stored)
                same.store, same.content, same.appender, same.grown = (
                    store,
                    bytearray(stored.content),
                    None,
                    trio.Event(),
                )
                twin.objects[stored.name] = same
    return twins


async def lost_without(servers: MemoryCluster, members: str, missing: int) -> list[str]:
    """The sets of `missing` members after whose loss the volume does not come back with all that is precious."""
    lost = []
    too_few = 2 * (len(members) - missing) <= len(members)  # to write; an operator has to decide that these go on
    for gone in itertools.combinations(members, missing):
        left = "".join(name for name in members if name not in gone)
        twins = await copied(servers, left)
        try:
            async with open_on(twins, names=left, source="survivor", accept_loss=too_few) as journal:
                found = {path: await content(journal, path) for path in PRECIOUS}
        except JournalError as error:
            lost.append(f"without {gone}: {error}")
        else:
            lost += [] if found == PRECIOUS else [f"without {gone}: not everything is there"]
    return lost


async def test_a_trimmed_volume_outlives_all_its_first_members(autojump_clock: MockClock) -> None:
    members, spare = "abc", list("defghi")
    async with memory_cluster("abcdefghi") as servers:
        await create(servers, members)
        async with open_on(servers, names=members, settings=SETTINGS) as journal:
            for path, data in PRECIOUS.items():
                await journal.put(path, data)
            await write_much(journal)
            assert journal.log.progress.trim > 0
            kept = set(journal.log.progress.snapshots)
        assert await lost_without(servers, members, 1) == []
        for old in members * 2:
            leaving = members[0]
            joining = spare.pop(0)
            await servers.down(leaving)
            members = members[1:]
            wish = Wish(joining=f"{joining}:7400", leaving=f"{leaving}:7400")
            known = addresses(servers, members + joining)
            await change_members(VOLUME, known, wish, surroundings=surroundings(servers, f"operator {old}"))
            members += joining
            assert await lost_without(servers, members, 1) == []
            async with open_on(servers, names=members, settings=QUIET) as journal:
                await journal.put("small", b"s", overwrite=True)
                await trio.sleep(60)
                assert len(journal.log.progress.counting()) == 3
                assert len(journal.log.progress.snapshots) == len(kept), "older moments can be read, too"
            assert await lost_without(servers, members, 1) == []
            assert all(kept == snapshots_on(servers, name).keys() for name in members)


def snapshots_on(servers: MemoryCluster, name: str) -> dict[str, bytes]:
    """The index snapshots that count there: sealed, of what stands for others what was written last."""
    found = sorted((one for one in servers.objects(name).values() if ".idx" in one.name), key=lambda one: one.name)
    return {one.name[: one.name.index(".idx") + 4]: bytes(one.content) for one in found if one.sealed}


@pytest.mark.parametrize("damage", ["a flipped bit", "cut short", "gone"])
async def test_a_damaged_local_snapshot_reaches_no_member(damage: str, autojump_clock: MockClock) -> None:
    """The local directory is a cache that is never synced."""
    async with memory_cluster("abc") as servers:
        await create(servers)
        disk = new_disk()
        async with open_on(servers, disk=disk, settings=SETTINGS) as journal:
            await servers.down("c")
            await write_much(journal, puts=200)
            assert journal.log.progress.trim > 0
            for name in [name for name in await journal.local.names() if name.endswith(".idx")]:
                file = await disk.open(name, OpenMode.WRITE)
                if damage == "a flipped bit":
                    await file.write(100, [bytes([(await file.read(100, 1))[0] ^ 1])])
                elif damage == "cut short":
                    await file.truncate(100)
                file.close()
                if damage == "gone":
                    await disk.unlink(name)
            await servers.up("c")
            await trio.sleep(60)
            assert len(journal.log.progress.counting()) == 3
            wanted = journal.log.progress.snapshots
            assert wanted
            assert wanted.keys() <= snapshots_on(servers, "c").keys()
            for name, data in snapshots_on(servers, "c").items():
                checked_snapshot(name, data)


async def test_a_member_that_was_left_with_part_of_a_snapshot_is_given_all_of_it(autojump_clock: MockClock) -> None:
    """Unsealed, as one that died on the way leaves it; whether what is there is its beginning, or something else."""
    async with memory_cluster("abc") as servers:
        await create(servers)
        async with open_on(servers, settings=SETTINGS) as journal:
            await write_much(journal, puts=200)
            wanted = dict(journal.log.progress.snapshots)
        for name in wanted:
            for server, content_left in (("b", None), ("c", b"something else")):
                stored = servers.objects(server)[name]
                stored.sealed = False
                stored.content = stored.content[:100] if content_left is None else bytearray(content_left)
        async with open_on(servers, settings=QUIET) as journal:
            await trio.sleep(30)
            assert len(journal.log.progress.counting()) == 3
            for server in "abc":
                held = snapshots_on(servers, server)
                for name in journal.log.progress.snapshots:
                    checked_snapshot(name, held[name])


async def test_no_owner_without_an_image(autojump_clock: MockClock) -> None:
    """Nobody can open the volume: each attempt says so, and writes nothing."""
    async with memory_cluster("abc") as servers:
        await create(servers)
        async with open_on(servers, settings=SETTINGS) as journal:
            await write_much(journal, puts=200)
            assert journal.log.progress.trim > 0
        for server in "abc":
            for name in [name for name in servers.objects(server) if name.endswith(".idx")]:
                del servers.objects(server)[name]
        before = {server: set(servers.objects(server)) for server in "abc"}
        for _ in range(2):
            with pytest.raises(JournalError) as caught:
                async with open_on(servers):
                    pass
            assert caught.value.code is JournalCode.LOST
        assert {server: set(servers.objects(server)) for server in "abc"} == before


async def well(servers: MemoryCluster, names: str) -> tuple[bool, bool]:
    """Whether `status`, and whether `verify` would say OK."""
    async with contextlib.AsyncExitStack() as stack:
        copies = []
        for name in names:
            client = await stack.enter_async_context(surroundings(servers, "reader").open_member(f"{name}:7400"))
            copies.append(MemberCopy(client, label=name, volume=VOLUME))
        try:
            reader = await open_reader(VOLUME, copies)
            await reader.image(Now())
        except JournalError:
            return False, False
        reports = [await verify_copy(reader, one, lambda _done: None) for one in copies]
        verified = all(one.verdict is Verdict.OK for one in reports)
        holdings = await survey(reader, await verify_called_damaged(reader))
        found = judge(reader.header.membership, epoch=reader.header.epoch, holdings=holdings)
        status = not found and not any(one.lacks for one in holdings) and len(holdings) == len(names)
        return status, verified and not found


async def test_a_member_that_may_have_lost_its_end_is_not_said_to_be_well(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("f", bytes(5000))
            await trio.sleep(5)
            assert await well(servers, "abc") == (True, True)
            servers.objects("a")[str(journal.log.segment.name)].damaged = True
        status, _ = await well(servers, "abc")
        assert not status
        async with open_on(servers) as journal:  # which opens another segment
            await journal.put("g", b"")
            await trio.sleep(5)
            status, _ = await well(servers, "abc")
            assert status


async def test_old_objects_that_servers_call_damaged_are_looked_at(autojump_clock: MockClock) -> None:
    """A segment, and the index snapshot that stands for what was trimmed; what is called so and is whole is well."""
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=SETTINGS) as journal:
            await write_much(journal)
            snapshot = max(journal.log.progress.snapshots)
            for victim in (journal.log.links[1].segment, snapshot):
                for server in "ab":
                    servers.objects(server)[victim].damaged = True
                assert await well(servers, "abc") == (True, True)
                for server in "ab":
                    servers.objects(server)[victim].content[-1] ^= 1
                assert await well(servers, "abc") == (False, False)
                for server in "ab":
                    servers.objects(server)[victim].content[-1] ^= 1


def plant(chance: random.Random, servers: MemoryCluster, names: str) -> str:
    """One fault of one object, on some members; what it is."""
    kind = chance.choice(["is gone", "is cut short", "is not sealed", "is damaged", "is called damaged"])
    victim = chance.choice(sorted(one for one in servers.objects(names[0]) if one.endswith((".seg", ".idx"))))
    hit = chance.sample(names, chance.randint(1, len(names)))
    for name in hit:
        objects = servers.objects(name)
        stored = objects.get(victim)
        if stored is None:
            continue
        if kind == "is gone":
            del objects[victim]
        elif kind == "is cut short":
            del stored.content[len(stored.content) // 2 :]
        elif kind == "is not sealed":
            stored.sealed = False
        elif kind == "is called damaged":
            stored.damaged = True
        else:
            stored.content[len(stored.content) // 2] ^= 1
    return f"{victim} {kind} on {hit}"


@pytest.mark.slow
@pytest.mark.parametrize(("names", "acknowledgements"), [("abc", 2), ("ab", 2), ("abcd", 3), ("abcde", 3)])
async def test_what_is_said_to_be_well_survives(names: str, acknowledgements: int, autojump_clock: MockClock) -> None:
    """And what does not survive is said not to be well: planted faults, one after another."""
    async with memory_cluster(names) as servers:
        await create(servers, acknowledgements=acknowledgements)
        async with open_on(servers, settings=SETTINGS) as journal:
            for path, data in PRECIOUS.items():
                await journal.put(path, data)
            await write_much(journal, puts=200)
            assert journal.log.progress.trim > 0
            await trio.sleep(30)
        assert await well(servers, names) == (True, True)
        assert await lost_without(servers, names, acknowledgements - 1) == []
        said, lost = 0, 0
        for seed in range(6):
            chance, twins, faults = random.Random(seed), await copied(servers, names), []
            for _ in range(4):
                faults.append(plant(chance, twins, names))
                gone = await lost_without(twins, names, acknowledgements - 1)
                status, verified = await well(twins, names)
                assert not (verified and gone), (faults, gone)
                if not any("damaged" in fault for fault in faults):  # which status does not look for
                    assert not (status and gone), (faults, gone)
                said, lost = said + (not verified), lost + bool(gone)
        assert said >= lost > 0, "the faults are bad enough to matter"
