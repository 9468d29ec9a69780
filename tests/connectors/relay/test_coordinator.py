"""What the exploration of small worlds does not come to: sinks that say what no sink should."""

from __future__ import annotations

from connectors.relay.coordinator import (
    ASKS_MAX,
    AskUncommitted,
    Coordinator,
    Drop,
    EndTransaction,
    Failed,
    Prepare,
    Stray,
)


def settled(*, commits: tuple[tuple[str, int], ...] = ()) -> Coordinator:
    coordinator = Coordinator("q", generation=3, offsets=[70], commits=commits)
    assert coordinator.connected(0) == [AskUncommitted(0, 1)]
    return coordinator


def test_transactions_of_others_are_left_alone() -> None:
    coordinator = settled()
    assert coordinator.listed(0, 1, ["another:1:1.1", "something", "q:x:1.1", "q:1:1"]) == []
    assert coordinator.begin(0, refusals_max=1) == [Prepare(0, "q:0:3.1", 70)]


def test_an_answer_to_another_question_is_not_believed() -> None:
    coordinator = settled()
    assert coordinator.listed(0, 0, []) == []
    assert coordinator.begin(0, refusals_max=1) == []


def test_a_sink_that_lists_what_was_ended_gets_another_connection() -> None:
    coordinator = settled(commits=(("q:4:2.1", 4),))
    for tag in range(1, ASKS_MAX):
        assert coordinator.listed(0, tag, ["q:4:2.1"]) == [
            EndTransaction(0, "q:4:2.1", commit=True),
            AskUncommitted(0, tag + 1),
        ]
    assert coordinator.listed(0, ASKS_MAX, ["q:4:2.1"]) == [Drop(0, "it still lists q:4:2.1, which was ended")]
    assert coordinator.connected(0) == [AskUncommitted(0, ASKS_MAX + 1)]


def test_what_is_older_than_the_memory_of_decisions_is_not_ended() -> None:
    coordinator = settled(commits=(("q:4:2.1", 4), ("q:5:2.2", 5)))
    assert coordinator.listed(0, 1, ["q:3:1.1"]) == [Stray(0, "q:3:1.1")]


def test_what_a_later_relay_has_prepared_is_not_ended() -> None:
    assert settled().listed(0, 1, ["q:3:4.1"]) == [Stray(0, "q:3:4.1")]


def test_what_a_lost_connection_said_late_is_passed_over() -> None:
    coordinator = settled()
    coordinator.listed(0, 1, [])
    coordinator.begin(0, refusals_max=1)
    coordinator.lost(0)
    assert coordinator.prepared(0, "q:0:3.1", 80) == []
    assert coordinator.voted(0, "q:0:3.1", commit=True) == []
    assert coordinator.listed(0, 1, []) == []


def test_the_sink_that_refuses_is_named() -> None:
    coordinator = settled()
    coordinator.listed(0, 1, [])
    coordinator.begin(0, refusals_max=1)
    coordinator.prepared(0, "q:0:3.1", 80)
    assert coordinator.voted(0, "q:0:3.1", commit=False) == [
        EndTransaction(0, "q:0:3.1", commit=False),
        AskUncommitted(0, 2),
    ]
    assert coordinator.listed(0, 2, []) == [Failed(0, 0)]
    assert coordinator.begin(0, refusals_max=1) == [Prepare(0, "q:0:3.2", 70)]


def test_a_batch_is_confirmed_by_all_though_one_is_lost_again() -> None:
    coordinator = Coordinator("q", generation=1, offsets=[0, 0])
    for sink in (0, 1):
        coordinator.connected(sink)
        coordinator.listed(sink, sink + 1, [])
    coordinator.begin(0, refusals_max=1)
    for sink in (0, 1):
        coordinator.prepared(sink, "q:0:1.1", 5)
        coordinator.voted(sink, "q:0:1.1", commit=True)
    assert len(coordinator.decided()) == 4
    assert coordinator.listed(0, 3, []) == []
    assert coordinator.lost(0) == []
    assert len(coordinator.listed(1, 4, [])) == 1
    assert coordinator.begin(1, refusals_max=1) == []
