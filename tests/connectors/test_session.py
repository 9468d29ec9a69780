"""Every frame in every state, for all four roles: what is allowed is written here, all else ends the connection."""

from __future__ import annotations

import pytest

from connectors.wire.codec import encode
from connectors.wire.frames import (
    AckFrame,
    EosFrame,
    ErrorFrame,
    Frame,
    HelloFrame,
    MessageFrame,
    NotifyAckFrame,
    NotifyFrame,
    OkFrame,
    RestartFrame,
)
from connectors.wire.limits import FRAME_BYTES_MAX_BEFORE_OK, NOTHING_SEEN, U32_MAX
from connectors.wire.session import ConnectorRole, ConnectorSession, SessionState
from connectors.wire.two_phase import (
    ListUncommitted,
    PhaseOne,
    PhaseTwo,
    ReplyUncommitted,
    TwoPhaseMessage,
    Vote,
    WorkersLeft,
    enclose,
)
from sos_client.wire.errors import MisuseError, ProtocolError

HELLO = HelloFrame(version="0.0.1", cookie=b"", program="p", instance="i")
OK = OkFrame(initial_credits=3)
NOTIFY = NotifyFrame(stream_id=1, stream_name="s", point_of_reference=NOTHING_SEEN)
ACCEPT = NotifyAckFrame(accepted=True, stream_id=1, point_of_reference=NOTHING_SEEN)
REFUSE = NotifyAckFrame(accepted=False, stream_id=1, point_of_reference=0)
MESSAGE = MessageFrame(1, 5, 0, b"", b"x")
ACK = AckFrame(credits=1, points=((1, 5),))
EOS = EosFrame(stream_id=1)
RESTART = RestartFrame()
ERROR = ErrorFrame(reason="no")
ALL: dict[str, Frame] = {
    "HELLO": HELLO,
    "OK": OK,
    "NOTIFY": NOTIFY,
    "ACCEPT": ACCEPT,
    "REFUSE": REFUSE,
    "MESSAGE": MESSAGE,
    "ACK": ACK,
    "EOS": EOS,
    "RESTART": RESTART,
    "ERROR": ERROR,
}
OF_OPENER = {"HELLO", "NOTIFY", "MESSAGE", "EOS", "ERROR"}
OF_TAKER = {"OK", "ACCEPT", "REFUSE", "ACK", "RESTART", "ERROR"}

# How to get there, and what the opener and the taker may send then.
SOURCE_STATES: dict[str, tuple[tuple[Frame, ...], set[str], set[str]]] = {
    "connected": ((), {"HELLO", "ERROR"}, {"ERROR"}),
    "greeted": ((HELLO,), {"ERROR"}, {"OK", "ERROR"}),
    "streaming": ((HELLO, OK), {"NOTIFY", "ERROR"}, {"RESTART", "ERROR"}),
    "notified": ((HELLO, OK, NOTIFY), {"ERROR"}, {"ACCEPT", "REFUSE", "ACK", "RESTART", "ERROR"}),
    "open": ((HELLO, OK, NOTIFY, ACCEPT), {"MESSAGE", "EOS", "ERROR"}, {"ACK", "RESTART", "ERROR"}),
    "refused": ((HELLO, OK, NOTIFY, REFUSE), {"NOTIFY", "ERROR"}, {"ACK", "RESTART", "ERROR"}),
    "closed": ((HELLO, OK, NOTIFY, ACCEPT, EOS), {"NOTIFY", "ERROR"}, {"ACK", "RESTART", "ERROR"}),
    "restarted": ((HELLO, OK, RESTART), set(), set()),
    "failed": ((HELLO, ERROR), set(), set()),
}
SINK_STATES: dict[str, tuple[tuple[Frame, ...], set[str], set[str]]] = {
    name: (steps, opener, taker | ({"ACK"} if len(steps) > 1 and taker else set()))  # whatever it says
    for name, (steps, opener, taker) in SOURCE_STATES.items()
}


def play(opener: ConnectorRole, taker: ConnectorRole, *frames: Frame) -> tuple[ConnectorSession, ConnectorSession]:
    """Both ends after these frames."""
    ends = ConnectorSession(opener), ConnectorSession(taker)
    for frame in frames:
        say(*ends, frame)
    return ends


