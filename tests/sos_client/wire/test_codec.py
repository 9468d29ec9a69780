"""Messages and their bytes: the vectors, any value there and back, any bytes to a value or an error, bounded memory."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sos_client.wire import codec
from sos_client.wire import messages as m
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, MisuseError, ProtocolError
from sos_client.wire.frames import FrameSplitter
from sos_client.wire.limits import CONTROL_BYTES_MAX, DATA_BYTES_MAX, FRAME_BYTES_MAX
from sos_client.wire.messages import MessageType
from sos_client.wire.msgpack_edge import pack, unpack
from tests.sos_client.wire.vectors import Vector, load_frames

if TYPE_CHECKING:
    from sos_client.wire.messages import Message

GOOD = load_frames("wire_frames.json")
BAD = load_frames("wire_refused.json")


def decode(sender: str, frame: bytes) -> Message:
    """The one message in these bytes, read whole."""
    splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX)
    splitter.feed(frame)
    found = splitter.next_frame()
    assert found is not None
    return codec.decode_request(*found) if sender == "client" else codec.decode_answer(*found)


@pytest.mark.parametrize("vector", GOOD, ids=lambda vector: vector.name)
def test_vectors(vector: Vector) -> None:
    assert vector.message is not None
    assert codec.encode(vector.message).hex() == vector.frame.hex()
    assert decode(vector.sender, vector.frame) == vector.message
    assert decode(vector.sender, vector.frame + b"\xff\xff\xff\xff junk") == vector.message


@pytest.mark.parametrize("vector", GOOD, ids=lambda vector: vector.name)
def test_vectors_byte_by_byte(vector: Vector) -> None:
    splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX)
    for position in range(len(vector.frame)):
        assert splitter.next_frame() is None
        splitter.feed(vector.frame[position : position + 1])
    found = splitter.next_frame()
    assert found is not None
    decoded = codec.decode_request(*found) if vector.sender == "client" else codec.decode_answer(*found)
    assert decoded == vector.message


@pytest.mark.parametrize("vector", BAD, ids=lambda vector: vector.name)
def test_vectors_that_break_the_protocol(vector: Vector) -> None:
    with pytest.raises(ProtocolError):
        decode(vector.sender, vector.frame)


def test_every_type_is_in_the_vectors() -> None:
    seen = {type(vector.message) for vector in GOOD}
    assert {kind.__name__ for kind in seen} >= {kind.name.title().replace("_", "") for kind in m.MessageType}


OFFSETS = st.integers(0, (1 << 63) - 1)
CRCS = st.integers(0, (1 << 32) - 1)
IDENTITIES = st.binary(min_size=16, max_size=16)
HOLDERS = st.just(b"") | IDENTITIES
TEXTS = st.text(max_size=256)
SECONDS = st.floats(allow_nan=False, allow_infinity=False)
FIELDS = st.integers(-(1 << 63), (1 << 64) - 1) | TEXTS | st.binary(max_size=1024) | st.booleans() | st.none()
INFOS = st.builds(
    m.ObjectInfo,
    name=TEXTS,
    size=OFFSETS,
    sealed=st.booleans(),
    epoch=OFFSETS,
    crc=CRCS,
    server_time=SECONDS,
    cut_bytes=OFFSETS,
    damaged=st.booleans(),
)
DATA = st.builds(
    lambda offset, payload: m.Data(offset, crc32c(payload), payload), OFFSETS, st.binary(min_size=1, max_size=300)
)
TOKENS = st.none() | st.binary(min_size=32, max_size=32)
REQUESTS: st.SearchStrategy[Message] = st.one_of(
    st.builds(m.Hello, version=st.just(1), token=TOKENS, client=TEXTS, instance=IDENTITIES),
    st.builds(m.Use, namespace=TEXTS, create=st.booleans()),
    st.builds(m.Fence, epoch=OFFSETS, holder=IDENTITIES),
    st.builds(m.Append, object=TEXTS, size=OFFSETS, prefix_crc=st.none() | CRCS, epoch=OFFSETS, holder=HOLDERS),
    DATA,
    st.builds(m.End),
    st.builds(m.Seal, object=TEXTS, size=OFFSETS, epoch=OFFSETS, holder=HOLDERS),
    st.builds(m.Get, object=TEXTS, offset=OFFSETS, length=st.none() | OFFSETS, follow=st.booleans()),
    st.builds(m.Stop),
    st.builds(m.Stat, object=TEXTS),
    st.builds(m.List, after=TEXTS, limit=st.integers(1, 1000)),
    st.builds(m.Delete, object=TEXTS, epoch=OFFSETS, holder=HOLDERS),
    st.builds(m.Ping, n=OFFSETS),
    st.builds(m.Quit),
    st.builds(m.Unknown, type_code=st.integers(0x41, 0x7F)),
)
ANSWERS: st.SearchStrategy[Message] = st.one_of(
    st.builds(m.Welcome, version=st.just(1), server_identity=IDENTITIES, frame_bytes_max=OFFSETS, server_time=SECONDS),
    st.builds(m.Using, incarnation=IDENTITIES, epoch=OFFSETS, holder=HOLDERS),
    st.builds(m.Fenced, epoch=OFFSETS),
    st.builds(m.Appending, size=OFFSETS),
    st.tuples(OFFSETS, OFFSETS).map(lambda pair: m.Ack(max(pair), min(pair))),
    st.builds(m.Ended, size=OFFSETS),
    st.builds(m.Sealed, size=OFFSETS, crc=CRCS),
    DATA,
    st.builds(m.GetEnd, next_offset=OFFSETS),
    INFOS,
    st.builds(m.Listing, entries=st.lists(INFOS, max_size=20).map(tuple), more=st.booleans()),
    st.builds(m.Deleted),
    st.builds(m.Pong, n=OFFSETS),
    st.builds(m.Bye),
    st.builds(
        m.Error,
        code=st.sampled_from(ErrorCode),
        fields=st.dictionaries(TEXTS, FIELDS, max_size=16),
        message=TEXTS,
    ),
)


@given(REQUESTS)
def test_any_request_there_and_back(message: Message) -> None:
    assert decode("client", codec.encode(message)) == message


@given(ANSWERS)
def test_any_answer_there_and_back(message: Message) -> None:
    assert decode("server", codec.encode(message)) == message


@settings(max_examples=1000)
@given(st.integers(0, 255), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_broken_protocol(type_code: int, body: bytes) -> None:
    for read in (codec.decode_request, codec.decode_answer):
        try:
            message = read(type_code, memoryview(body))
        except ProtocolError:
            continue
        if isinstance(message, m.Hello) and message.version != 1:
            continue  # the rest of it was not looked at
        if not isinstance(message, m.Unknown):
            assert read(type_code, codec.encode(message)[5:]) == message, "what was read can be written"


@settings(max_examples=1000)
@given(REQUESTS | ANSWERS, st.data())
def test_a_changed_byte_is_a_message_or_broken_protocol(message: Message, data: st.DataObject) -> None:
    frame = bytearray(codec.encode(message))
    position = data.draw(st.integers(4, len(frame) - 1))
    frame[position] = data.draw(st.integers(0, 255))
    for sender in ("client", "server"):
        try:
            decode(sender, bytes(frame))
        except ProtocolError:
            continue


@pytest.mark.parametrize(
    "header", [b"\x91", b"\xdc\x00\x10", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x81\xa1a"]
)
@pytest.mark.parametrize("type_code", [m.MessageType.USE, m.MessageType.LISTING, m.MessageType.ERROR])
def test_nested_headers_cost_little_memory(header: bytes, type_code: int) -> None:
    body = header * (60_000 // len(header))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            (codec.decode_request if type_code < 0x80 else codec.decode_answer)(type_code, body)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [{}, [], [[]], [{}, True], [[], 1], [[], True, True], [[None], True]])
def test_a_listing_that_is_none(value: object) -> None:
    with pytest.raises(ProtocolError):
        codec.decode_answer(MessageType.LISTING, memoryview(pack(value)))


def test_a_control_body_has_a_maximum_of_its_own() -> None:
    with pytest.raises(ProtocolError, match="only DATA"):
        codec.decode_request(m.MessageType.USE, bytes(CONTROL_BYTES_MAX + 1))


def test_hello_of_another_version_is_not_read_any_further() -> None:
    hello = codec.decode_request(m.MessageType.HELLO, b"\x00\x02" + b"\xff" * 40)
    assert hello == m.Hello(version=2, token=None, client="", instance=bytes(16))


def test_a_token_is_not_shown() -> None:
    hello = m.Hello(version=1, token=b"secret" + bytes(26), client="x", instance=bytes(16))
    assert "secret" not in repr(hello)


@pytest.mark.parametrize(
    "message",
    [
        m.Fence(epoch=1, holder=b"short"),
        m.Fence(epoch=-1, holder=bytes(16)),
        m.Use(namespace="x" * 1025, create=False),
        m.Use(namespace="\ud800", create=False),
        m.List(after="", limit=0),
        m.Hello(version=1, token=b"short", client="", instance=bytes(16)),
        m.Hello(version=1 << 16, token=None, client="", instance=bytes(16)),
        m.Hello(version=1, token=None, client="", instance=b"short"),
        m.Data(0, 0, b""),
        m.Data(0, 0, bytes(DATA_BYTES_MAX + 1)),
        m.Error(code=ErrorCode.BUSY, fields={str(n): 0 for n in range(17)}, message=""),
        m.Error(code=ErrorCode.BUSY, fields={"n": 1 << 70}, message=""),
        m.Error(code=ErrorCode.BUSY, fields={}, message="x" * 1025),
        m.Listing(
            entries=(m.ObjectInfo(name="o", size=-1, sealed=False, epoch=0, crc=0, server_time=0.0),), more=False
        ),
    ],
    ids=repr,
)
def test_what_a_message_cannot_hold_is_found_before_it_is_sent(message: Message) -> None:
    with pytest.raises(MisuseError):
        codec.encode(message)


def test_data_is_not_copied() -> None:
    frame = codec.encode(m.Data(5, crc32c(b"abc"), b"abc"))
    data = codec.decode_data(memoryview(frame)[5:])
    assert isinstance(data.payload, memoryview)
    assert data.payload.obj is frame


def test_msgpack_edge() -> None:
    assert unpack(pack(["a", b"b", 1, None, True, 1.5])) == ["a", b"b", 1, None, True, 1.5]
    assert unpack(pack({"a": [1]}), map_max=1) == {"a": [1]}
    with pytest.raises(MisuseError):
        pack(object())
    for bad in (b"", b"\x01\x02", b"\xc1", b"\xd4\x01\x00", b"\x81\x01\x01"):
        with pytest.raises(ProtocolError):
            unpack(bad, map_max=1)
