"""Which segments count, and where the log ends."""

from __future__ import annotations

import pytest

from journal.errors import DamagedJournalError, JournalCode
from journal.records.chain_rules import (
    END,
    Base,
    ChainLink,
    RecordView,
    SegmentFacts,
    Sight,
    chain_of,
    newest,
    next_record,
)
from journal.records.membership import Membership
from tests.journal.records.test_membership import configuration, member


def facts(name: str, epoch: int, start: int, base: Base | None, *, trim: int = 0) -> SegmentFacts:
    return SegmentFacts(
        name=name, epoch=epoch, holder=name.encode(), start=start, trim=trim, base=base,
        membership=Membership(configuration=configuration("ABC")), granted=frozenset({member("A")}),
    )  # fmt: skip


BIRTH = facts("s0", 1, 0, None)
SECOND = facts("s1", 1, 100, Base(segment="s0", end=100, chain=b"c100"))
OTHER = facts("other", 2, 60, Base(segment="s0", end=60, chain=b"c60"))


def test_the_highest_epoch_is_the_newest_however_short() -> None:
    assert newest([BIRTH, SECOND, OTHER]) is OTHER


def test_back_links_say_how_much_of_each_segment_counts() -> None:
    assert chain_of([SECOND, BIRTH]) == (
        ChainLink(segment="s0", start=0, end=100),
        ChainLink(segment="s1", start=100, end=None),
    )
    assert chain_of([SECOND, OTHER, BIRTH])[0] == ChainLink(segment="s0", start=0, end=60)


def test_a_base_that_nobody_has_is_lost() -> None:
    with pytest.raises(DamagedJournalError, match="LOST") as caught:
        chain_of([SECOND])
    assert caught.value.code is JournalCode.LOST


def test_what_was_trimmed_is_not_missed() -> None:
    third = facts("s2", 1, 200, Base(segment="s1", end=200, chain=b"c200"), trim=100)
    assert [link.segment for link in chain_of([third, SECOND])] == ["s1", "s2"]


def whole(chain: bytes) -> RecordView:
    return RecordView(sight=Sight.WHOLE, end=20, chain=chain)


TORN, DAMAGED = RecordView(sight=Sight.TORN), RecordView(sight=Sight.DAMAGED)


@pytest.mark.parametrize("others", [[], [END], [TORN], [DAMAGED], [DAMAGED, END, TORN]])
def test_a_record_that_one_copy_has_whole_counts(others: list[RecordView]) -> None:
    assert next_record(10, [*others, whole(b"a")]) == whole(b"a")
    assert next_record(10, [whole(b"a"), *others]) == whole(b"a")


@pytest.mark.parametrize("views", [[], [END], [TORN, END], [TORN, TORN]])
def test_where_every_copy_ends_the_log_ends(views: list[RecordView]) -> None:
    assert next_record(10, views) == END


@pytest.mark.parametrize("views", [[DAMAGED], [END, DAMAGED], [DAMAGED, TORN]])
def test_damage_that_nobody_can_fill_is_lost_and_no_tail(views: list[RecordView]) -> None:
    with pytest.raises(DamagedJournalError, match="LOST"):
        next_record(10, views)


def test_two_histories_at_one_place_are_refused() -> None:
    with pytest.raises(DamagedJournalError, match="different records"):
        next_record(10, [whole(b"a"), whole(b"b")])
