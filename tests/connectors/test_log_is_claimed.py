"""A listener claims where it writes: whatever the clocks say, and whoever claimed it before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.ingest import places
from connectors.ingest.ingest_log import IngestLog
from journal.volume import PathClaim
from tests.journal.cluster import create, memory_cluster, open_on, wall_clock

if TYPE_CHECKING:
    from trio.testing import MockClock

    from journal.owner.journal import Journal


async def open_log(journal: Journal, *, ahead_seconds: float = 0.0) -> None:
    await IngestLog(journal, wall_ms=lambda: int((wall_clock() + ahead_seconds) * 1000)).open()


async def test_a_wall_clock_that_was_set_does_not_keep_a_listener_out(autojump_clock: MockClock) -> None:
    """The volume's own clock follows it slowly, and takes no claim of the future."""
    async with memory_cluster("a") as servers:
        await create(servers)
        for ahead_seconds in (86_400.0, -86_400.0):
            async with open_on(servers) as journal:
                await open_log(journal, ahead_seconds=ahead_seconds)


async def test_who_claimed_it_before_has_lost_it(autojump_clock: MockClock) -> None:
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers) as journal:
            stranger = PathClaim(start_time=int(wall_clock() * 1000), application="stranger")
            await journal.mkdirs(places.ROOT)
            await journal.put(places.FORMAT_FILE, places.FORMAT_TEXT)
            await journal.claim(places.STREAMS, stranger)
            await open_log(journal)
            held = {one.path: one.claim for one in (await journal.claims()).claims}
            assert {claim.application for claim in held.values()} == {"sos-connector listen"}
            assert set(held) == {places.LOG, places.STREAMS, places.LISTENER}
            assert held[places.STREAMS] > stranger
            await open_log(journal)
