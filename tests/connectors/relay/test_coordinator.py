"""What the exploration of small worlds does not come to: sinks that say what no sink should."""

from __future__ import annotations

from connectors.relay.coordinator import (
    ASKS_MAX,
    AskUncommitted,
    Coordinator,
    Drop,
    EndTransaction,
    Failed,
    Finished,
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


def test_a_batch_that_cannot_be_read_fails_at_once() -> None:
    """Wherever it is: before it begins, while rows are sent, while votes come in; a decision is not undone."""
    waiting = settled()
    assert waiting.give_up() == []
    waiting.begin(0, refusals_max=1)
    assert waiting.give_up() == [Failed(0, None)]
    sending = settled()
    sending.listed(0, 1, [])
    sending.begin(0, refusals_max=1)
    reason = "the transaction was aborted while rows were on their way"
    assert sending.give_up() == [Drop(0, reason), Failed(0, None)]
    deciding = settled()
    deciding.listed(0, 1, [])
    deciding.begin(0, refusals_max=1)
    deciding.prepared(0, "q:0:3.1", 80)
    deciding.voted(0, "q:0:3.1", commit=True)
    assert deciding.give_up() == []


def test_rows_can_begin_after_what_a_sink_has() -> None:
    coordinator = settled()
    coordinator.move(0, 500)
    coordinator.listed(0, 1, [])
    assert coordinator.begin(0, refusals_max=1) == [Prepare(0, "q:0:3.1", 500)]


def test_a_sink_that_comes_back_while_the_decision_is_made_waits_for_it() -> None:
    coordinator = Coordinator("q", generation=1, offsets=[0])
    coordinator.connected(0)
    coordinator.listed(0, 1, [])
    coordinator.begin(0, refusals_max=1)
    coordinator.prepared(0, "q:0:1.1", 5)
    coordinator.voted(0, "q:0:1.1", commit=True)
    coordinator.lost(0)
    coordinator.connected(0)
    assert coordinator.listed(0, 2, ["q:0:1.1"]) == []
    assert coordinator.decided() == [EndTransaction(0, "q:0:1.1", commit=True), AskUncommitted(0, 3)]


def test_a_sink_that_lists_nothing_while_the_decision_is_made_waits_for_it() -> None:
    """It has forgotten what it voted for, or another relay has ended it, and has only not told this one yet."""
    coordinator = Coordinator("q", generation=1, offsets=[0, 0])
    for sink in (0, 1):
        coordinator.connected(sink)
        coordinator.listed(sink, sink + 1, [])
    coordinator.begin(0, refusals_max=1)
    for sink in (0, 1):
        coordinator.prepared(sink, "q:0:1.1", 5)
        coordinator.voted(sink, "q:0:1.1", commit=True)
    for sink in (0, 1):
        coordinator.lost(sink)
        coordinator.connected(sink)
        assert coordinator.listed(sink, sink + 3, []) == []
    assert [type(command) for command in coordinator.decided()] == [EndTransaction, AskUncommitted] * 2
    assert coordinator.listed(0, 5, []) == []
    assert coordinator.listed(1, 6, []) == [Finished(0)]


def test_the_last_batch_is_answered_when_all_sinks_are_settled() -> None:
    coordinator = settled(commits=(("q:4:2.1", 4),))
    assert coordinator.begin(4, refusals_max=1) == []
    assert coordinator.listed(0, 1, []) == [Finished(4)]


def test_a_batch_with_the_number_of_the_last_one_is_sent_if_it_is_another() -> None:
    coordinator = settled(commits=(("q:4:2.1", 4),))
    coordinator.listed(0, 1, [])
    assert coordinator.begin(4, refusals_max=1, again=True) == [Prepare(0, "q:4:3.1", 70)]
    coordinator.prepared(0, "q:4:3.1", 80)
    coordinator.voted(0, "q:4:3.1", commit=True)
    coordinator.decided()
    assert coordinator.listed(0, 2, []) == [Finished(4)]
    assert coordinator.begin(4, refusals_max=1) == [Finished(4)]


def test_votes_to_abort_at_two_sinks() -> None:
    """The second one's comes when the transaction is ended already; the one that is still sent rows is hung up on."""
    coordinator = Coordinator("q", generation=1, offsets=[0, 0, 0])
    for sink in range(3):
        coordinator.connected(sink)
        coordinator.listed(sink, sink + 1, [])
    coordinator.begin(0, refusals_max=2)
    for sink in (0, 1):
        coordinator.prepared(sink, "q:0:1.1", 5)
    commands = coordinator.voted(0, "q:0:1.1", commit=False)
    assert [type(command) for command in commands] == [EndTransaction, AskUncommitted] * 2 + [Drop]
    assert coordinator.voted(1, "q:0:1.1", commit=False) == []
    for sink, tag in ((0, 4), (1, 5)):
        assert coordinator.listed(sink, tag, []) == []
    coordinator.lost(2)
    coordinator.connected(2)
    assert coordinator.listed(2, 6, []) == [Prepare(sink, "q:0:1.2", 0) for sink in range(3)]
    coordinator.prepared(0, "q:0:1.2", 5)
    assert [type(command) for command in coordinator.lost(0)] == [Drop, Drop]


def test_a_sink_that_is_away_hears_of_the_decision_later() -> None:
    coordinator = Coordinator("q", generation=1, offsets=[0])
    coordinator.connected(0)
    coordinator.listed(0, 1, [])
    coordinator.begin(0, refusals_max=1)
    coordinator.prepared(0, "q:0:1.1", 5)
    coordinator.voted(0, "q:0:1.1", commit=True)
    coordinator.lost(0)
    assert coordinator.decided() == []
