"""What counts towards k, and when an owner has to stop."""

from __future__ import annotations

import pytest

from journal.image.index_snapshot import SnapshotObject
from journal.owner.replica_progress import ReplicaProgress, Standing
from journal.records.membership import Membership
from tests.journal.records.test_membership import configuration, member

A, B, C, D = (member(name) for name in "ABCD")


def progress(names: str = "ABC", acknowledgements: int | None = None) -> ReplicaProgress:
    return ReplicaProgress(Membership(configuration=configuration(names, acknowledgements)), trim=0)


def in_sync(one: ReplicaProgress, names: str, synced: int = 0) -> None:
    for name in names:
        one.found(member(name))
        one.caught_up(member(name), held_from=one.trim, synced=synced)


def test_the_kth_member_acknowledges() -> None:
    one = progress()
    in_sync(one, "ABC")
    assert not one.advanced(A, 50)
    assert one.acknowledged == 0
    assert one.advanced(C, 30)
    assert one.acknowledged == 30
    assert one.advanced(B, 70)
    assert one.acknowledged == 50


@pytest.mark.parametrize(("names", "acknowledgements", "expected"), [("A", 1, 9), ("ABC", 3, 7), ("ABCDE", 3, 7)])
def test_other_quorums(names: str, acknowledgements: int, expected: int) -> None:
    one = progress(names, acknowledgements)
    in_sync(one, names)
    for name, synced in zip(names, [9, 8, 7, 6, 5], strict=False):
        one.advanced(member(name), synced)
    assert one.acknowledged == expected


def test_a_member_that_is_being_filled_does_not_count() -> None:
    one = progress()
    in_sync(one, "A", 50)
    one.found(B)
    assert not one.advanced(B, 50)
    assert not one.has_quorum()
    one.caught_up(B, held_from=0, synced=50)
    assert one.acknowledged == 50


def test_a_copy_that_begins_too_late_does_not_count() -> None:
    one = progress()
    in_sync(one, "A", 50)
    one.caught_up(B, held_from=10, synced=50)
    assert one.acknowledged == 0
    in_sync(one, "C", 40)
    assert one.acknowledged == 40
    one.trimmed(20)
    assert one.has_quorum()
    assert one.advanced(B, 60)
    assert one.acknowledged == 50


def test_what_is_acknowledged_stays_so_when_contact_is_lost() -> None:
    one = progress()
    in_sync(one, "AB", 50)
    one.lost_contact(A)
    assert one.acknowledged == 50
    assert not one.advanced(B, 60)
    in_sync(one, "C", 55)
    assert one.acknowledged == 55


def test_one_stray_fence_stops_nobody_and_a_second_does() -> None:
    one = progress()
    in_sync(one, "ABC")
    assert not one.must_stop()
    one.fenced(A, epoch=7, holder=b"x")
    assert not one.must_stop()
    assert one.newest_claim() is one.members[A]
    one.fenced(B, epoch=8, holder=b"y")
    assert one.must_stop()
    assert one.newest_claim() is one.members[B]


def test_a_stray_fence_while_another_member_is_away_is_a_doubt_that_may_pass() -> None:
    one = progress()
    in_sync(one, "ABC")
    one.lost_contact(B)
    one.fenced(A, epoch=7, holder=b"x")
    assert not one.must_stop()
    assert one.is_in_doubt()
    in_sync(one, "B")
    assert not one.is_in_doubt()
    one.lost_contact(C)
    assert one.is_in_doubt()
    one.fenced(C, epoch=7, holder=b"x")
    assert one.must_stop()


def test_a_fenced_member_never_comes_back() -> None:
    one = progress()
    one.fenced(A, epoch=7, holder=b"x")
    one.found(A)
    one.lost_contact(A)
    one.caught_up(A, held_from=0, synced=99)
    assert one.members[A].standing is Standing.REMOVED
    assert not one.advanced(A, 99)


def test_members_that_are_away_stop_nobody() -> None:
    one = progress()
    in_sync(one, "ABC")
    for gone in (A, B, C):
        one.lost_contact(gone)
    assert not one.must_stop()
    assert one.newest_claim() is None


def test_how_many_members_may_still_go() -> None:
    one = progress("ABC")
    in_sync(one, "ABC")
    assert one.spare() == 1
    one.lost_contact(A)
    assert one.spare() == 0
    one.lost_contact(B)
    assert one.spare() == -1


def test_while_members_change_both_configurations_acknowledge() -> None:
    both = Membership(configuration=configuration("BCD"), replaces=configuration("ABC"))
    one = ReplicaProgress(both, trim=0)
    in_sync(one, "ABCD")
    one.advanced(A, 10)
    one.advanced(B, 10)
    assert one.acknowledged == 0
    one.advanced(D, 10)
    assert one.acknowledged == 10
    assert one.is_durable_on([A, B, D])
    assert not one.is_durable_on([A, B])


def snapshot(lsn: int) -> SnapshotObject:
    return SnapshotObject(name=f"{lsn:016x}-00000001-0000000000000000.idx", size=10)


def test_a_member_without_the_snapshot_that_stands_for_what_was_trimmed_does_not_count() -> None:
    one = progress()
    in_sync(one, "ABC", 50)
    one.keep(snapshot(10), [A, B])
    assert one.counting() == [A, B]
    assert one.missing_snapshots(C) == [snapshot(10).name]
    assert not one.advanced(C, 70)
    assert not one.advanced(A, 80)
    assert one.acknowledged == 50
    one.caught_up(C, held_from=0, synced=70, snapshots=frozenset({snapshot(10).name}))
    assert one.acknowledged == 70
    one.keep(snapshot(20), [C])
    assert not one.has_quorum()
    one.keep_only([snapshot(10).name, "never kept"])
    assert one.counting() == [A, B, C]


def test_what_a_trim_needs() -> None:
    one = progress()
    assert not one.may_trim(10)
    one.keep(snapshot(10), [])
    assert one.may_trim(10)
    assert not one.may_trim(9), "moments before the snapshot would be told from what was trimmed"
    assert not one.may_trim(11)


def test_a_snapshot_that_is_whole_nowhere_is_done_without_if_another_one_stands_for_the_same() -> None:
    one = progress()
    one.keep(snapshot(10), [])
    assert not one.drop(snapshot(10).name, trim=10)
    one.keep(snapshot(20), [])
    assert not one.drop(snapshot(20).name, trim=11)
    assert one.drop(snapshot(10).name, trim=10)
    assert list(one.snapshots) == [snapshot(20).name]
    assert one.drop(snapshot(20).name, trim=0), "everything is still in the log"


def test_a_member_that_comes_back_with_less_counts_for_what_it_has() -> None:
    one = progress()
    in_sync(one, "ABC", 50)
    one.lost_contact(C)
    one.found(C)
    one.caught_up(C, held_from=0, synced=20)
    one.lost_contact(B)
    one.advanced(A, 60)
    assert one.acknowledged == 50
    assert one.advanced(C, 60)