def say(opener: ConnectorSession, taker: ConnectorSession, frame: Frame) -> None:
    of_taker = isinstance(frame, OkFrame | NotifyAckFrame | AckFrame | RestartFrame)
    if isinstance(frame, MessageFrame) and frame.stream_id == 0 and frame.payload[0] in (202, 204):
        of_taker = True
    here, there = (taker, opener) if of_taker else (opener, taker)
    data = here.send(frame)
    there.receive(data)
    assert there.next_frame() == frame


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("state", SOURCE_STATES)
def test_frames_to_a_listener(state: str, name: str) -> None:
    steps, allowed, _ = SOURCE_STATES[state]
    _, listener = play(ConnectorRole.SOURCE, ConnectorRole.LISTENER, *steps)
    check_received(listener, ALL[name], allowed=name in allowed)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("state", SOURCE_STATES)
def test_frames_to_a_source(state: str, name: str) -> None:
    steps, _, allowed = SOURCE_STATES[state]
    source, _ = play(ConnectorRole.SOURCE, ConnectorRole.LISTENER, *steps)
    check_received(source, ALL[name], allowed=name in allowed)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("state", SINK_STATES)
def test_frames_to_a_sink(state: str, name: str) -> None:
    steps, allowed, _ = SINK_STATES[state]
    _, sink = play(ConnectorRole.RELAY, ConnectorRole.SINK, *steps)
    check_received(sink, ALL[name], allowed=name in allowed)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("state", SINK_STATES)
def test_frames_to_a_relay(state: str, name: str) -> None:
    steps, _, allowed = SINK_STATES[state]
    relay, _ = play(ConnectorRole.RELAY, ConnectorRole.SINK, *steps)
    check_received(relay, ALL[name], allowed=name in allowed)


def check_received(session: ConnectorSession, frame: Frame, *, allowed: bool) -> None:
    was_over = session.state is SessionState.OVER
    session.receive(encode(frame))
    if was_over:
        assert session.next_frame() is None
    elif allowed:
        assert session.next_frame() == frame
    else:
        with pytest.raises(ProtocolError):
            session.next_frame()
        assert session.state is SessionState.OVER
        session.receive(encode(ERROR))
        assert session.next_frame() is None
        assert session.send(ERROR) == encode(ERROR)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("state", SOURCE_STATES)
def test_what_may_be_sent_is_what_may_be_received(state: str, name: str) -> None:
    steps, of_opener, of_taker = SOURCE_STATES[state]
    for end, allowed in zip(
        play(ConnectorRole.SOURCE, ConnectorRole.LISTENER, *steps), (of_opener, of_taker), strict=True
    ):
        before = (end.state, end.credits, end.streams.state(1))
        if name in allowed or (end.state is SessionState.OVER and name == "ERROR"):
            end.send(ALL[name])
        else:
            with pytest.raises(MisuseError):
                end.send(ALL[name])
            assert (end.state, end.credits, end.streams.state(1)) == before


def test_frames_are_taken_in_any_pieces() -> None:
    source, listener = play(ConnectorRole.SOURCE, ConnectorRole.LISTENER)
    data = source.send(HELLO)
    for byte in data[:-1]:
        listener.receive(bytes((byte,)))
        assert listener.next_frame() is None
    assert listener.midway_bytes == len(data) - 1
    listener.receive(data[-1:])
    assert listener.next_frame() == HELLO


@pytest.mark.parametrize("length", [0, FRAME_BYTES_MAX_BEFORE_OK + 1, U32_MAX])
def test_a_length_that_cannot_be_ends_it_at_once(length: int) -> None:
    listener = ConnectorSession(ConnectorRole.LISTENER)
    listener.receive(length.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="bytes"):
        listener.next_frame()
    assert listener.state is SessionState.OVER


