"""The state machine: every move that is allowed, and no other, on both ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sos_client.wire import messages as m
from sos_client.wire.checksum import crc32c
from sos_client.wire.codec import encode
from sos_client.wire.connection import TRANSITIONS, Connection, Move, Role, State
from sos_client.wire.errors import ErrorCode, MisuseError, ProtocolError, RefusedError
from sos_client.wire.frames import frame_header

if TYPE_CHECKING:
    from sos_client.wire.messages import Message

IDENTITY = bytes(16)
HELLO = m.Hello(version=1, token=None, client="test", instance=IDENTITY)
WELCOME = m.Welcome(version=1, server_identity=IDENTITY, frame_bytes_max=1 << 20, server_time=0.0)
APPEND = m.Append(object="o", size=0, prefix_crc=None, epoch=0, holder=b"")
FOLLOW = m.Get(object="o", offset=0, length=None, follow=True)
REFUSAL = m.Error(code=ErrorCode.BUSY, fields={}, message="busy")


def data(offset: int, payload: bytes) -> m.Data:
    return m.Data(offset, crc32c(payload), payload)


class Pair:
    """A client and a server joined by nothing but these two methods."""

    def __init__(self, *, opened: bool = True) -> None:
        self.client = Connection(Role.CLIENT)
        self.server = Connection(Role.SERVER)
        if opened:
            self.ask(HELLO)
            self.answer(WELCOME)

    def ask(self, message: Message) -> Message | None:
        self.server.receive(self.client.send(message))
        return self.server.next_event()

    def answer(self, message: Message) -> Message | None:
        self.client.receive(self.server.send(message))
        return self.client.next_event()


REQUESTS: dict[Move, list[Message]] = {
    Move.HELLO: [HELLO],
    Move.ASK: [
        m.Use(namespace="n", create=False),
        m.Fence(epoch=1, holder=IDENTITY),
        m.Seal(object="o", size=0, epoch=0, holder=b""),
        m.Stat(object="o"),
        m.List(after="", limit=1),
        m.Delete(object="o", epoch=0, holder=b""),
        m.Unknown(type_code=0x3F),
    ],
    Move.APPEND: [APPEND],
    Move.DATA: [data(0, b"x")],
    Move.END: [m.End()],
    Move.GET: [m.Get(object="o", offset=0, length=None, follow=False)],
    Move.FOLLOW: [FOLLOW],
    Move.STOP: [m.Stop()],
    Move.PING: [m.Ping(n=1)],
    Move.QUIT: [m.Quit()],
}


def reach(state: State) -> Pair:
    pair = Pair(opened=state is not State.OPENING)
    if state in (State.APPENDING, State.DISCARDING):
        pair.ask(APPEND)
    if state is State.DISCARDING:
        pair.answer(REFUSAL)
    if state is State.FOLLOWING:
        pair.ask(FOLLOW)
    if state is State.CLOSED:
        pair.ask(m.Quit())
    assert pair.client.state is pair.server.state is state
    return pair


MOVES = [(state, move, request) for state, move in product(State, Move) for request in REQUESTS[move]]


@pytest.mark.parametrize(("state", "move", "request_"), MOVES, ids=str)
def test_every_request_in_every_state(state: State, move: Move, request_: Message) -> None:
    pair = reach(state)
    after = TRANSITIONS.get((state, move))
    if after is None:
        with pytest.raises(MisuseError):
            pair.client.send(request_)
        pair.server.receive(encode(request_))
        with pytest.raises(ProtocolError):
            pair.server.next_event()
        assert pair.client.state is state, "a move that was refused here has changed nothing"
        assert pair.server.broken
        return
    seen = pair.ask(request_)
    swallowed = state is State.DISCARDING and move is not Move.PING
    assert seen == (None if swallowed else request_)
    assert pair.client.state is pair.server.state is after


ANSWERS: list[tuple[Message, list[Message]]] = [
    (m.Use(namespace="n", create=True), [m.Using(incarnation=IDENTITY, epoch=0, holder=b"")]),
    (m.Fence(epoch=1, holder=IDENTITY), [m.Fenced(epoch=1)]),
    (APPEND, [m.Appending(size=0), m.Ack(0, 0)]),
    (m.Seal(object="o", size=0, epoch=0, holder=b""), [m.Sealed(size=0, crc=0)]),
    (m.Get(object="o", offset=0, length=None, follow=False), [data(0, b"a"), data(1, b"bc"), m.GetEnd(next_offset=3)]),
    (FOLLOW, [data(0, b"a"), m.GetEnd(next_offset=1)]),
    (m.Stat(object="o"), [m.ObjectInfo(name="o", size=0, sealed=False, epoch=0, crc=0, server_time=0.0)]),
    (m.List(after="", limit=1), [m.Listing(entries=(), more=False)]),
    (m.Delete(object="o", epoch=0, holder=b""), [m.Deleted()]),
    (m.Ping(n=7), [m.Pong(n=7)]),
    (m.Quit(), [m.Bye()]),
]


@pytest.mark.parametrize(("request_", "answers"), ANSWERS, ids=lambda value: type(value).__name__)
def test_answers_fit_their_request_and_no_other(request_: Message, answers: list[Message]) -> None:
    pair = Pair()
    pair.ask(request_)
    for answer in answers:
        assert pair.answer(answer) == answer
    for other, their_answers in ANSWERS:
        if type(other) in (type(request_), m.Ping):
            continue
        pair = Pair()
        pair.ask(request_)
        wrong = their_answers[0]
        if isinstance(other, m.Get) and isinstance(request_, m.Get):
            continue
        with pytest.raises(MisuseError):
            pair.server.send(wrong)
        pair.client.receive(encode(wrong))
        with pytest.raises(ProtocolError):
            pair.client.next_event()


def test_nothing_but_hello_comes_first() -> None:
    server = Connection(Role.SERVER)
    server.receive(encode(HELLO)[:5])
    assert server.next_event() is None
    assert server.midway
    server = Connection(Role.SERVER)
    server.receive(encode(m.Ping(n=1)))
    with pytest.raises(ProtocolError, match="Ping is not allowed while opening"):
        server.next_event()
    assert server.next_event() is None, "after broken protocol nothing more is read"


def test_before_welcome_frames_are_small_and_after_it_large() -> None:
    pair = Pair(opened=False)
    pair.server.receive(frame_header(1, 4096))
    with pytest.raises(ProtocolError, match="1 to 4096 are allowed"):
        pair.server.next_event()
    pair = Pair()
    pair.ask(APPEND)
    payload = bytes(1_000_000)
    assert pair.ask(data(0, payload)) == data(0, payload)
    assert pair.client.peer_frame_bytes_max == 1 << 20


@pytest.mark.parametrize("state", [state for state in State if state not in (State.OPENING, State.CLOSED)])
def test_a_server_takes_large_frames_only_where_data_may_come(state: State) -> None:
    server = reach(state).server
    server.receive(frame_header(0x40, 1 << 20) + bytes(20_000))
    if state in (State.APPENDING, State.DISCARDING):
        assert server.next_event() is None
        assert (server.midway, server.midway_bytes) == (True, 20_005)
    else:
        with pytest.raises(ProtocolError, match="1 to 16384 are allowed"):
            server.next_event()
        assert server.midway_bytes == 0


def test_nobody_sends_a_frame_that_the_peer_does_not_take() -> None:
    pair = Pair(opened=False)
    pair.ask(HELLO)
    with pytest.raises(MisuseError, match="the peer takes 4096"):
        pair.client.send(m.Error(code=ErrorCode.PROTOCOL, fields={str(n): "x" * 1000 for n in range(5)}, message=""))
    pair.answer(WELCOME)
    pair.ask(APPEND)
    with pytest.raises(MisuseError, match="the peer takes 1048576"):
        pair.client.send_data(bytes(1 << 20))
    pair.client.send_data(bytes((1 << 20) - 13))


def test_a_server_that_takes_next_to_nothing_is_none() -> None:
    pair = Pair(opened=False)
    pair.ask(HELLO)
    pair.client.receive(encode(replace(WELCOME, frame_bytes_max=1000)))
    with pytest.raises(ProtocolError, match="1048576 is the least"):
        pair.client.next_event()


def test_requests_may_follow_hello_at_once() -> None:
    pair = Pair(opened=False)
    pair.server.receive(pair.client.send(HELLO) + pair.client.send(m.Ping(n=1)))
    assert pair.server.next_event() == HELLO
    pair.answer(WELCOME)
    assert pair.server.next_event() == m.Ping(n=1)


def test_what_is_kept_stays_when_its_buffer_changes() -> None:
    pair = Pair()
    buffer = bytearray(pair.client.send(m.Ping(n=1)) + pair.client.send(m.Ping(n=2)))
    pair.server.receive(memoryview(buffer))
    assert pair.server.next_event() == m.Ping(n=1)
    pair.server.keep_rest()
    buffer[:] = bytes(len(buffer))
    assert pair.server.next_event() == m.Ping(n=2)


def test_a_server_may_look_at_version_and_token_before_the_rest() -> None:
    seen: list[tuple[int, bytes | None]] = []

    def admit(version: int, token: bytes | None) -> None:
        seen.append((version, token))
        raise RefusedError(ErrorCode.AUTH)

    server = Connection(Role.SERVER, admit=admit)
    server.receive(frame_header(1, 60) + b"\x00\x01\x01" + b"t" * 32 + b"\xff" * 25)
    with pytest.raises(RefusedError):
        server.next_event()
    assert seen == [(1, b"t" * 32)]


def test_pipelined_requests_are_answered_in_order() -> None:
    pair = Pair()
    for message in (m.Stat(object="a"), APPEND, data(0, b"xyz"), m.End(), m.Ping(n=3), m.Stat(object="b")):
        assert pair.ask(message) == message
    assert pair.client.unanswered == pair.server.unanswered == 4
    with pytest.raises(MisuseError):
        pair.server.send(m.Appending(size=0))
    for answer in (REFUSAL, m.Appending(size=0), m.Ack(3, 0), m.Ack(3, 3), m.Pong(n=3), m.Ended(size=3), REFUSAL):
        pair.answer(answer)
    assert pair.client.unanswered == 0
    assert pair.client.state is pair.server.state is State.IDLE


def test_a_refused_append_discards_until_end() -> None:
    pair = Pair()
    pair.ask(APPEND)
    on_its_way = pair.client.send(data(0, b"lost")) + pair.client.send(m.Ping(n=1))
    pair.answer(REFUSAL)
    assert pair.client.state is pair.server.state is State.DISCARDING
    pair.server.receive(on_its_way)
    assert pair.server.next_event() == m.Ping(n=1)
    pair.answer(m.Pong(n=1))
    assert pair.ask(m.End()) is None
    assert pair.ask(m.Stat(object="o")) == m.Stat(object="o"), "and the connection is good for the next request"


def test_an_append_refused_after_its_end_discards_nothing() -> None:
    pair = Pair()
    for message in (APPEND, data(0, b"x"), m.End(), APPEND, data(0, b"y")):
        pair.ask(message)
    pair.answer(REFUSAL)
    assert pair.client.state is pair.server.state is State.APPENDING
    assert pair.answer(m.Appending(size=0)) == m.Appending(size=0)


def test_a_follow_that_is_over_is_left_by_stop() -> None:
    pair = Pair()
    pair.ask(FOLLOW)
    pair.answer(m.GetEnd(next_offset=0))
    assert {pair.client.state, pair.server.state} == {State.FOLLOWING}
    assert pair.ask(m.Stop()) is None
    assert {pair.client.state, pair.server.state} == {State.IDLE}


def bad(*messages: Message) -> tuple[Message, ...]:
    return messages


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        ((APPEND,), bad(m.Ack(0, 0))),
        ((APPEND,), bad(m.Appending(size=1))),
        ((APPEND,), bad(m.Appending(size=0), m.Appending(size=0))),
        ((APPEND, data(0, b"ab")), bad(m.Appending(size=0), m.Ack(3, 0))),
        ((APPEND, data(0, b"ab")), bad(m.Appending(size=0), m.Ack(2, 1), m.Ack(1, 1))),
        ((APPEND, data(0, b"ab")), bad(m.Appending(size=0), m.Ack(2, 1), m.Ack(2, 0))),
        ((APPEND, data(0, b"ab")), bad(m.Appending(size=0), m.Ended(size=2))),
        ((APPEND, data(0, b"ab"), m.End()), bad(m.Appending(size=0), m.Ended(size=1))),
        ((APPEND, m.End()), bad(m.Ended(size=0))),
        ((FOLLOW,), bad(data(1, b"gap"))),
        ((FOLLOW,), bad(data(0, b"a"), data(0, b"again"))),
        ((FOLLOW,), bad(m.GetEnd(next_offset=1))),
        ((m.Get(object="o", offset=5, length=2, follow=False),), bad(data(5, b"long"))),
        ((), bad(m.Pong(n=1))),
        ((), bad(m.Fenced(epoch=1))),
        ((m.Unknown(type_code=0x3F),), bad(m.Deleted())),
    ],
    ids=str,
)
def test_answers_that_cannot_be_true(asked: tuple[Message, ...], answers: tuple[Message, ...]) -> None:
    pair = Pair()
    for message in asked:
        pair.ask(message)
    for answer in answers[:-1]:
        pair.answer(answer)
    with pytest.raises(MisuseError):
        pair.server.send(answers[-1])
    pair.client.receive(encode(answers[-1]))
    with pytest.raises(ProtocolError):
        pair.client.next_event()


@pytest.mark.parametrize("offset", [0, 3, 5, 1 << 62])
def test_appended_data_has_no_gaps(offset: int) -> None:
    pair = Pair()
    pair.ask(APPEND)
    pair.ask(data(0, b"abcd"))
    with pytest.raises(MisuseError):
        pair.client.send(data(offset, b"x"))
    pair.server.receive(encode(data(offset, b"x")))
    with pytest.raises(ProtocolError, match="where 4 comes next"):
        pair.server.next_event()


def test_a_wrong_crc_is_broken_protocol() -> None:
    pair = Pair()
    pair.ask(APPEND)
    pair.server.receive(encode(m.Data(0, 1, b"x")))
    with pytest.raises(ProtocolError, match="CRC"):
        pair.server.next_event()


def test_data_is_sent_without_copying_it() -> None:
    pair = Pair()
    pair.ask(APPEND)
    for payload in (b"hello", b"world"):
        pair.server.receive(pair.client.send_data(payload) + payload)
    assert pair.server.next_event() == data(0, b"hello")
    assert pair.server.next_event() == data(5, b"world")
    pair.ask(m.End())
    pair.answer(m.Appending(size=0))
    pair.answer(m.Ended(size=10))
    pair.ask(m.Get(object="o", offset=3, length=2, follow=False))
    pair.client.receive(pair.server.send_data(b"lo") + b"lo")
    assert pair.client.next_event() == data(3, b"lo")
    with pytest.raises(MisuseError):
        pair.server.send_data(b"beyond")


@pytest.mark.parametrize("state", [State.IDLE, State.DISCARDING, State.FOLLOWING, State.CLOSED, State.OPENING])
def test_data_is_sent_only_by_an_append_or_for_a_get(state: State) -> None:
    pair = reach(state)
    with pytest.raises(MisuseError):
        pair.client.send_data(b"x")
    if state is not State.FOLLOWING:
        with pytest.raises(MisuseError):
            pair.server.send_data(b"x")


def test_an_error_that_closes_may_come_at_any_time_and_ends_everything() -> None:
    for state in State:
        pair = reach(state)
        leaving = m.Error.because(ErrorCode.SHUTTING_DOWN)
        assert pair.answer(leaving) == leaving
        assert pair.client.broken
        assert pair.server.broken
        with pytest.raises(MisuseError, match="the connection is over"):
            pair.client.send(m.Ping(n=1))
        with pytest.raises(MisuseError):
            pair.server.send_data(b"x")


def test_after_broken_protocol_a_server_can_say_so() -> None:
    server = Connection(Role.SERVER)
    server.receive(bytes(4))
    with pytest.raises(ProtocolError):
        server.next_event()
    client = Connection(Role.CLIENT)
    client.receive(server.send(m.Error.because(ErrorCode.PROTOCOL)))
    error = client.next_event()
    assert isinstance(error, m.Error)
    assert error.as_error().code is ErrorCode.PROTOCOL


def test_an_error_is_a_refusal_on_its_way() -> None:
    refusal = RefusedError(ErrorCode.WRONG_SIZE, size=5, crc=1, epoch=2)
    again = m.Error.of(refusal).as_error()
    assert (again.code, again.fields, str(again)) == (refusal.code, refusal.fields, str(refusal))
    long = RefusedError(ErrorCode.IO_ERROR, "€" * 5000)
    encode(m.Error.of(long))


def test_requests_without_an_answer_are_bounded() -> None:
    pair = Pair()
    for number in range(1024):
        pair.ask(m.Ping(n=number) if number % 2 else m.Stat(object="o"))
    for message in (m.Ping(n=0), m.Stat(object="o")):
        with pytest.raises(MisuseError, match="more than 1024"):
            pair.client.send(message)
    pair.server.receive(encode(m.Ping(n=0)))
    with pytest.raises(ProtocolError):
        pair.server.next_event()


@settings(max_examples=300)
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=60), max_size=8), role=st.sampled_from(Role), opened=st.booleans()
)
def test_any_bytes_never_do_more_than_break_the_protocol(*, pieces: list[bytes], role: Role, opened: bool) -> None:
    pair = Pair(opened=opened)
    connection = pair.client if role is Role.CLIENT else pair.server
    try:
        for piece in pieces:
            connection.receive(piece)
            while connection.next_event() is not None:
                pass
    except ProtocolError:
        assert connection.broken
