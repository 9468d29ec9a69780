"""Takeover step by step: whom it asks for what, and what it says when it cannot go on. (All orders: exploration/.)"""

from __future__ import annotations

import dataclasses

import pytest

from journal.errors import JournalCode
from journal.records.chain_rules import Base, SegmentFacts
from journal.records.membership import Configuration, Member, Membership
from journal.records.record import Epoch, Lsn
from journal.records.segment import EPOCH_MAX, SegmentName
from journal.takeover.messages import (
    Ask,
    Assemble,
    Assembled,
    Extend,
    Extended,
    Failing,
    FenceMember,
    Full,
    Gone,
    Granted,
    NotAssembled,
    Overtaken,
    Read,
    Reason,
    Request,
    Silent,
    Told,
    Write,
    Written,
)
from journal.takeover.takeover import Phase, Takeover
from journal.takeover.wording import given_up, meaning_of, refusal_of
from sos_client.wire.errors import ErrorCode, RefusedError
from tests.journal.records.test_membership import configuration, member

A, B, C, D = (member(name) for name in "ABCD")
HOLDER = b"h" * 16


def birth(members: Configuration | None = None) -> SegmentFacts:
    who = members or configuration("ABC")
    return SegmentFacts(
        name=str(SegmentName(start=Lsn(0), epoch=Epoch(1), holder=bytes(16))), epoch=1, holder=bytes(16), start=0,
        trim=0, base=None, membership=Membership(configuration=who), granted=frozenset(who.members),
    )  # fmt: skip


BIRTH = birth()
END = Base(segment=BIRTH.name, end=100, chain=b"c" * 8)


def told(who: Member, epoch: int = 1, facts: SegmentFacts | None = BIRTH) -> Told:
    return Told(member=who, epoch=epoch, facts=frozenset({facts} if facts else ()))


def begin(*known: Member, change: Configuration | None = None, accept_loss: bool = False) -> Takeover:
    return Takeover(holder=HOLDER, known=frozenset(known), change=change, accept_loss=accept_loss)


def fencing() -> Takeover:
    state = begin(A, B, C)
    for who in (A, B, C):
        state = state.receive(told(who))
    return state


def assembling() -> Takeover:
    state = fencing()
    for who in (A, B, C):
        state = state.receive(Granted(member=who)).receive(told(who, 2))
    return state


def requests(*wanted: Request) -> frozenset[Request]:
    return frozenset(wanted)


def test_the_whole_way() -> None:
    state = begin(A)
    assert state.requests() == requests(Ask(member=A))
    state = state.receive(told(A))  # its header names the others
    assert state.requests() == requests(Ask(member=B), Ask(member=C))
    state = state.receive(told(B)).receive(Silent(member=C))
    assert state.requests() == requests(FenceMember(member=A, epoch=2), FenceMember(member=B, epoch=2))
    state = state.receive(Granted(member=A))
    assert state.requests() == requests(Read(member=A), FenceMember(member=B, epoch=2))
    state = state.receive(told(A, 2)).receive(Granted(member=B)).receive(told(B, 2))
    assert state.requests() == requests(Assemble(facts=frozenset({BIRTH}), members=frozenset({A, B})))
    state = state.receive(Assembled(end=END))
    assert state.requests() == requests(Extend(member=A, end=END), Extend(member=B, end=END))
    state = state.receive(Extended(member=A)).receive(Extended(member=B))
    header = state.header
    assert header is not None
    assert (header.epoch, header.holder, header.base, header.start) == (2, HOLDER, END, 100)
    assert header.granted == {A, B}
    assert state.requests() == requests(Write(member=A, facts=header), Write(member=B, facts=header))
    after = Base(segment=header.name, end=200, chain=b"d" * 8)
    state = state.receive(Written(member=A, end=after))
    assert state.phase is Phase.WRITING
    state = state.receive(Written(member=B, end=after))
    assert state.phase is Phase.SERVING
    assert state.requests() == frozenset()
    assert state.receive(Silent(member=A)) is state


def test_the_epoch_is_above_every_claim_and_header() -> None:
    state = begin(A, B, C).receive(told(A, 5)).receive(told(B)).receive(told(C, 3))
    assert state.epoch == 6


def test_too_few_members_answer() -> None:
    state = begin(A, B, C).receive(told(A)).receive(Silent(member=B)).receive(Gone(member=C))
    assert state.phase is Phase.REFUSED
    assert state.refusal is not None
    assert state.refusal.reason is Reason.MISSING
    assert state.refusal.missing == {B}
    assert state.refusal.lost == {C}