def test_large_frames_are_taken_after_ok_and_none_larger_than_asked_for() -> None:
    source, listener = play(ConnectorRole.SOURCE, ConnectorRole.LISTENER, HELLO, OK, NOTIFY, ACCEPT)
    say(source, listener, MESSAGE._replace(payload=bytes(1 << 20)))
    small = ConnectorSession(ConnectorRole.LISTENER, frame_bytes_max=1000)
    for frame in (HELLO, NOTIFY):
        small.receive(encode(frame))
        assert small.next_frame() == frame
        small.send(OK if frame is HELLO else ACCEPT)
    small.receive(encode(MESSAGE._replace(payload=bytes(1000))))
    with pytest.raises(ProtocolError, match="1 to 1000"):
        small.next_frame()


def test_credits() -> None:
    source, listener = play(ConnectorRole.SOURCE, ConnectorRole.LISTENER, HELLO, OK, NOTIFY, ACCEPT)
    assert source.credits == listener.credits == 2
    say(source, listener, MESSAGE)
    say(source, listener, MESSAGE)
    for send in (MESSAGE, NotifyFrame(stream_id=2, stream_name="t", point_of_reference=0)):
        with pytest.raises(MisuseError, match="no credit"):
            source.send(send)
    say(source, listener, EOS)
    assert listener.credits == 0
    say(source, listener, ACK)
    assert source.credits == listener.credits == 1


def test_a_notification_without_a_credit_is_taken_a_message_is_not() -> None:
    _, listener = play(ConnectorRole.SOURCE, ConnectorRole.LISTENER, HELLO, OkFrame(initial_credits=1), NOTIFY, ACCEPT)
    listener.receive(encode(NotifyFrame(stream_id=2, stream_name="t", point_of_reference=0)))
    assert listener.next_frame() is not None
    assert listener.credits == 0
    listener.receive(encode(MESSAGE))
    with pytest.raises(ProtocolError, match="without a credit"):
        listener.next_frame()


def test_more_credits_than_a_number_holds() -> None:
    source, _ = play(ConnectorRole.SOURCE, ConnectorRole.LISTENER, HELLO, OK)
    source.receive(encode(AckFrame(credits=U32_MAX)))
    with pytest.raises(ProtocolError, match="more credits"):
        source.next_frame()


def test_more_streams_than_allowed() -> None:
    listener = ConnectorSession(ConnectorRole.LISTENER, streams_max=1)
    listener.receive(encode(HELLO))
    assert listener.next_frame() == HELLO
    listener.send(OK)
    listener.receive(encode(NOTIFY) + encode(NotifyFrame(stream_id=2, stream_name="", point_of_reference=0)))
    assert listener.next_frame() == NOTIFY
    with pytest.raises(ProtocolError, match="more than 1 streams"):
        listener.next_frame()


def test_the_id_that_stands_for_none_is_no_messages() -> None:
    source, listener = play(ConnectorRole.SOURCE, ConnectorRole.LISTENER, HELLO, OK, NOTIFY, ACCEPT)
    with pytest.raises(MisuseError, match="stands for none"):
        source.send(MESSAGE._replace(message_id=NOTHING_SEEN))
    listener.receive(encode(MESSAGE._replace(message_id=NOTHING_SEEN)))
    with pytest.raises(ProtocolError, match="stands for none"):
        listener.next_frame()


STREAMING = (HELLO, OK, NOTIFY, ACCEPT)
PHASE_1 = PhaseOne(transaction="t", ranges=((1, 0, 5),))
VOTE = Vote(transaction="t", commit=True)
COMMIT = PhaseTwo(transaction="t", commit=True)
ABORT = PhaseTwo(transaction="t", commit=False)
LIST = ListUncommitted(tag=7)
LISTED = ReplyUncommitted(tag=7, transactions=("t",))
SAID: dict[str, TwoPhaseMessage] = {
    "phase 1": PHASE_1,
    "vote": VOTE,
    "commit": COMMIT,
    "abort": ABORT,
    "commit of an earlier": PhaseTwo(transaction="e", commit=True),
    "vote on an earlier": Vote(transaction="e", commit=True),
    "list": LIST,
    "listed": LISTED,
    "left": WorkersLeft(tag=1, workers=("w",)),
}
OF_RELAY = {"phase 1", "commit", "abort", "commit of an earlier", "list", "left"}
BETWEEN = {"phase 1", "commit", "abort", "commit of an earlier", "list", "left", "data"}
ROUNDS: dict[str, tuple[tuple[TwoPhaseMessage, ...], set[str]]] = {
    "between": ((), BETWEEN),
    "listing": ((LIST,), BETWEEN | {"listed"}),
    "voting": ((PHASE_1,), {"vote", "abort"}),
    "voted": ((PHASE_1, VOTE), {"commit", "abort"}),
    "ended": ((PHASE_1, VOTE, COMMIT), BETWEEN),
    "aborted before the vote": ((PHASE_1, ABORT), BETWEEN | {"vote"}),
    "late vote while voting": (
        (PHASE_1, ABORT, PhaseOne(transaction="u", ranges=((1, 0, 5),))),
        {"vote"},
    ),
}


