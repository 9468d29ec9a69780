"""What may be forgotten: the horizon, how far the log may be trimmed, what must be copied forward first. Pure.

Belongs here: the decisions. Doing it, and when, is housekeeping.py's.

The log is trimmed from its beginning only, so that what is retained stays one chain. A segment before the horizon may
go when the image at the horizon refers to nothing in it: whatever a later image refers to there, that one does, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.image.index_snapshot import parse_snapshot_name
from journal.records.segment import parse_segment_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from journal.image.index_snapshot import SnapshotObject
    from journal.kept_past import Retention
    from journal.records.chain_rules import ChainLink

# If the log is this many times as large as what is live and what is retained, live content of the oldest segment is
# copied forward. A copy lives on for one more retention, hence well below the promised factor of 2.
RELOCATE_ABOVE: Final = 1.4
SPARSE: Final = 0.25  # copying so little of a segment forward is cheap for the space that it frees
# An index snapshot is written when the log has grown by this many times its size, or could be trimmed by that much:
# they cost a fifth of the space, two fifths at most.
SNAPSHOT_SPACING: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Where a segment begins and an index snapshot lies. `lived_ms`: when that was, as timekeeping.py counts ages.

    `references`: the segments in which its image has content; None as long as an earlier owner's was not read.
    """

    lsn: int
    lived_ms: int
    snapshot: SnapshotObject
    references: frozenset[str] | None


def horizon(
    boundaries: Iterable[Boundary], *, end: int, lived_ms: int, retention: Retention, pinned: Iterable[int]
) -> Boundary | None:
    """The newest boundary before which nothing need be readable any more."""
    pins = min(pinned, default=end)
    passed = [one for one in boundaries if one.lsn <= pins and _is_past(one, end, lived_ms, retention)]
    return max(passed, key=lambda one: one.lsn, default=None)


def _is_past(boundary: Boundary, end: int, lived_ms: int, retention: Retention) -> bool:
    by_size = bool(retention.bytes) and boundary.lsn <= end - retention.bytes
    by_age = bool(retention.seconds) and boundary.lived_ms <= lived_ms - retention.seconds * 1000
    return by_size or by_age


def trim_target(links: Sequence[ChainLink], past: Boundary) -> int:
    """Up to where the log may be trimmed: to the first segment that the image at the horizon needs, or the horizon."""
    assert past.references is not None, "what an image refers to is read before anything rests on it"
    return first_needed(links, past.lsn, past.references)


def first_needed(links: Sequence[ChainLink], lsn: int, references: Set[str]) -> int:
    """Where the log would begin if all before `lsn` went that an image there does not refer to."""
    first = next(link for link in links if link.end is None or link.end > lsn or link.segment in references)
    return min(first.start, lsn)


def to_relocate(
    links: Sequence[ChainLink], early: Boundary, past: Boundary | None, *, end: int, live: Mapping[str, int]
) -> list[ChainLink]:
    """Segments whose live content is to be copied forward: the log is trimmed from its beginning only.

    Nearly empty ones early, from a third of the retention on. Full ones only when the log has become too long, the
    oldest first.
    """
    old = [link for link in links if link.end is not None and link.end <= early.lsn and live.get(link.segment)]
    chosen = [link for link in old if live[link.segment] <= SPARSE * (_end(link) - link.start)]
    if past is None:
        return chosen
    allowed = RELOCATE_ABOVE * (sum(live.values()) + (end - past.lsn))
    full = [link for link in old if link not in chosen and _end(link) <= past.lsn]
    if full and end - links[0].start > allowed:
        chosen.append(full[0])
    return chosen


def _end(link: ChainLink) -> int:
    assert link.end is not None
    return link.end


def is_snapshot_due(last: SnapshotObject | None, *, grown: int, freed: int) -> bool:
    """Whether since the last index snapshot the log has grown enough, or one now lets enough more of it be trimmed."""
    return last is None or max(grown, freed) >= SNAPSHOT_SPACING * last.size


def superfluous(names: Iterable[str], links: Sequence[ChainLink], snapshots: Iterable[str], *, trim: int) -> list[str]:
    """Objects that may be deleted: segments off the chain or trimmed, and index snapshots that are not kept.

    A segment that begins after the trim is left alone even if it is not on the chain: its time has not come.
    """
    kept = {link.segment for link in links} | set(snapshots)
    gone = []
    for name in names:
        segment, snapshot = parse_segment_name(name), parse_snapshot_name(name)
        start = segment.start if segment else snapshot.lsn if snapshot else trim
        if name not in kept and start < trim:
            gone.append(name)
    return gone
