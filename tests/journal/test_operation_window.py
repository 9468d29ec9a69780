"""Answers kept: the first one again, or EXPIRED, never a second run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import operation_window
from journal.errors import JournalCode, SupersededError, UnavailableError, refused
from journal.operation_window import (
    CLIENT_ANSWERS_MIN,
    DEADLINE_MS,
    STEP_MS_MAX,
    WINDOW_MS,
    OperationWindow,
    used_already,
)
from journal.volume import FileStatus, OperationId
from sos_client.wire.msgpack_edge import pack


def _operation(sequence: int, client: int = 1) -> OperationId:
    return OperationId(client=bytes([client]) * 16, sequence=sequence)


def _let_pass(window: OperationWindow, since_ms: int, milliseconds: int) -> None:
    """Somebody else gets answers all the while."""
    for sequence, time_ms in enumerate(range(since_ms, since_ms + milliseconds + 1, STEP_MS_MAX), 1):
        window.keep(_operation(sequence, client=99), None, time_ms=time_ms, recorded=True)


def test_the_first_answer_stays() -> None:
    window = OperationWindow()
    window.keep(_operation(1), True, time_ms=0, recorded=True)
    window.keep(_operation(1), False, time_ms=1, recorded=True)
    kept = window.find(_operation(1))
    assert kept is not None
    assert kept.answer is True
    assert window.find(_operation(2)) is None
    assert window.find(_operation(1, client=2)) is None


def test_an_operation_older_than_the_window_is_refused_and_later_ones_are_not() -> None:
    window = OperationWindow()
    window.keep(_operation(1), None, time_ms=0, recorded=True)
    _let_pass(window, 0, WINDOW_MS)
    window.keep(_operation(2), None, time_ms=WINDOW_MS, recorded=True)
    assert window.find(_operation(1)) is not None
    window.keep(_operation(1, client=2), None, time_ms=WINDOW_MS + 1, recorded=True)
    with pytest.raises(SupersededError, match="not run"):
        window.find(_operation(1))
    assert window.find(_operation(2)) is not None
    assert window.find(_operation(3)) is None


@pytest.mark.parametrize("recorded", [True, False])
def test_a_clock_set_forward_expires_nothing(recorded: bool) -> None:  # noqa: FBT001
    window = OperationWindow()
    window.keep(_operation(1), None, time_ms=0, recorded=recorded)
    window.keep(_operation(2), None, time_ms=1, recorded=recorded)
    window.keep(_operation(1, client=2), None, time_ms=3_600_000, recorded=recorded)
    assert window.find(_operation(1)) is not None
    assert window.find(_operation(2)) is not None


def test_an_operation_overtaken_by_an_expired_one_is_not_run_either() -> None:
    window = OperationWindow()
    window.keep(_operation(5), None, time_ms=0, recorded=True)
    _let_pass(window, 0, 2 * WINDOW_MS)
    window.keep(_operation(9), None, time_ms=2 * WINDOW_MS, recorded=True)
    with pytest.raises(SupersededError):
        window.find(_operation(4))


def test_the_number_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By time and clients: what a client may still ask for stays, and no more is taken rather than that it goes."""
    for name, value in (("ANSWERS_MAX", 30), ("FULL_ANSWERS", 60), ("CLIENTS_MAX", 50)):
        monkeypatch.setattr(operation_window, name, value)
    now_ms = [0]
    window = OperationWindow()
    window.run_by(lambda: now_ms[0])
    window.keep(_operation(1, 100), True, time_ms=0, recorded=True)
    for sequence in range(1, 500):  # a busy client
        window.keep(_operation(sequence, 99), None, time_ms=1000 * sequence, recorded=True)
        assert len(window) <= 30
    assert window.find(_operation(1, 100)) is not None
    assert window.find(_operation(499 - CLIENT_ANSWERS_MIN + 1, 99)) is not None
    with pytest.raises(SupersededError):
        window.find(_operation(1, 99))
    for client in range(1, 44):  # and many that are not
        assert window.find(_operation(1, client)) is None
        window.keep(_operation(1, client), None, time_ms=500_000, recorded=True)
    assert _is_full(window)
    assert len(window) == len(window.answers()) == 60
    assert window.find(_operation(1, 100)) is not None
    with pytest.raises(UnavailableError):
        window.find(_operation(1, 50))
    with pytest.raises(SupersededError):
        window.find(_operation(1, 99))
    now_ms[0] = DEADLINE_MS + 1
    assert not _is_full(window)
    assert window.find(_operation(1, 50)) is None
    window.keep(_operation(1, 50), None, time_ms=500_001, recorded=True)
    assert len(window) == 30
    assert window.find(_operation(1, 50)) is not None
    with pytest.raises(SupersededError):
        window.find(_operation(1, 100))
    for client in range(101, 200):
        now_ms[0] += DEADLINE_MS
        window.keep(_operation(1, client), None, time_ms=500_002, recorded=True)
    assert window.find(_operation(1, 100)) is None, "the longest silent clients are forgotten"


