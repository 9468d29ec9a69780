"""The fast way for a sink's rows takes what the slow way would take, and leaves the rest to it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.wire.codec import decode, encode
from connectors.wire.frames import HelloFrame, MessageFrame, NotifyAckFrame, NotifyFrame, OkFrame
from connectors.wire.limits import DATA_STREAM, NOTHING_SEEN
from connectors.wire.row_run import RowRun, cut_rows, row_messages
from connectors.wire.session import ConnectorRole, ConnectorSession
from connectors.wire.two_phase import ListUncommitted, PhaseOne, enclose
from sos_client.wire.errors import ProtocolError
from sos_client.wire.frames import FrameSplitter

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


def rows_of(run: RowRun) -> Rows:
    rows, offset = [], run.first
    for key, value in zip(run.keys or [b""] * len(run.values), run.values, strict=True):
        rows.append((offset, key, value))
        offset += len(value)
    return rows


def follows(rows: Rows) -> int:
    return rows[-1][0] + len(rows[-1][2]) if rows else 0


def take(session: ConnectorSession, data: bytes, cuts: list[int], *, fast: bool) -> tuple[Rows, list[str]]:
    """The rows, and the names of other frames or the error at its place: in the order of each."""
    rows: Rows = []
    others: list[str] = []
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    try:
        for start, end in zip([0, *ends], ends, strict=False):
            session.receive(data[start:end])
            while True:
                if fast and (run := session.next_rows(DATA_STREAM, follows(rows))) is not None:
                    assert run.first == follows(rows)
                    assert run.after == run.first + sum(map(len, run.values))
                    rows += rows_of(run)
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


STRETCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 80), st.sampled_from([None, b"", b"key"])), max_size=6)


@given(STRETCHES, st.integers(0, 2**40), st.lists(st.integers(0, 20_000), max_size=5))
def test_rows_that_follow_each_other_are_taken_by_their_runs(
    stretches: list[tuple[int, int, bytes | None]], first: int, cuts: list[int]
) -> None:
    """Also those of one size, which are cut many at a time, and wherever the bytes were cut."""
    expected: Rows = []
    data, offset = b"", first
    for size, count, key in stretches:
        values = [bytes([number]) * size for number in range(count)]
        pieces = row_messages(DATA_STREAM, offset, values, None if key is None else [key] * count)
        data += b"".join(pieces)
        expected += rows_of(RowRun(offset, 0, values, None if key is None else [key] * count))
        offset += size * count
    splitter = FrameSplitter(frame_bytes_max=1 << 20)
    rows: Rows = []
    straddling = 0
    for start, end in pairwise([0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]):
        splitter.feed(data[start:end])
        while True:
            run = cut_rows(splitter, DATA_STREAM, follows(rows) if rows else first)
            if run is not None:
                rows += rows_of(run)
            frame = splitter.next_frame()
            if frame is None:
                break
            message = decode(frame[0], frame[1])
            assert isinstance(message, MessageFrame)
            rows.append((message.message_id, bytes(message.key), bytes(message.payload)))
            straddling += 1
    assert rows == expected
    assert straddling <= len(cuts)


def test_large_rows_of_one_size() -> None:
    values = [bytes([number]) * 5000 for number in range(40)]
    splitter = FrameSplitter(frame_bytes_max=1 << 20)
    splitter.feed(b"".join(row_messages(DATA_STREAM, 0, values, None)))
    assert cut_rows(splitter, DATA_STREAM, 0) == RowRun(0, 200_000, values, None)


@pytest.mark.parametrize("change", ["id", "key", "time", "type", "stream"])
def test_one_among_many_of_a_size_that_is_not_like_them(change: str) -> None:
    """It is found although those around it, and the last one, are as expected."""
    pieces = row_messages(DATA_STREAM, 0, [b"value"] * 100, None)
    bad = {
        "id": MessageFrame(DATA_STREAM, 499, 0, b"", b"value"),
        "key": MessageFrame(DATA_STREAM, 250, 0, b"val", b"ue"),
        "time": MessageFrame(DATA_STREAM, 250, 1, b"", b"value"),
        "type": MessageFrame(DATA_STREAM, 250, 0, b"", b"value"),
        "stream": MessageFrame(7, 250, 0, b"", b"value"),
    }[change]
    frame = bytearray(encode(bad))
    if change == "type":
        frame[4] = 6
    splitter = FrameSplitter(frame_bytes_max=1 << 20)
    splitter.feed(b"".join([*pieces[:100], bytes(frame), *pieces[102:]]))
    run = cut_rows(splitter, DATA_STREAM, 0)
    assert run is not None
    if change == "time":
        assert (run.values, run.keys) == ([b"value"] * 100, None)
    elif change == "key":
        assert run.keys is not None
        assert (run.values[50], run.keys[49:51], run.after) == (b"ue", [b"", b"val"], 252)
    else:
        assert (len(run.values), run.after) == (50, 250)


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(min_size=1, max_size=50)), min_size=1), st.integers(0, 9))
def test_rows_are_written_as_messages_are(rows: list[tuple[bytes, bytes]], first: int) -> None:
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    for said in (keys, None):
        expected, offset = b"", first
        for key, value in rows:
            expected += encode(MessageFrame(DATA_STREAM, offset, 0, b"" if said is None else key, value))
            offset += len(value)
        assert b"".join(row_messages(DATA_STREAM, first, values, said)) == expected


def test_only_a_sink_takes_rows() -> None:
    session = ConnectorSession(ConnectorRole.RELAY)
    assert session.next_rows(DATA_STREAM, 0) is None


@pytest.mark.parametrize("size", [0, 1, 28])
def test_a_row_that_has_only_begun_stays(size: int) -> None:
    session = sink()
    session.receive(encode(MessageFrame(DATA_STREAM, 0, 0, b"", b"row"))[:size])
    assert session.next_rows(DATA_STREAM, 0) is None