def test_nobody_has_a_header() -> None:
    state = begin(A, B).receive(told(A, 0, None)).receive(told(B, 0, None))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.NO_HEADER
    state = begin(A, B).receive(told(A, 0, None)).receive(Silent(member=B))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.MISSING
    assert state.refusal.missing == {B}


def test_a_member_with_an_older_claim_than_it_granted_is_lost() -> None:
    state = begin(A, B, C).receive(told(A)).receive(Silent(member=B)).receive(told(C, 0))
    assert state.refusal is not None
    assert state.refusal.lost == {C}


def test_somebody_else_is_quicker() -> None:
    state = fencing().receive(Granted(member=A)).receive(told(A, 2))
    state = state.receive(Overtaken(member=B, epoch=2)).receive(Overtaken(member=C, epoch=2))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.OVERTAKEN


def test_what_somebody_else_has_claimed_since_is_left_to_them() -> None:
    for unless_above, phase in ((2, Phase.REFUSED), (3, Phase.FENCING)):
        state = dataclasses.replace(begin(A, B, C), unless_above=unless_above)
        for who, epoch in ((A, 2), (B, 3), (C, 2)):
            state = state.receive(told(who, epoch))
        assert state.phase is phase
        assert state.epoch == (0 if phase is Phase.REFUSED else 4), "nobody was claimed"
    assert state.refusal is None


def test_a_member_that_was_claimed_by_somebody_newer_before_it_was_read_does_not_count() -> None:
    state = fencing()
    for who in (A, B, C):
        state = state.receive(Granted(member=who)).receive(told(who, 3 if who != A else 2))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.OVERTAKEN


def test_one_refusal_is_no_obstacle() -> None:
    state = assembling().receive(Assembled(end=END)).receive(Extended(member=A)).receive(Overtaken(member=B, epoch=9))
    state = state.receive(Extended(member=C))
    assert state.phase is Phase.WRITING
    state = state.receive(Overtaken(member=A, epoch=9)).receive(Silent(member=C))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.OVERTAKEN


def test_a_header_read_on_the_way_that_names_others_starts_it_over() -> None:
    newer = dataclasses.replace(
        birth(configuration("BCD")), name="newer", epoch=2, start=100, base=END, holder=b"x" * 16
    )
    state = fencing().receive(Granted(member=B)).receive(told(B, 2, newer))
    assert state.phase is Phase.ASKING
    assert state.requests() == requests(*(Ask(member=who) for who in (A, B, C, D)))
    for who in (A, B, C, D):
        state = state.receive(told(who, 2, newer))
    assert state.epoch == 3
    assert state.requests() == requests(*(FenceMember(member=who, epoch=3) for who in (B, C, D)))


def test_a_copy_that_falls_silent_is_counted_no_more() -> None:
    state = assembling().receive(Silent(member=A))
    assert state.requests() == requests(Assemble(facts=frozenset({BIRTH}), members=frozenset({B, C})))
    state = state.receive(Gone(member=B))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.MISSING


def test_lost_records_are_named() -> None:
    state = assembling().receive(NotAssembled(lsn=50, reason="LOST: nobody has it"))
    assert state.refusal is not None
    assert (state.refusal.reason, state.refusal.lsn) == (Reason.LOST, 50)


def test_a_header_that_is_damaged_everywhere_is_lost() -> None:
    name = SegmentName(start=Lsn(100), epoch=Epoch(2), holder=b"x" * 16)
    state = fencing()
    for who in (A, B, C):
        damaged = dataclasses.replace(told(who, 2), damaged=frozenset({name}))
        state = state.receive(Granted(member=who)).receive(damaged)
    assert state.refusal is not None
    assert (state.refusal.reason, state.refusal.lsn) == (Reason.LOST, 100)


def test_a_birth_cut_short_whose_only_header_is_away() -> None:
    state = begin(A, B, C).receive(told(A)).receive(told(B, 1, None)).receive(told(C, 1, None))
    state = state.receive(Silent(member=A))
    for who in (B, C):
        state = state.receive(Granted(member=who)).receive(told(who, 2, None))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.MISSING
    assert state.refusal.missing == {A}


