"""Saying, in a record, that the last records are acknowledged, once nothing has been written for a moment.

Whoever is not the owner believes only what records say is acknowledged (a copy may show more than a takeover will
keep), and the last record of a burst says nothing about itself. Without this, readers of an idle volume would not see
its last files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalError
from journal.records.change import MarkChange

if TYPE_CHECKING:
    from journal.owner.journal import Journal

IDLE_SECONDS: Final = 0.5  # one record of 100 bytes for each burst of writes; readers are no further behind than this
ACKNOWLEDGED: Final = "acknowledged"


async def announce(journal: Journal) -> None:
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
