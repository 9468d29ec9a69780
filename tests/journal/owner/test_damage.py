"""Damage on members under a writer: never served, mended from other copies, LOST only if it is whole nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from tests.journal.cluster import content, create, memory_cluster, new_disk, open_on

if TYPE_CHECKING:
    from trio.testing import MockClock

    from journal.owner.journal import Journal
    from tests.fakes.memory_store import MemoryObject
    from tests.journal.cluster import MemoryCluster


async def test_damage_on_one_member_is_never_served(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            for number in range(5):
                await journal.put(f"f/{number}", bytes([number + 1]) * 5000)
            name = str(journal.log.segment.name)
        servers.objects("a")[name].content[12_000] ^= 1
        async with open_on(servers, disk=new_disk()) as journal:
            for number in range(5):
                assert await content(journal, f"f/{number}") == bytes([number + 1]) * 5000
        for server in "abc":
            standing(servers, server, name).content[12_000] ^= 1
        async with open_on(servers) as journal:  # an old segment is not read at once …
            with pytest.raises(JournalError) as caught:  # … but never served
                await content(journal, "f/2")
            assert caught.value.code is JournalCode.DAMAGED


def standing(servers: MemoryCluster, name: str, segment: str) -> MemoryObject:
    """What a server reads when it is asked for the segment: the object, or the newest one that was written for it."""
    objects = servers.objects(name)
    return next(
        objects[one]
        for one in sorted(objects, reverse=True)
        if one == segment or (one.startswith(segment) and objects[one].sealed)
    )


async def damage(servers: MemoryCluster, name: str, segment: str, path: str) -> None:
    """Flip a bit in the only record of a file, on one server."""
    content = standing(servers, name, segment).content
    at = content.index(path.encode())
    content[at + 500] ^= 1
    await trio.lowlevel.checkpoint()


async def filled(servers: MemoryCluster) -> str:
    """Five files in one segment, whose name is returned."""
    await create(servers)
    async with open_on(servers) as journal:
        for number in range(5):
            await journal.put(f"file-{number}", bytes([number + 1]) * 5000)
        await trio.sleep(2)
        return str(journal.log.segment.name)


async def check_files(journal: Journal) -> None:
    for number in range(5):
        assert await content(journal, f"file-{number}") == bytes([number + 1]) * 5000


async def test_a_member_with_damage_is_mended_and_counts_again(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        name = await filled(servers)
        await damage(servers, "a", name, "file-1")
        async with open_on(servers) as journal:
            await trio.sleep(60)
            assert [status.problem for status in journal.replicas.status()] == [None] * 3
            assert all(status.standing.value == "in sync" for status in journal.replicas.status())
        await servers.down("b")
        await servers.wipe("c")
        async with open_on(servers, accept_loss=True) as journal:  # from what was written again alone
            await check_files(journal)


async def test_two_members_damaged_in_different_places_mend_each_other(autojump_clock: MockClock) -> None:
    """The third is gone for good: nothing is whole on any one member, everything is whole on one of two."""
    async with memory_cluster() as servers:
        name = await filled(servers)
        await damage(servers, "a", name, "file-1")
        await damage(servers, "b", name, "file-3")
        await servers.wipe("c")
        async with open_on(servers) as journal:
            await check_files(journal)
            await journal.put("more", b"1")
            await trio.sleep(5)
            assert [status.standing.value for status in journal.replicas.status()][:2] == ["in sync"] * 2
        await servers.down("b")
        async with open_on(servers, accept_loss=True, names="a") as journal:
            await check_files(journal)
            assert await content(journal, "more") == b"1"


async def test_all_members_damaged_in_different_places_mend_each_other(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        name = await filled(servers)
        for number, server in enumerate("abc"):
            await damage(servers, server, name, f"file-{number}")
        async with open_on(servers, disk=new_disk()) as journal:
            await check_files(journal)
            await trio.sleep(60)
            assert [status.problem for status in journal.replicas.status()] == [None] * 3
        for server in "abc":  # what was written again is damaged, too, in another place
            assert standing(servers, server, name) is not servers.objects(server)[name]
            await damage(servers, server, name, "file-4" if server != "c" else "file-0")
        async with open_on(servers) as journal:  # old by now, so not read at once; never served damaged
            await check_files(journal)


async def test_what_is_damaged_behind_the_end_that_was_accepted_does_not_matter(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        name = await filled(servers)
        for server in "abc":
            await damage(servers, server, name, "file-4")
        with pytest.raises(JournalError) as caught:
            async with open_on(servers):
                pass
        assert caught.value.code is JournalCode.LOST
        async with open_on(servers, accept_loss=True) as journal:
            assert await content(journal, "file-3") == bytes([4]) * 5000
            with pytest.raises(JournalError) as caught:
                await content(journal, "file-4")
            assert caught.value.code is JournalCode.NOT_FOUND
            assert "LSN" in journal.log.segment.accepted_loss
        async with open_on(servers) as journal:
            assert await content(journal, "file-3") == bytes([4]) * 5000


async def test_what_may_have_been_acknowledged_and_is_nowhere_whole_is_lost(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", bytes(5000))
            await journal.put("b", bytes(5000))
            name = str(journal.log.segment.name)
            await trio.sleep(1)
        for server in "abc":
            servers.objects(server)[name].content[3000] ^= 1
        with pytest.raises(JournalError) as caught:
            async with open_on(servers):
                pass
        assert caught.value.code is JournalCode.LOST
        assert "LOST" in str(caught.value)


async def test_a_torn_tail_is_cut_without_fuss(autojump_clock: MockClock) -> None:
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", bytes(5000))
            name = str(journal.log.segment.name)
        servers.objects("a")[name].content += b"SOSr and no more than the beginning"
        async with open_on(servers) as journal:
            assert await content(journal, "a") == bytes(5000)
            await journal.put("b", b"2")


async def lose_end(servers: MemoryCluster, name: str, segment: str, path: str) -> None:
    """A server whose log rotted and that was told to go on: the segment ends in this file's record, and it says so."""
    stored = servers.objects(name)[segment]
    del stored.content[stored.content.index(path.encode()) :]
    stored.damaged = True
    await trio.lowlevel.checkpoint()


