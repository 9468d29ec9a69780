"""What may be forgotten, and when."""

from __future__ import annotations

import pytest

from journal.image.index_snapshot import SnapshotObject
from journal.kept_past import Retention
from journal.owner.retention import Boundary, horizon, is_snapshot_due, superfluous, to_relocate, trim_target
from journal.records.chain_rules import ChainLink


def boundary(lsn: int, *references: str, lived_ms: int = 0) -> Boundary:
    snapshot = SnapshotObject(name=f"at {lsn}", size=10)
    return Boundary(lsn=lsn, lived_ms=lived_ms, snapshot=snapshot, references=frozenset(references))


LINKS = [
    ChainLink(segment="s0", start=0, end=100),
    ChainLink(segment="s1", start=100, end=200),
    ChainLink(segment="s2", start=200, end=300),
    ChainLink(segment="s3", start=300, end=None),
]
BOUNDARIES = [boundary(100, lived_ms=1000), boundary(200, lived_ms=2000), boundary(300, lived_ms=3000)]
NONE = Retention(seconds=0, bytes=0)


@pytest.mark.parametrize(
    ("retention", "lived_ms", "expected"),
    [
        (NONE, 9_000_000, None),
        (Retention(seconds=0, bytes=150), 3000, 200),
        (Retention(seconds=0, bytes=1000), 3000, None),
        (Retention(seconds=5, bytes=0), 7500, 200),
        (Retention(seconds=5, bytes=1000), 9000, 300),  # whichever comes first
        (Retention(seconds=1000, bytes=250), 9000, 100),
    ],
)
def test_the_horizon_is_where_the_first_limit_is_reached(
    retention: Retention, lived_ms: int, expected: int | None
) -> None:
    past = horizon(BOUNDARIES, end=350, lived_ms=lived_ms, retention=retention, pinned=[])
    assert (past.lsn if past else None) == expected


def test_a_pin_holds_the_horizon_back() -> None:
    past = horizon(BOUNDARIES, end=350, lived_ms=0, retention=Retention(seconds=0, bytes=1), pinned=[250, 340])
    assert past is BOUNDARIES[1]
    assert horizon(BOUNDARIES, end=350, lived_ms=0, retention=Retention(seconds=0, bytes=1), pinned=[50]) is None


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        (boundary(200), 200),
        (boundary(200, "s0", "s1"), 0),
        (boundary(200, "s1"), 100),
        (boundary(200, "s2"), 200),
        (boundary(250), 200),  # the horizon lies inside a segment that is needed
        (boundary(300, "s3"), 300),
    ],
)
def test_the_log_is_trimmed_up_to_what_the_horizon_needs(past: Boundary, expected: int) -> None:
    assert trim_target(LINKS, past) == expected


def test_nearly_empty_segments_are_copied_forward_early_and_full_ones_only_when_it_pays() -> None:
    live = {"s0": 90, "s1": 20, "s3": 5}
    early = boundary(200)
    assert [link.segment for link in to_relocate(LINKS, early, None, end=350, live=live)] == ["s1"]
    assert [link.segment for link in to_relocate(LINKS, early, boundary(100), end=350, live=live)] == ["s1"]
    assert [link.segment for link in to_relocate(LINKS, early, boundary(100), end=600, live=live)] == ["s1"]
    assert [link.segment for link in to_relocate(LINKS, early, boundary(200), end=250, live=live)] == ["s1", "s0"]


def test_copying_forward_begins_before_the_horizon_comes() -> None:
    assert Retention(seconds=100, bytes=1).third == Retention(seconds=34, bytes=1)
    assert not NONE.third.is_limited


def test_snapshots_cost_a_bounded_part_of_the_log() -> None:
    assert is_snapshot_due(None, grown=0, freed=0)
    last = SnapshotObject(name="last", size=100)
    assert not is_snapshot_due(last, grown=399, freed=399)
    assert is_snapshot_due(last, grown=400, freed=0)
    assert is_snapshot_due(last, grown=0, freed=400)


def test_what_is_off_the_chain_goes_when_its_time_has_come() -> None:
    def segment(start: int, epoch: int) -> str:
        return f"{start:016x}-{epoch:08x}-{'0' * 32}.seg"

    def snapshot(lsn: int) -> str:
        return f"{lsn:016x}-00000001-{'0' * 16}.idx"

    kept = ChainLink(segment=segment(100, 1), start=100, end=None)
    names = [
        segment(0, 1), segment(50, 2), kept.segment, segment(150, 2), snapshot(40), snapshot(90), snapshot(170), "notes"
    ]  # fmt: skip
    gone = superfluous(names, [kept], [snapshot(90)], trim=120)
    assert gone == [segment(0, 1), segment(50, 2), snapshot(40)]
