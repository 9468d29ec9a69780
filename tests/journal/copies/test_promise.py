"""Whether a volume keeps its promise, from what was found on its members."""

from __future__ import annotations

import itertools

import pytest

from journal.copies.promise import Holding, Verdict, is_proven, judge
from journal.records.membership import Member, Membership, fence_quorum
from journal.records.segment import EPOCH_MAX
from tests.journal.records.test_membership import configuration, member


def holdings(whole: str, broken: str = "", *, epochs: dict[str, int] | None = None) -> list[Holding]:
    found = epochs or {}
    return [
        Holding(member=member(name), epoch=found.get(name, 1), lacks=() if name in whole else ("all of it",))
        for name in whole + broken
    ]


@pytest.mark.parametrize(("names", "acknowledgements"), [("A", 1), ("AB", 2), ("ABC", 2), ("ABC", 3), ("ABCDE", 3)])
def test_it_is_well_exactly_if_any_that_are_left_have_a_whole_one_among_them(names: str, acknowledgements: int) -> None:
    who = Membership(configuration=configuration(names, acknowledgements))
    for count in range(len(names) + 1):
        for whole in itertools.combinations(names, count):
            left = fence_quorum(who.configuration)
            survives = all(set(rest) & set(whole) for rest in itertools.combinations(names, left))
            found = judge(who, epoch=1, holdings=holdings("".join(whole), "".join(set(names) - set(whole))))
            assert (not found) == survives
            assert all(one.verdict is Verdict.FAILURE for one in found)


def test_a_member_that_was_not_read_is_not_whole() -> None:
    assert judge(Membership(configuration=configuration("ABC")), epoch=1, holdings=holdings("A"))


def test_a_change_that_has_not_come_to_its_end_is_said_and_asks_for_both() -> None:
    who = Membership(configuration=configuration("ABD"), replaces=configuration("ABC"))
    (finding,) = judge(who, epoch=1, holdings=holdings("ABCD"))
    assert finding.verdict is Verdict.WARNING
    assert "has not come to its end" in finding.what
    assert judge(who, epoch=1, holdings=holdings("BCD", "A"))[0].verdict is Verdict.WARNING
    assert judge(who, epoch=1, holdings=holdings("AC", "BD"))[0].verdict is Verdict.FAILURE


def test_a_claim_since_the_owners_is_said() -> None:
    who = Membership(configuration=configuration("ABC"))
    (one,) = judge(who, epoch=3, holdings=holdings("ABC", epochs={"A": 3, "B": 3, "C": 4}))
    assert one.verdict is Verdict.WARNING
    assert "C:7400 (epoch 4); the owner goes on without" in one.what
    (two,) = judge(who, epoch=3, holdings=holdings("ABC", epochs={"A": 3, "B": 9, "C": 4}))
    assert two.verdict is Verdict.FAILURE
    assert "B:7400 (epoch 9), C:7400 (epoch 4); the owner is fenced" in two.what
    (last,) = judge(who, epoch=3, holdings=holdings("ABC", epochs={"A": 3, "B": 3, "C": EPOCH_MAX}))
    assert "replace it" in last.what


def test_a_header_is_proven_by_k_in_each_configuration() -> None:
    def on(names: str) -> list[Member]:
        return [member(name) for name in names]

    who = Membership(configuration=configuration("ABD"), replaces=configuration("ABC"))
    assert is_proven(who, on("AB"))
    assert not is_proven(who, on("AD"))