def test_a_change_of_members_is_proven_in_both_configurations() -> None:
    state = begin(A, B, C, D, change=configuration("BCD"))
    for who in (A, B, C):
        state = state.receive(told(who))
    state = state.receive(told(D, 0, None))
    for who in (A, B, C, D):
        state = state.receive(Granted(member=who)).receive(told(who, 2, BIRTH if who != D else None))
    state = state.receive(Assembled(end=END))
    state = state.receive(Extended(member=A)).receive(Extended(member=B))
    assert state.phase is Phase.EXTENDING  # two of the old, one of the new
    state = state.receive(Extended(member=D))
    header = state.header
    assert header is not None
    assert header.membership == Membership(configuration=configuration("BCD"), replaces=configuration("ABC"))
    after = Base(segment=header.name, end=200, chain=b"d" * 8)
    for who in (A, B, D):
        state = state.receive(Written(member=who, end=after))
    assert state.phase is Phase.SETTLING
    second = state.header
    assert second is not None
    assert second.membership == Membership(configuration=configuration("BCD"))
    assert second.base == after
    wanted = requests(Write(member=B, facts=second), Write(member=D, facts=second), Extend(member=C, end=after))
    assert state.requests() == wanted  # A is a member no more
    for who in (B, D):
        state = state.receive(Written(member=who, end=dataclasses.replace(after, end=300)))
    assert state.phase is Phase.SERVING


@pytest.mark.parametrize("names", ["ADE", "ABC"])
def test_members_change_one_at_a_time(names: str) -> None:
    wish = configuration(names)
    state = begin(*{A, B, C, *wish.members}, change=wish)
    for who in sorted(state.known):
        state = state.receive(told(who) if who in (A, B, C) else told(who, 0, None))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.CHANGE


def test_a_change_that_was_cut_short_is_completed_and_no_other_is_begun() -> None:
    both = Membership(configuration=configuration("BCD"), replaces=configuration("ABC"))
    header = dataclasses.replace(BIRTH, name="joint", epoch=2, start=100, base=END, membership=both)
    state = begin(A)
    for who in (A, B, C, D):
        state = state.receive(told(who, 2, header))
    assert state.membership == both
    state = begin(A, change=configuration("AB"))
    for who in (A, B, C, D):
        state = state.receive(told(who, 2, header))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.CHANGE


def test_with_accepted_loss_whoever_answers_goes_on() -> None:
    state = begin(A, B, C, accept_loss=True).receive(told(A, 0)).receive(Silent(member=B)).receive(Gone(member=C))
    assert state.survivors == configuration("A")
    name = SegmentName(start=Lsn(100), epoch=Epoch(2), holder=b"x" * 16)
    state = state.receive(Granted(member=A))
    state = state.receive(dataclasses.replace(told(A, 2), damaged=frozenset({name})))
    assert state.phase is Phase.ASSEMBLING
    nobody = begin(A, B, accept_loss=True).receive(told(B, 0, birth(configuration("A")))).receive(Silent(member=A))
    assert nobody.refusal is not None
    assert nobody.refusal.reason is Reason.MISSING


def test_members_without_room_are_not_called_silent() -> None:
    state = assembling().receive(Assembled(end=END)).receive(Extended(member=A))
    state = state.receive(Full(member=B)).receive(Full(member=C))
    assert state.refusal is not None
    assert state.refusal.full == {B, C}
    assert not state.refusal.missing
    error = refusal_of("payments", state)
    assert error.code is JournalCode.NO_SPACE
    assert "full: B:7400, C:7400" in error.message
    assert "reserve_bytes" in error.message
    assert meaning_of(Ask(member=A), RefusedError(ErrorCode.NO_SPACE, free=0)) == Full(member=A)
    assert meaning_of(Ask(member=A), RefusedError(ErrorCode.QUOTA, used=1, quota=1)) == Full(member=A)


def test_members_whose_disks_fail_are_not_called_silent() -> None:
    failed = RefusedError(ErrorCode.IO_ERROR, reason="the store needs a restart")
    assert meaning_of(Ask(member=B), failed) == Failing(member=B)
    state = begin(A, B, C).receive(told(A, 1)).receive(Failing(member=B)).receive(Silent(member=C))
    assert state.refusal is not None
    assert state.refusal.missing == {B, C}, "both may come back"
    error = refusal_of("payments", state)
    assert error.code is JournalCode.UNAVAILABLE
    assert "not answering: C:7400; disk fails: B:7400" in error.message
    assert "restart" in error.message


def test_a_member_that_was_claimed_for_ever_takes_no_part_and_spoils_no_epoch() -> None:
    state = begin(A, B, C)
    for who, epoch in ((A, 1), (B, 2**63 - 1), (C, 3)):
        state = state.receive(told(who, epoch))
    assert state.phase is Phase.FENCING
    assert state.epoch == 4
    assert {request.member for request in state.requests() if isinstance(request, FenceMember)} == {A, C}


def test_too_many_members_that_were_claimed_for_ever_are_named() -> None:
    state = begin(A, B, C)
    for who, epoch in ((A, 1), (B, 2**63 - 1), (C, EPOCH_MAX)):
        state = state.receive(told(who, epoch))
    assert state.refusal is not None
    assert state.refusal.spent == {B, C}
    error = refusal_of("payments", state)
    assert error.code is JournalCode.UNAVAILABLE
    assert "claimed for ever: B:7400, C:7400" in error.message
    assert "never be written again" in error.message


