"""Answers kept: the first one again, or EXPIRED, never a second run."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import JournalCode, JournalError, RefusedByVolumeError, SupersededError, UnavailableError, refused
from journal.image import operation_window
from journal.image.operation_window import (
    ANSWER_BYTES,
    CLIENT_ANSWERS_MIN,
    DEADLINE_MS,
    NOT_ASKED,
    STEP_MS_MAX,
    WINDOW_MS,
    OperationWindow,
)
from journal.volume import FileStatus, OperationId
from sos_client.wire.msgpack_edge import pack

EACH_BYTES = ANSWER_BYTES + 30
"""What one answer more of a client takes, about."""


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


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window for about 30 answers, 60 when it is full."""
    for name, value in (("KEPT_BYTES_MAX", 30 * EACH_BYTES), ("FULL_BYTES", 60 * EACH_BYTES), ("CLIENTS_MAX", 50)):
        monkeypatch.setattr(operation_window, name, value)
    monkeypatch.setattr(operation_window, "ANSWER_BYTES_MAX", EACH_BYTES)


@pytest.fixture
def now_ms() -> list[int]:
    """A clock to be set."""
    return [0]


@pytest.fixture
def window(now_ms: list[int]) -> OperationWindow:
    window = OperationWindow()
    window.run_by(lambda: now_ms[0])
    return window


@pytest.mark.usefixtures("small")
def test_what_answers_take_is_bounded(window: OperationWindow, now_ms: list[int]) -> None:
    """By time and clients: what a client may still ask for stays, and no more is taken rather than that it goes."""
    window.keep(_operation(1, 100), True, time_ms=0, recorded=True)
    for sequence in range(1, 500):  # a busy client
        window.keep(_operation(sequence, 99), None, time_ms=1000 * sequence, recorded=True)
        assert window.kept_bytes <= 30 * EACH_BYTES
    assert window.find(_operation(1, 100)) is not None
    assert window.find(_operation(499 - CLIENT_ANSWERS_MIN + 1, 99)) is not None
    with pytest.raises(SupersededError):
        window.find(_operation(1, 99))
    client = 0
    while not window.full():  # and many that are not
        client += 1
        assert window.find(_operation(1, client)) is None
        window.keep(_operation(1, client), None, time_ms=500_000, recorded=True)
    assert 29 * EACH_BYTES <= window.kept_bytes <= 31 * EACH_BYTES
    assert len(window) == len(window.answers()) == 1 + CLIENT_ANSWERS_MIN + client
    assert window.find(_operation(1, 100)) is not None
    with pytest.raises(UnavailableError):
        window.find(_operation(1, 90))
    with pytest.raises(SupersededError):
        window.find(_operation(1, 99))
    now_ms[0] = DEADLINE_MS + 1
    assert not _is_full(window)
    assert window.find(_operation(1, 90)) is None
    window.keep(_operation(1, 90), None, time_ms=500_001, recorded=True)
    assert window.find(_operation(1, 90)) is not None
    for one in range(101, 250):
        now_ms[0] += DEADLINE_MS
        window.keep(_operation(1, one), None, time_ms=500_002, recorded=True)
    assert window.find(_operation(1, 100)) is None, "the longest silent clients are forgotten"


@pytest.mark.usefixtures("small")
def test_large_answers_count_for_what_they_take(window: OperationWindow) -> None:
    large = refused(JournalCode.BAD_REQUEST, "m" * 10 * EACH_BYTES)
    for client in 1, 2, 3:
        window.keep(_operation(1, client), large, time_ms=0, recorded=False)
    assert window.kept_bytes > 30 * EACH_BYTES
    with pytest.raises(UnavailableError):
        window.find(_operation(1, 4))
    assert [_told(window, _operation(1, client)) is None for client in (1, 2, 3)] == [False] * 3


