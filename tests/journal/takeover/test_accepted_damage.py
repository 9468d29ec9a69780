"""A member whose server was told to start without a part of its log may have lost claims: it does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from sos_server.storage.log_format import BLOCK_BYTES, decode_log_header
from tests.journal.cluster import content, create, open_on, simulated_cluster

if TYPE_CHECKING:
    from trio.testing import MockClock

    from tests.journal.cluster import SimulatedCluster


async def lose_the_newest_log(servers: SimulatedCluster, name: str) -> None:
    """One bit in a header; an operator lets the server start without that log."""
    host = servers.hosts[name]
    await servers.down(name)
    headers = {
        header.generation: inode
        for path, inode in host.drive.files()
        if path.startswith("log/") and (header := decode_log_header(bytes(inode.stored[:BLOCK_BYTES])))
    }
    headers[max(headers)].flip_bit(12, 0)
    await servers.up(name)
    assert host.refused_to_start is not None
    host.accepts_log_damage = True
    await servers.down(name)
    await servers.up(name)
    assert host.running


async def test_an_owner_that_was_replaced_gets_no_member_back_by_a_claim_that_was_lost(
    autojump_clock: MockClock,
) -> None:
    """The next owner's claim was in the log that is gone. Whoever had the one before must not write again."""
    async with simulated_cluster() as servers:
        network = servers.world.network
        await create(servers)
        async with open_on(servers, source="old") as old:
            await old.put("before", b"1")
            await trio.sleep(1)
            await servers.down("a")
            await servers.up("a")  # what comes next is in a new log
            for name in "ab":
                network.partition("old", name)
                network.partition(name, "old")
            network.partition("new", "c")
            async with open_on(servers, source="new") as new:
                await new.put("f", b"new")
                await lose_the_newest_log(servers, "a")
                network.heal()
                for pair in (("old", "b"), ("b", "old"), ("new", "a"), ("a", "new"), ("new", "c"), ("c", "new")):
                    network.partition(*pair)
                with pytest.raises(JournalError) as caught:
                    await old.put("f", b"old", overwrite=True)
                assert caught.value.code in (JournalCode.OUTCOME_UNKNOWN, JournalCode.NOT_OWNER)
        network.heal()
        async with open_on(servers) as journal:
            assert await content(journal, "f") == b"new"
