"""One sentence for the question that matters, for each way in which members can stand."""

from __future__ import annotations

import pytest

from journal.web.outlook import BAD, DOUBTFUL, GOOD, Quorum, outlook, unknown


@pytest.mark.parametrize(
    ("members", "needed", "in_sync", "level", "may_lose", "begins"),
    [
        (3, 2, 3, GOOD, 1, "Yes: one more machine may be lost"),
        (5, 3, 5, GOOD, 2, "Yes: 2 more machines may be lost"),
        (5, 3, 4, DOUBTFUL, 1, "Yes: one more machine may be lost, and batches go on. 1 of 5 is not in sync now."),
        (7, 4, 5, DOUBTFUL, 1, "Yes: one more machine may be lost, and batches go on. 2 of 7 are not in sync now."),
        (3, 2, 2, DOUBTFUL, 0, "Not without a pause: 2 of 3 machines are in sync and 2 must be."),
        (3, 2, 1, BAD, -1, "No: batches wait. 1 of 3 machines is in sync, and 2 must be."),
        (3, 2, 0, BAD, -2, "No: batches wait. 0 of 3 machines are in sync"),
        (1, 1, 1, DOUBTFUL, 0, "No: there is only one copy."),
        (1, 1, 0, BAD, -1, "No: batches wait."),
        (3, 1, 1, DOUBTFUL, 0, "No: one of 3 machines is in sync, and nothing else is asked for."),
    ],
)
def test_each_way_to_stand(members: int, needed: int, in_sync: int, level: str, may_lose: int, begins: str) -> None:
    found = outlook([Quorum(members=members, needed=needed, in_sync=in_sync)])
    assert (found.level, found.may_lose) == (level, may_lose)
    assert found.sentence.startswith(begins)
    assert found.as_json() == {"level": level, "sentence": found.sentence, "may_lose": may_lose}


def test_of_two_configurations_the_worse_one_counts() -> None:
    good, worse = Quorum(members=3, needed=2, in_sync=3), Quorum(members=3, needed=2, in_sync=1)
    assert outlook([good, worse]) == outlook([worse])


def test_what_waits_for_long_is_not_well_whatever_members_say() -> None:
    good = Quorum(members=3, needed=2, in_sync=3)
    assert outlook([good], stuck_seconds=1.9).level == GOOD
    stuck = outlook([good], stuck_seconds=7.2)
    assert (stuck.level, stuck.sentence) == (
        BAD, "No: batches wait. What was written 7 s ago is not acknowledged yet."
    )  # fmt: skip


def test_nobody_here_can_tell() -> None:
    assert unknown("it is being taken over").as_json() == {
        "level": BAD, "sentence": "it is being taken over", "may_lose": -1
    }  # fmt: skip
