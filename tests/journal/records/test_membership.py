"""Quorums and changes of members."""

from __future__ import annotations

import pytest

from journal.records.membership import (
    Configuration,
    Member,
    Membership,
    can_change,
    fence_quorum,
    is_durable,
    is_fenced,
    majority,
    with_member,
    with_member_replaced,
    without_member,
)


def member(name: str, incarnation: str = "1") -> Member:
    return Member(identity=name.encode(), incarnation=incarnation.encode(), address=f"{name}:7400")


def configuration(names: str, acknowledgements: int | None = None) -> Configuration:
    members = tuple(member(name) for name in names)
    return Configuration(members=members, acknowledgements=acknowledgements or majority(len(names)))


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (15, 8)])
def test_the_default_is_a_majority(count: int, expected: int) -> None:
    assert majority(count) == expected


@pytest.mark.parametrize("count", range(1, 16))
def test_a_fence_quorum_meets_every_set_that_acknowledged(count: int) -> None:
    members = tuple(member(chr(65 + number)) for number in range(count))
    for acknowledgements in range(majority(count), count + 1):
        one = Configuration(members=members, acknowledgements=acknowledgements)
        assert fence_quorum(one) + acknowledgements == count + 1


@pytest.mark.parametrize(("names", "acknowledgements"), [("", 1), ("ABC", 1), ("ABC", 4), ("AB", 1), ("A" * 2, 2)])
def test_what_is_no_configuration(names: str, acknowledgements: int) -> None:
    with pytest.raises(ValueError, match=r"members|majority|server"):
        Configuration(members=tuple(member(name) for name in names), acknowledgements=acknowledgements)


def test_the_same_server_with_a_new_namespace_is_another_member() -> None:
    assert member("A") != member("A", "2")
    assert member("A") == Member(identity=b"A", incarnation=b"1", address="elsewhere:1")
    assert str(member("A")) == "A:7400"
    assert str(Member(identity=b"\xab", incarnation=b"1")) == "ab"


def test_while_members_change_both_configurations_have_a_say() -> None:
    both = Membership(configuration=configuration("BCD"), replaces=configuration("ABC"))
    assert [one.address[0] for one in both.members] == ["A", "B", "C", "D"]
    assert is_durable(both, [member("B"), member("C")])
    assert not is_durable(both, [member("A"), member("B")])  # only one of the new
    assert not is_fenced(both, [member("C"), member("D")])  # only one of the old
    assert is_fenced(Membership(configuration=configuration("BCD")), [member("C"), member("D"), member("X")])


def test_one_member_at_a_time() -> None:
    old = configuration("ABC")
    assert can_change(old, configuration("ABCD"))
    assert can_change(old, configuration("AB"))
    assert can_change(old, configuration("ABD"))
    assert not can_change(old, configuration("ADE"))
    assert not can_change(old, old)


def test_acknowledgements_follow_the_number_of_members() -> None:
    assert with_member(configuration("ABC"), member("D")).acknowledgements == 3
    assert without_member(configuration("ABC"), member("C")).acknowledgements == 2
    assert with_member_replaced(configuration("ABC"), member("C"), member("D")) == configuration("ABD")
    everybody = configuration("ABC", 3)
    assert with_member(everybody, member("D")).acknowledgements == 3
    assert without_member(everybody, member("C")).acknowledgements == 2


def test_only_members_can_leave() -> None:
    with pytest.raises(ValueError, match="not a member"):
        without_member(configuration("AB"), member("C"))
    with pytest.raises(ValueError, match="not a member"):
        with_member_replaced(configuration("AB"), member("C"), member("D"))
