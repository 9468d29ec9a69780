"""Taking a volume over, and running all that writes to it until the end of a block.

Belongs here: what an owner consists of besides the journal itself, in the order in which it begins and ends; and the
mark after each burst of changes. Whoever is not the owner believes only what records say is acknowledged (a copy may
show more than a takeover will keep), and the last record of a burst says nothing about itself: without a mark readers
of an idle volume would not see its last files.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.local_log import open_local_log
from journal.errors import JournalError
from journal.owner.journal import Journal
from journal.records.change import MarkChange
from journal.records.settings import JournalSettings, Surroundings
from journal.takeover.driver import take_over
from journal.takeover.member_links import member_links
from sos_client.nurseries import background

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from journal.disk.disk import Disk

IDLE_SECONDS: Final = 0.5  # one record of 100 bytes for each burst of writes; readers are no further behind than this
ACKNOWLEDGED: Final = "acknowledged"


@asynccontextmanager
async def open_journal(
    volume: str,
    *,
    servers: Sequence[str],
    directory: Path | Disk | None = None,
    settings: JournalSettings | None = None,
    surroundings: Surroundings | None = None,
    accept_loss: bool = False,
    unless_above: int | None = None,
) -> AsyncIterator[Journal]:
    """Take the volume over and write to it until the end of the block.

    `servers` says where to look for members. `directory` keeps a local copy, a cache that is locked meanwhile.
    `unless_above`: leave the volume to whoever has claimed it since that epoch. Raises JournalError: VOLUME_NOT_FOUND,
    UNAVAILABLE (who is missing), LOST, NOT_OWNER, LOCKED. At the end, what is not acknowledged may be kept or not.
    """
    settings, surroundings = settings or JournalSettings(), surroundings or Surroundings()
    async with open_local_log(directory, volume, surroundings.log) as local:
        async with member_links(volume, surroundings) as links:
            opened = await take_over(
                links, servers, local, surroundings, accept_loss=accept_loss, unless_above=unless_above
            )
        journal = Journal(volume, opened, local, settings=settings, surroundings=surroundings)
        async with background() as nursery:
            nursery.start_soon(journal.log.acknowledged.keep_time, journal.replicas.problems)
            nursery.start_soon(local.run, journal.log.tail, journal.log.tail.next_index, journal.log.grown)
            journal.replicas.start(nursery)
            journal.housekeeping.start(nursery)
            nursery.start_soon(_mark_idle_ends, journal)
            yield journal


async def _mark_idle_ends(journal: Journal) -> None:
    """One mark after each burst of changes, until cancelled or until the writer has stopped."""
    log = journal.log
    while True:
        await log.grown.park()
        end = -1
        while log.end != end or log.acknowledged.lsn < end:
            end = log.end
            await trio.sleep(IDLE_SECONDS)
        try:
            log.acknowledged.check_owner()
        except JournalError:
            return
        journal.write(MarkChange(values={ACKNOWLEDGED: end}))