@pytest.mark.usefixtures("small")
def test_who_invents_clients_keeps_nobody_else_out(window: OperationWindow) -> None:
    """Each token may have as much as it leaves free: the second half of what the first has, and so on."""
    had = []
    for whose in b"a", b"b", b"c":
        for number in range(100):
            operation = OperationId(client=whose + number.to_bytes(15, "big"), sequence=1)
            try:
                window.admit(operation, whose)
            except UnavailableError:
                break
            assert window.find(operation) is None
            window.keep(operation, None, time_ms=0, recorded=True)
        had.append(number)
    assert had[0] > had[1] > had[2] > 0
    assert window.kept_bytes <= 60 * EACH_BYTES
    assert _told(window, OperationId(client=b"a" + bytes(15), sequence=1)) is not None, "nothing went for another"
    known = OperationId(client=b"a" + bytes(15), sequence=2)
    window.admit(known, b"b")
    assert _told(window, known) is JournalCode.UNAVAILABLE, "a client stays whose it was"


@pytest.mark.usefixtures("small")
def test_clients_from_before_are_counted_when_they_come_again(window: OperationWindow) -> None:
    for client in range(1, 17):
        window.keep(_operation(1, client), None, time_ms=0, recorded=True)
    assert _told(window, _operation(1, 50)) is JournalCode.UNAVAILABLE
    for client in range(1, 17):
        window.admit(_operation(2, client), b"token")
    assert _told(window, _operation(2, 1)) is JournalCode.UNAVAILABLE
    window.admit(_operation(1, 50), b"another")
    assert _told(window, _operation(1, 50)) is None


def test_what_is_counted_is_what_is_taken() -> None:
    """The dearest: clients with one answer each. With as many again that only left a trace, it is half as much more."""
    window = OperationWindow()
    tracemalloc.start()
    try:
        for number in range(20_000):
            operation = OperationId(client=number.to_bytes(16, "big"), sequence=1_000_000 + number)
            window.keep(operation, None, time_ms=1_000_000 + number, recorded=True)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * window.kept_bytes < taken < window.kept_bytes


def _is_full(window: OperationWindow) -> bool:
    return window.full()


@pytest.mark.usefixtures("small")
def test_answers_that_have_gone_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_window, "TRACES_MAX", 40)
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
    window.keep(_operation(1), refused(JournalCode.NOT_FOUND, "nothing", path="p"), time_ms=0, recorded=False)
    window.keep(_operation(2), True, time_ms=0, recorded=True)
    window.keep(_operation(3), False, time_ms=0, recorded=False)
    assert window.answers() == [pack([*_operation(2), 0, True])]
    kept = window.find(_operation(1))
    assert kept is not None
    assert isinstance(kept.answer, RefusedByVolumeError)
    assert (kept.answer.code, kept.answer.message, kept.answer.fields) == (
        JournalCode.NOT_FOUND,
        "nothing",
        {"path": "p"},
    )
    nothing = window.find(_operation(3))
    assert nothing is not None
    assert nothing.answer is False


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
    except (SupersededError, UnavailableError) as error:
        return error.code


def test_a_copy_may_leave_out_what_came_later() -> None:
    window = OperationWindow()
    for sequence in range(1, 6):
        window.keep(_operation(sequence), True, time_ms=sequence * 10, recorded=True)
    copy = window.copy(30)
    assert [copy.find(_operation(sequence)) is not None for sequence in range(1, 6)] == [True, True, True, False, False]
    assert window.find(_operation(5)) is not None


def test_a_refusal_is_kept_without_what_it_passed_through() -> None:
    window = OperationWindow()
    with pytest.raises(RefusedByVolumeError) as caught:
        raise refused(JournalCode.NOT_FOUND, "nothing is there", path="a")
    assert window.keep_refusal(_operation(1), caught.value, time_ms=1) is caught.value
    assert caught.value.__traceback__ is None
    again = window.first_answer(_operation(1), FileStatus)
    assert isinstance(again, RefusedByVolumeError)
    assert (again.code, again.message, again.fields) == (JournalCode.NOT_FOUND, "nothing is there", {"path": "a"})


def test_an_id_of_another_kind_of_change_is_named() -> None:
    window = OperationWindow()
    window.keep(_operation(7), True, time_ms=1, recorded=True)
    refusal = window.first_answer(_operation(7), FileStatus)
    assert isinstance(refusal, JournalError)
    assert refusal.code is JournalCode.BAD_REQUEST
    assert "operation 7 of client 0101" in refusal.message
    assert window.first_answer(_operation(7), bool) is True
    assert window.first_answer(_operation(8), bool) is NOT_ASKED