def _is_full(window: OperationWindow) -> bool:
    return window.full


def test_answers_that_have_gone_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ANSWERS_MAX", 20), ("FULL_ANSWERS", 40)):
        monkeypatch.setattr(operation_window, name, value)
    window = OperationWindow()
    window.keep(_operation(1), True, time_ms=0, recorded=True)
    for sequence in range(1, 1000):
        window.keep(_operation(sequence, 9), None, time_ms=sequence, recorded=True)
        assert len(window._kept) <= 81
    assert window.find(_operation(1)) is not None
    assert len(window.copy(990)) == len(window) - 9
    assert len(window.copy(5)) == 1


def test_the_answer_for_the_longest_path_is_given_again() -> None:
    window, path = OperationWindow(), "/".join(["p" * 255] * 16)
    status = FileStatus(path=path, is_directory=False, size=1, modified_ms=2, crc=3)
    window.keep(_operation(1), status, time_ms=0, recorded=True)
    kept = window.find(_operation(1))
    assert kept is not None
    assert kept.answer == status


def test_refusals_are_not_for_snapshots() -> None:
    window = OperationWindow()
    window.keep(_operation(1), refused(JournalCode.NOT_FOUND, "nothing"), time_ms=0, recorded=False)
    window.keep(_operation(2), True, time_ms=0, recorded=True)
    assert window.answers() == [pack([*_operation(2), 0, True])]
    assert window.find(_operation(1)) is not None


def test_what_expired_can_be_taken_over() -> None:
    window = OperationWindow()
    window.keep(_operation(1), None, time_ms=0, recorded=True)
    _let_pass(window, 0, WINDOW_MS)
    window.keep(_operation(2), None, time_ms=WINDOW_MS + 1, recorded=True)
    other = OperationWindow()
    for client, sequence in window.expired():
        other.restore_expired(client, sequence)
    with pytest.raises(SupersededError):
        other.find(_operation(1))
    copy = window.copy()
    copy.keep(_operation(3), None, time_ms=WINDOW_MS + 2, recorded=True)
    assert window.find(_operation(3)) is None


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(0, WINDOW_MS), st.none() | st.booleans()),
        max_size=30,
        unique_by=lambda step: step[:2],
    )
)
def test_answers_taken_over_are_as_if_they_had_been_kept(steps: list[tuple[int, int, int, bool | None]]) -> None:
    kept, time_ms, packed = OperationWindow(), 0, []
    for client, sequence, passed_ms, answer in steps:
        time_ms += passed_ms
        operation = _operation(sequence, client)
        kept.keep(operation, answer, time_ms=time_ms, recorded=True)
        packed.append((*operation, time_ms, pack([*operation, time_ms, answer])))
    restored = OperationWindow()
    restored.restore_answers(packed)
    assert restored.answers() == kept.answers()
    for client in 1, 2, 3:
        for sequence in range(1, 10):
            assert _told(restored, _operation(sequence, client)) == _told(kept, _operation(sequence, client))
    assert list(restored.expired()) == list(kept.expired())


def test_an_answer_taken_over_twice_is_kept_once() -> None:
    window, operation = OperationWindow(), _operation(1)
    packed = [(*operation, time_ms, pack([*operation, time_ms, None])) for time_ms in (1, 2)]
    window.restore_answers(packed)
    assert window.answers() == [packed[0][3]]


def _told(window: OperationWindow, operation: OperationId) -> object:
    try:
        return window.find(operation)
    except SupersededError as error:
        return error.code


def test_a_copy_may_leave_out_what_came_later() -> None:
    window = OperationWindow()
    for sequence in range(1, 6):
        window.keep(_operation(sequence), True, time_ms=sequence * 10, recorded=True)
    copy = window.copy(30)
    assert [copy.find(_operation(sequence)) is not None for sequence in range(1, 6)] == [True, True, True, False, False]
    assert window.find(_operation(5)) is not None


def test_an_id_of_another_kind_of_change_is_named() -> None:
    refusal = used_already(_operation(7))
    assert refusal.code is JournalCode.BAD_REQUEST
    assert "operation 7 of client 0101" in refusal.message
