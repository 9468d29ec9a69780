"""The fast way for messages takes what the slow way would take, and leaves the rest to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.wire.codec import encode
from connectors.wire.frames import EosFrame, HelloFrame, MessageFrame, NotifyAckFrame, NotifyFrame, OkFrame
from connectors.wire.limits import NOTHING_SEEN
from connectors.wire.session import ConnectorRole, ConnectorSession
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from connectors.wire.frames import Frame

CREDITS = 200


def listener() -> ConnectorSession:
    """With streams 1 (nothing seen) and 2 (up to 3) open."""
    session = ConnectorSession(ConnectorRole.LISTENER)
    session.receive(encode(HelloFrame(version="", cookie=b"", program="", instance="")))
    assert session.next_frame()
    session.send(OkFrame(initial_credits=CREDITS + 2))
    for stream_id, point in ((1, NOTHING_SEEN), (2, 3)):
        session.receive(encode(NotifyFrame(stream_id=stream_id, stream_name="", point_of_reference=0)))
        assert session.next_frame()
        session.send(NotifyAckFrame(accepted=True, stream_id=stream_id, point_of_reference=point))
    return session


@dataclass
class Taken:
    """What a listener would store: the frames as they came."""

    stored: bytes = b""
    empty: list[tuple[int, int]] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    error: str = ""
    credits: int = 0


def take(data: bytes, cuts: list[int], *, fast: bool) -> Taken:
    session, taken = listener(), Taken()
    points: dict[int, int] = {1: -1, 2: 3}
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    try:
        for start, end in zip([0, *ends], ends, strict=False):
            session.receive(data[start:end])
            while True:
                if fast and (run := session.next_messages()) is not None:
                    assert run.taken <= run.frames
                    assert bool(run.taken) is bool(run.pieces) is bool(run.points)
                    assert run.points.items() <= session.streams.open_points.items()
                    taken.stored += b"".join(run.pieces)
                    continue
                frame = session.next_frame()
                if frame is None:
                    break
                if isinstance(frame, MessageFrame):
                    seen = session.streams.open_points if fast else points
                    if frame.message_id > seen[frame.stream_id]:
                        seen[frame.stream_id] = frame.message_id
                        if frame.payload:
                            taken.stored += encode(frame)
                        else:
                            taken.empty.append((frame.stream_id, frame.message_id))
                elif isinstance(frame, EosFrame):
                    taken.ended.append(frame.stream_id)
    except ProtocolError as error:
        taken.error = str(error)
    taken.credits = session.credits
    return taken


MESSAGES = st.builds(
    MessageFrame,
    st.integers(1, 3) | st.just(1),
    st.integers(0, 8) | st.just(NOTHING_SEEN),
    st.just(0),
    st.binary(max_size=2),
    st.binary(max_size=3),
)
FRAMES: st.SearchStrategy[Frame] = MESSAGES | st.builds(EosFrame, stream_id=st.just(2))


@given(st.lists(FRAMES, max_size=30), st.lists(st.integers(0, 2000), max_size=8), st.binary(max_size=40))
def test_it_takes_what_the_slow_way_takes(frames: list[Frame], cuts: list[int], garbage: bytes) -> None:
    data = b"".join(map(encode, frames)) + garbage
    assert take(data, cuts, fast=True) == take(data, cuts, fast=False)


STRETCHES = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 60), st.binary(max_size=2), st.integers(0, 2)))


@given(STRETCHES, st.lists(st.integers(0, 9000), max_size=3))
def test_those_of_one_size_are_taken_as_others_are(
    stretches: list[tuple[int, int, bytes, int]], cuts: list[int]
) -> None:
    """They are looked at many at a time. Some came before, some have the same id, some have no payload."""
    message_id, frames = 0, []
    for step, count, key, size in stretches:
        frames += [MessageFrame(1, message_id + n * step, n, key, size * b"x") for n in range(count)]
        message_id += count * step // 2
    data = b"".join(map(encode, frames))
    assert take(data, cuts, fast=True) == take(data, cuts, fast=False)


@pytest.mark.parametrize(
    "odd",
    [
        MessageFrame(1, 49, 0, b"", b"payload"),
        MessageFrame(1, 51, 0, b"", b"payload"),
        MessageFrame(1, 50, 0, b"payload", b""),
        MessageFrame(1, 50, 0, b"k", b"payloa"),
        MessageFrame(1, NOTHING_SEEN, 0, b"", b"payload"),
        MessageFrame(2, 50, 0, b"", b"payload"),
        MessageFrame(3, 50, 0, b"", b"payload"),
    ],
)
def test_one_among_many_of_a_size_that_is_not_like_them(odd: MessageFrame) -> None:
    frames = [MessageFrame(1, n, n, b"", b"payload") for n in range(100)]
    data = b"".join(map(encode, [*frames[:50], odd, *frames[51:]]))
    assert take(data, [], fast=True) == take(data, [], fast=False)


def test_large_ones_of_one_size() -> None:
    data = b"".join(encode(MessageFrame(1, n, 0, b"", bytes(5000))) for n in range(40))
    assert take(data, [], fast=True) == take(data, [], fast=False)


def test_messages_that_came_before_are_left_out_and_cost_their_credit() -> None:
    session = listener()
    new = [MessageFrame(1, n, 0, b"", b"x") for n in (0, 1, 2)]
    data = [encode(frame) for frame in new]
    session.receive(data[0] + data[1] + data[0] + data[1] + data[2])
    run = session.next_messages()
    assert run is not None
    assert (run.frames, run.taken, run.points) == (5, 3, {1: 2})
    assert [bytes(piece) for piece in run.pieces] == [data[0] + data[1], data[2]]
    assert session.credits == CREDITS - 5


def test_it_stops_where_credits_end() -> None:
    session = listener()
    session.receive(b"".join(encode(MessageFrame(1, n, 0, b"", b"x")) for n in range(CREDITS + 1)))
    run = session.next_messages()
    assert run is not None
    assert run.taken == CREDITS
    assert session.next_messages() is None


def test_nothing_is_taken_before_the_handshake() -> None:
    session = ConnectorSession(ConnectorRole.LISTENER)
    session.receive(encode(MessageFrame(1, 1, 0, b"", b"x")))
    assert session.next_messages() is None


def test_a_run_of_nothing_new() -> None:
    session = listener()
    session.receive(encode(MessageFrame(2, 3, 0, b"", b"x")) + encode(MessageFrame(2, 2, 0, b"", b"x")))
    run = session.next_messages()
    assert run == (2, 0, [], {})
