"""Pauses grow, stay bounded, are spread; and only what may pass is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sos_client.retry import RetryPolicy, is_passing
from sos_client.wire import errors as e
from sos_client.wire.errors import ErrorCode, RefusedError

POLICY = RetryPolicy(first_seconds=0.1, factor=2, pause_seconds_max=1.0)


def test_pauses_double_up_to_the_maximum() -> None:
    assert [POLICY.pause_seconds(failures, 1.0) for failures in (1, 2, 3, 4, 5, 6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert POLICY.pause_seconds(1, 0.0) == 0.05


@given(st.integers(1, 10**9), st.floats(0, 1))
def test_pauses_are_bounded_however_long_it_lasts(failures: int, chance: float) -> None:
    assert 0.05 <= POLICY.pause_seconds(failures, chance) <= 1.0


@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_refusal_is_tried_again_only_when_it_is_about_the_connection(code: ErrorCode) -> None:
    passing = {ErrorCode.LIMIT, ErrorCode.TOO_SLOW, ErrorCode.SHUTTING_DOWN, ErrorCode.PROTOCOL}
    assert is_passing(RefusedError(code)) == (code in passing)


def test_lost_connections_pass_and_lost_history_does_not() -> None:
    for error in (e.ConnectionLostError("x"), e.DeadlineError("x"), e.ProtocolError("x")):
        assert is_passing(error)
    for lasting in (e.HistoryError("x"), e.MisuseError("x"), e.DamagedError("x")):
        assert not is_passing(lasting)
