"""Frames of the connector protocol: what is cut short, too long or out of range; any value there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.wire.codec import decode, encode, message_frames
from connectors.wire.frames import (
    TYPE_OF,
    AckFrame,
    EosFrame,
    ErrorFrame,
    Frame,
    FrameType,
    HelloFrame,
    MessageFrame,
    NotifyAckFrame,
    NotifyFrame,
    OkFrame,
    RestartFrame,
)
from connectors.wire.limits import NAME_BYTES_MAX, RANGES_MAX, U32_MAX, U64_MAX
from connectors.wire.two_phase import (
    ListUncommitted,
    PhaseOne,
    PhaseTwo,
    ReplyUncommitted,
    TwoPhaseMessage,
    Vote,
    WorkersLeft,
    disclose,
    enclose,
)
from sos_client.wire.errors import MisuseError, ProtocolError

U64 = st.integers(0, U64_MAX)
U32 = st.integers(0, U32_MAX)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=NAME_BYTES_MAX // 4)
ASCII = st.text(st.characters(max_codepoint=127), max_size=NAME_BYTES_MAX)
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(HelloFrame, version=TEXT, cookie=st.binary(max_size=NAME_BYTES_MAX), program=TEXT, instance=TEXT),
    st.builds(OkFrame, initial_credits=U32),
    st.builds(ErrorFrame, reason=TEXT),
    st.builds(NotifyFrame, stream_id=U64, stream_name=TEXT, point_of_reference=U64),
    st.builds(NotifyAckFrame, accepted=st.booleans(), stream_id=U64, point_of_reference=U64),
    st.builds(MessageFrame, U64, U64, st.integers(-(1 << 63), (1 << 63) - 1), st.binary(), st.binary()),
    st.builds(EosFrame, stream_id=U64),
    st.builds(AckFrame, credits=U32, points=st.lists(st.tuples(U64, U64)).map(tuple)),
    st.builds(RestartFrame, address=TEXT),
)
RANGES = st.lists(st.tuples(U64, st.just(0), U64), min_size=1, max_size=3).map(tuple)
TWO_PHASE: st.SearchStrategy[TwoPhaseMessage] = st.one_of(
    st.builds(ListUncommitted, tag=U64),
    st.builds(ReplyUncommitted, tag=U64, transactions=st.lists(ASCII, max_size=3).map(tuple)),
    st.builds(PhaseOne, transaction=ASCII, ranges=RANGES),
    st.builds(Vote, transaction=ASCII, commit=st.booleans()),
    st.builds(PhaseTwo, transaction=ASCII, commit=st.booleans()),
    st.builds(WorkersLeft, tag=U64, workers=st.lists(ASCII, max_size=3).map(tuple)),
)


@given(FRAMES)
def test_a_frame_there_and_back(frame: Frame) -> None:
    data = encode(frame)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert data[4] == TYPE_OF[type(frame)]
    assert decode(data[4], memoryview(data)[5:]) == frame


@given(TWO_PHASE)
def test_a_two_phase_message_there_and_back(message: TwoPhaseMessage) -> None:
    assert disclose(enclose(message)) == message


@given(FRAMES)
def test_a_frame_that_is_cut_short_or_too_long_is_refused(frame: Frame) -> None:
    data = encode(frame)
    if isinstance(frame, MessageFrame):
        cuts = [data[: 5 + 25], data[: 5 + 26 + len(frame.key) - 1]] if frame.key else [data[: 5 + 25]]
    else:
        cuts = [data[:end] for end in range(5, len(data))]
        if not isinstance(frame, OkFrame):
            cuts.append(data + b"x")
    for cut in cuts:
        if isinstance(frame, RestartFrame) and len(cut) == 5:
            continue  # as the document writes it
        with pytest.raises(ProtocolError):
            decode(cut[4], memoryview(cut)[5:])


@given(TWO_PHASE)
def test_a_two_phase_message_that_is_cut_short_or_too_long_is_refused(message: TwoPhaseMessage) -> None:
    payload = bytes(enclose(message).payload)
    for end in range(len(payload)):
        with pytest.raises(ProtocolError):
            disclose(MessageFrame(0, 0, payload=payload[:end]))
    with pytest.raises(ProtocolError, match="1 bytes too many"):
        disclose(MessageFrame(0, 0, payload=payload + b"x"))


LONG = "x" * (NAME_BYTES_MAX + 1)


@pytest.mark.parametrize(
    "frame",
    [
        HelloFrame(version=LONG, cookie=b"", program="", instance=""),
        ErrorFrame(reason=LONG),
        NotifyFrame(stream_id=0, stream_name=LONG, point_of_reference=0),
        NotifyFrame(stream_id=-1, stream_name="", point_of_reference=0),
        NotifyAckFrame(accepted=True, stream_id=0, point_of_reference=1 << 64),
        OkFrame(initial_credits=1 << 32),
        EosFrame(stream_id=1 << 64),
        AckFrame(credits=0, points=((0, -1),)),
        MessageFrame(0, 0, 1 << 63),
        MessageFrame(0, 0, 0, bytes(1 << 16)),
        RestartFrame(address=LONG),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_what_does_not_fit_is_not_written(frame: Frame) -> None:
    with pytest.raises(MisuseError):
        encode(frame)


@pytest.mark.parametrize("ranges", [(), ((1, 0, 1),) * (RANGES_MAX + 1), ((1, -1, 0),)])
def test_ranges_that_are_not_written(ranges: tuple[tuple[int, int, int], ...]) -> None:
    with pytest.raises(MisuseError):
        enclose(PhaseOne(transaction="t", ranges=ranges))


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        (FrameType.HELLO, (NAME_BYTES_MAX + 1).to_bytes(2, "big") + bytes(NAME_BYTES_MAX + 7), "a name of 1025 bytes"),
        (FrameType.NOTIFY, bytes(8) + b"\0\1\xff" + bytes(8), "not UTF-8"),
        (FrameType.NOTIFY_ACK, b"\2" + bytes(16), "only 0 and 1"),
        (FrameType.ACK, bytes(4) + b"\xff\xff\xff\xff", "cut short"),
        (FrameType.RESTART, (NAME_BYTES_MAX + 1).to_bytes(4, "big") + bytes(NAME_BYTES_MAX + 1), "an address of 1025"),
    ],
)
def test_what_is_refused(kind: FrameType, body: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        decode(kind, memoryview(body))


@pytest.mark.parametrize(("first", "after", "count"), [(2, 1, 1), (0, 1, RANGES_MAX + 1)])
def test_ranges_that_are_refused(first: int, after: int, count: int) -> None:
    ranges = (bytes(8) + first.to_bytes(8, "big") + after.to_bytes(8, "big")) * count
    with pytest.raises(ProtocolError, match="range"):
        disclose(MessageFrame(0, 0, payload=b"\xcb\0\1t" + count.to_bytes(4, "big") + ranges))


def test_a_reason_is_read_whatever_it_is() -> None:
    reason = b"\xff" + b"x" * NAME_BYTES_MAX
    body = len(reason).to_bytes(2, "big") + reason
    assert decode(FrameType.ERROR, memoryview(body)) == ErrorFrame(reason="�" + "x" * NAME_BYTES_MAX)


@given(U64, st.lists(st.tuples(U64, st.binary())))
def test_many_messages_are_encoded_as_each_is(stream_id: int, messages: list[tuple[int, bytes]]) -> None:
    ids, payloads = [message_id for message_id, _ in messages], [payload for _, payload in messages]
    expected = [encode(MessageFrame(stream_id, message_id, 0, b"", payload)) for message_id, payload in messages]
    assert message_frames(stream_id, ids, payloads) == expected


@pytest.mark.parametrize(
    ("stream_id", "ids", "reason"),
    [(-1, [1], "stream -1 or one of its ids"), (1, [U64_MAX + 1], "out of its range"), (1, [1, 2], "2 ids for 1")],
)
def test_many_messages_that_cannot_be_encoded(stream_id: int, ids: list[int], reason: str) -> None:
    with pytest.raises(MisuseError, match=reason):
        message_frames(stream_id, ids, [b"x"])
