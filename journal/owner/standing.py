"""How an owned volume stands, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.owner.replica_progress import Standing
from journal.statistics import MemberStatistics, VolumeStatistics

if TYPE_CHECKING:
    from journal.owner.journal import Journal


def statistics_of(journal: Journal) -> VolumeStatistics:
    """At this moment; costs next to nothing."""
    shown = journal.acknowledged
    return VolumeStatistics(
        epoch=journal.epoch,
        written_lsn=journal.log.end,
        acknowledged_lsn=journal.acknowledged_lsn,
        oldest_lsn=shown.trim,
        files=shown.tree.file_count,
        tree_bytes=shown.tree_bytes,
        may_lose=journal.log.progress.spare(),
        members=tuple(
            MemberStatistics(
                address=one.member.address,
                in_sync=one.standing is Standing.IN_SYNC,
                lag_bytes=one.lag_bytes,
                uncleaned=one.member.address in journal.housekeeping.uncleaned_members,
            )
            for one in journal.replicas.status()
        ),
    )