def test_members_whose_clocks_hold_a_claim_back_are_not_somebody_else() -> None:
    state = begin(A, B, C)
    for who, epoch in ((A, 2000), (B, 1), (C, 1)):
        state = state.receive(told(who, epoch))
    state = state.receive(Granted(member=A)).receive(told(A, 2001))
    for who in (B, C):
        refusal = RefusedError(ErrorCode.STALE_EPOCH, epoch=1, holder=b"")
        state = state.receive(meaning_of(FenceMember(member=who, epoch=2001), refusal))
    assert state.refusal is not None
    assert state.refusal.early == {B, C}
    error = refusal_of("payments", state)
    assert error.code is JournalCode.UNAVAILABLE
    assert "not ready for epoch 2001: B:7400, C:7400" in error.message
    assert "clocks" in error.message
    newer = RefusedError(ErrorCode.STALE_EPOCH, epoch=2001, holder=b"")
    assert meaning_of(FenceMember(member=B, epoch=2001), newer) == Overtaken(member=B, epoch=2001)
    assert meaning_of(Ask(member=B), refusal) == Overtaken(member=B, epoch=1)


def in_doubt(*doubtful: Member, silent: frozenset[Member] = frozenset()) -> Takeover:
    """All have granted and were read; the servers of some call the newest segment damaged."""
    state = begin(A, B, C)
    for who in (A, B, C):
        state = state.receive(Silent(member=who) if who in silent else told(who))
    for who in (A, B, C):
        if who not in silent:
            segment = SegmentName(start=Lsn(0), epoch=Epoch(1), holder=bytes(16))
            segments = frozenset({segment} if who in doubtful else ())
            state = state.receive(Granted(member=who)).receive(dataclasses.replace(told(who, 2), doubtful=segments))
    return state


def test_a_member_that_may_have_lost_its_end_helps_and_is_not_counted() -> None:
    state = in_doubt(A)
    assert state.requests() == requests(Assemble(facts=frozenset({BIRTH}), members=frozenset({A, B, C})))
    state = state.receive(Silent(member=B))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.MISSING  # B may come back
    assert state.refusal.missing == {B}
    assert state.refusal.doubtful == {A}
    assert "--accept-loss" in str(refusal_of("v", state))


def test_too_many_that_may_have_lost_their_end() -> None:
    state = in_doubt(A, B)
    assert state.refusal is not None
    assert state.refusal.reason is Reason.LOST
    assert state.refusal.doubtful == {A, B}
    error = refusal_of("v", state)
    assert error.code is JournalCode.LOST
    assert "--accept-loss" in error.message
    assert str(A) in error.message
    state = in_doubt(A, silent=frozenset({C}))
    assert state.refusal is not None
    assert state.refusal.reason is Reason.MISSING
    assert state.refusal.missing == {C}


def test_a_member_that_lost_the_whole_newest_segment_is_not_counted_either() -> None:
    newer = dataclasses.replace(birth(), name=str(SegmentName(start=Lsn(100), epoch=Epoch(1), holder=bytes(16))),
                                start=100, base=END)  # fmt: skip
    older = SegmentName(start=Lsn(0), epoch=Epoch(1), holder=bytes(16))
    state = fencing()
    for who in (A, B, C):
        has = frozenset({BIRTH, newer}) if who == C else frozenset({BIRTH})
        read = Told(member=who, epoch=2, facts=has, doubtful=frozenset() if who == C else frozenset({older}))
        state = state.receive(Granted(member=who)).receive(read)
    assert state.refusal is not None
    assert state.refusal.reason is Reason.LOST
    assert state.refusal.doubtful == {A, B}


def test_who_accepts_loss_takes_the_ends_as_they_are() -> None:
    segment = SegmentName(start=Lsn(0), epoch=Epoch(1), holder=bytes(16))
    state = begin(A, accept_loss=True).receive(told(A)).receive(Silent(member=B)).receive(Gone(member=C))
    state = state.receive(Granted(member=A))
    state = state.receive(dataclasses.replace(told(A, 2), doubtful=frozenset({segment})))
    assert state.phase is Phase.ASSEMBLING
    assert "may have lost its end" in given_up(state)


def test_a_volume_whose_headers_are_all_damaged_is_lost_and_not_unfinished() -> None:
    damaged = frozenset({SegmentName(start=Lsn(0), epoch=Epoch(1), holder=bytes(16))})
    state = begin(A).receive(dataclasses.replace(told(A), facts=frozenset(), damaged=damaged))
    error = refusal_of("v", state)
    assert error.code is JournalCode.LOST
    assert "backup" in error.message
