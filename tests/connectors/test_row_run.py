"""The fast way for a sink's rows takes what the slow way would take, and leaves the rest to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.wire.codec import encode
from connectors.wire.frames import HelloFrame, MessageFrame, NotifyAckFrame, NotifyFrame, OkFrame
from connectors.wire.limits import DATA_STREAM, NOTHING_SEEN
from connectors.wire.message_run import row_messages
from connectors.wire.session import ConnectorRole, ConnectorSession
from connectors.wire.two_phase import ListUncommitted, PhaseOne, enclose
from sos_client.wire.errors import ProtocolError

Rows = list[tuple[int, bytes, bytes]]


def sink(*, is_open: bool = True) -> ConnectorSession:
    session = ConnectorSession(ConnectorRole.SINK)
    session.receive(encode(HelloFrame(version="", cookie=b"", program="", instance="q")))
    assert session.next_frame()
    session.send(OkFrame(initial_credits=1))
    if is_open:
        session.receive(encode(NotifyFrame(stream_id=DATA_STREAM, stream_name="", point_of_reference=0)))
        assert session.next_frame()
        session.send(NotifyAckFrame(accepted=True, stream_id=DATA_STREAM, point_of_reference=NOTHING_SEEN))
    return session


def take(session: ConnectorSession, data: bytes, cuts: list[int], *, fast: bool) -> tuple[Rows, list[str]]:
    """The rows, and the names of other frames or the error at its place: in the order of each."""
    rows: Rows = []
    others: list[str] = []
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    try:
        for start, end in zip([0, *ends], ends, strict=False):
            session.receive(data[start:end])
            while True:
                if fast:
                    rows += session.next_rows(DATA_STREAM, lambda *row: row)
                frame = session.next_frame()
                if frame is None:
                    break
                if isinstance(frame, MessageFrame) and frame.stream_id == DATA_STREAM:
                    rows.append((frame.message_id, bytes(frame.key), bytes(frame.payload)))
                else:
                    others.append(f"{type(frame).__name__} after {len(rows)}")
    except ProtocolError as error:
        others.append(f"{error} after {len(rows)}")
    return rows, others


ROW = st.builds(
    lambda stream, offset, key, value: encode(MessageFrame(stream, offset, 0, key, value)),
    st.sampled_from([DATA_STREAM, DATA_STREAM, DATA_STREAM, 7]),
    st.sampled_from([0, 5, 2**40, NOTHING_SEEN]),
    st.sampled_from([b"", b"k", b"\xff" * 300]),
    st.binary(max_size=40),
)
FRAME = st.one_of(
    ROW,
    ROW,
    st.just(encode(enclose(ListUncommitted(tag=1)))),
    st.just(encode(enclose(PhaseOne(transaction="t", ranges=((DATA_STREAM, 0, 5),))))),
    st.binary(max_size=12),
)


@given(st.lists(FRAME, max_size=12), st.lists(st.integers(0, 2000), max_size=5), st.booleans())
def test_same_rows_and_same_errors(frames: list[bytes], cuts: list[int], is_open: bool) -> None:  # noqa: FBT001
    data = b"".join(frames)
    expected = take(sink(is_open=is_open), data, cuts, fast=False)
    assert take(sink(is_open=is_open), data, cuts, fast=True) == expected


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(min_size=1, max_size=50)), max_size=20), st.integers(0, 9))
def test_rows_are_written_as_messages_are(rows: list[tuple[bytes, bytes]], offset: int) -> None:
    parts, after = row_messages(DATA_STREAM, offset, rows)
    expected = b""
    for key, value in rows:
        expected += encode(MessageFrame(DATA_STREAM, offset, 0, key, value))
        offset += len(value)
    assert (b"".join(parts), after) == (expected, offset)


def test_only_a_sink_takes_rows() -> None:
    session = ConnectorSession(ConnectorRole.RELAY)
    assert session.next_rows(DATA_STREAM, lambda *row: row) == []


@pytest.mark.parametrize("size", [0, 1, 28])
def test_a_row_that_has_only_begun_stays(size: int) -> None:
    session = sink()
    session.receive(encode(MessageFrame(DATA_STREAM, 0, 0, b"", b"row"))[:size])
    assert session.next_rows(DATA_STREAM, lambda *row: row) == []