async def test_a_member_that_lost_its_end_has_not_nothing_there(autojump_clock: MockClock) -> None:
    """b, which alone has the last record beside it, is away: nobody may say that there is none."""
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("file-0", bytes(5000))
            await trio.sleep(2)
            await servers.down("c")
            await journal.put("file-1", bytes(5000))
            name = str(journal.log.segment.name)
        await servers.up("c")
        await lose_end(servers, "a", name, "file-1")
        await servers.down("b")
        with pytest.raises(JournalError) as caught:
            async with open_on(servers):
                pass
        assert caught.value.code is JournalCode.UNAVAILABLE  # b may come back
        assert "damaged" in str(caught.value)
        assert "--accept-loss" in str(caught.value)
        await servers.up("b")
        async with open_on(servers) as journal:
            assert await content(journal, "file-1") == bytes(5000)
            await trio.sleep(5)
        await servers.down("b")
        async with open_on(servers) as journal:  # the segment that may have lost its end is not the newest any more
            assert await content(journal, "file-1") == bytes(5000)


async def test_what_nobody_else_can_have_is_lost_and_can_be_given_up(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        name = await filled(servers)
        await lose_end(servers, "a", name, "file-4")
        await servers.wipe("b")
        await lose_end(servers, "c", name, "file-4")
        with pytest.raises(JournalError) as caught:
            async with open_on(servers):
                pass
        assert caught.value.code is JournalCode.LOST
        async with open_on(servers, accept_loss=True) as journal:
            assert await content(journal, "file-3") == bytes([4]) * 5000
            assert "end" in journal.log.segment.accepted_loss