@pytest.mark.parametrize("name", [*SAID, "data"])
@pytest.mark.parametrize("state", ROUNDS)
def test_rounds(state: str, name: str) -> None:
    said, allowed = ROUNDS[state]
    relay, sink = play(ConnectorRole.RELAY, ConnectorRole.SINK, *STREAMING, *map(enclose, said))
    to = sink if name in OF_RELAY | {"data"} else relay
    check_received(to, MESSAGE if name == "data" else enclose(SAID[name]), allowed=name in allowed)


@pytest.mark.parametrize("name", SAID)
def test_each_side_says_its_own(name: str) -> None:
    relay, sink = play(ConnectorRole.RELAY, ConnectorRole.SINK, *STREAMING)
    to = relay if name in OF_RELAY else sink
    to.receive(encode(enclose(SAID[name])))
    with pytest.raises(ProtocolError, match="is not said by"):
        to.next_frame()


def test_a_sink_sends_no_rows() -> None:
    relay, _ = play(ConnectorRole.RELAY, ConnectorRole.SINK, *STREAMING)
    relay.receive(encode(MESSAGE))
    with pytest.raises(ProtocolError, match="stream 0 only"):
        relay.next_frame()


def test_a_vote_is_taken_once() -> None:
    relay, _ = play(ConnectorRole.RELAY, ConnectorRole.SINK, *STREAMING, enclose(PHASE_1), enclose(VOTE))
    relay.receive(encode(enclose(VOTE)))
    with pytest.raises(ProtocolError, match="nobody asked"):
        relay.next_frame()


def test_what_is_no_two_phase_message() -> None:
    for payload in (b"", b"\x01", b"\xc9", b"\xcb\x00\x01t\x00\x00\x00\x00", b"\xcd\x00\x01t\x02"):
        _, sink = play(ConnectorRole.RELAY, ConnectorRole.SINK, *STREAMING)
        sink.receive(encode(MessageFrame(0, 0, payload=payload)))
        with pytest.raises(ProtocolError):
            sink.next_frame()


def test_a_commit_is_not_decided_before_the_vote() -> None:
    relay, _ = play(ConnectorRole.RELAY, ConnectorRole.SINK, *STREAMING, enclose(PHASE_1))
    with pytest.raises(MisuseError, match="before it was voted on"):
        relay.send(enclose(COMMIT))


def test_streams_that_were_closed_make_room_for_others() -> None:
    source = ConnectorSession(ConnectorRole.SOURCE, streams_max=1)
    source.send(HELLO)
    source.receive(encode(OK))
    assert source.next_frame() == OK
    for stream_id in (1, 2, 3):
        source.send(NotifyFrame(stream_id=stream_id, stream_name="s", point_of_reference=0))
        source.receive(encode(NotifyAckFrame(accepted=True, stream_id=stream_id, point_of_reference=0)))
        assert source.next_frame() is not None
        source.send(EosFrame(stream_id=stream_id))
    source.receive(encode(AckFrame(credits=1, points=((3, 0),))))
    assert source.next_frame() is not None
    source.receive(encode(AckFrame(credits=1, points=((1, 0),))))
    with pytest.raises(ProtocolError, match="not introduced"):
        source.next_frame()


def test_messages_that_were_encoded_before() -> None:
    source, _ = play(ConnectorRole.SOURCE, ConnectorRole.LISTENER, HELLO, OK, NOTIFY, ACCEPT)
    source.spend(1, 2)
    assert source.credits == 0
    for stream_id, messages in ((1, 1), (2, 0)):
        with pytest.raises(MisuseError):
            source.spend(stream_id, messages)
