"""Runs of DATA frames: the same bytes, and the same errors, as one message for each frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sos_client.wire import messages as m
from sos_client.wire.checksum import crc32c
from sos_client.wire.codec import encode
from sos_client.wire.connection import Connection, Role
from sos_client.wire.data_run import DataRun
from sos_client.wire.errors import MisuseError, ProtocolError
from sos_client.wire.frames import frame_header
from sos_client.wire.limits import DATA_BYTES_MAX, DATA_HEADER_BYTES, FRAME_BYTES_MAX_LEAST

HELLO = m.Hello(version=1, token=None, client="test", instance=bytes(16))
APPEND = m.Append(object="o", size=0, prefix_crc=None, epoch=0, holder=b"")

EMPTY_DATA = frame_header(m.MessageType.DATA, DATA_HEADER_BYTES) + bytes(DATA_HEADER_BYTES)


def appending(frame_bytes_max: int = FRAME_BYTES_MAX_LEAST) -> Connection:
    """A server's connection where an append at 0 has begun."""
    server = Connection(Role.SERVER, frame_bytes_max=frame_bytes_max)
    server.receive(encode(HELLO))
    assert isinstance(server.next_event(), m.Hello)
    server.send(m.Welcome(version=1, server_identity=bytes(16), frame_bytes_max=FRAME_BYTES_MAX_LEAST, server_time=0.0))
    server.receive(encode(APPEND))
    assert server.next_run() is None
    assert isinstance(server.next_event(), m.Append)
    return server


def frame(offset: int, payload: bytes, crc: int | None = None) -> bytes:
    return encode(m.Data(offset, crc32c(payload) if crc is None else crc, payload))


def taken(server: Connection, first: DataRun | None = None) -> list[tuple[int, int, bytes] | m.Message]:
    """Everything there is: runs first, else events, payloads copied."""
    got: list[tuple[int, int, bytes] | m.Message] = []
    while True:
        run, first = first or server.next_run(), None
        if run is not None:
            offset = run.offset
            for crc, payload in zip(run.crcs, run.payloads, strict=True):
                got.append((offset, crc, bytes(payload)))
                offset += len(payload)
            assert offset == run.end
        elif (event := server.next_event()) is None:
            return got
        elif isinstance(event, m.Data):
            got.append((event.offset, event.crc, bytes(event.payload)))
        else:
            got.append(event)


@given(
    st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=12),
    st.lists(st.integers(1, 60)),
    st.booleans(),
    st.booleans(),
)
def test_however_bytes_arrive_all_of_them_come_out_in_order(
    payloads: list[bytes],
    cuts: list[int],
    at_once: bool,  # noqa: FBT001
    between_frames: bool,  # noqa: FBT001
) -> None:
    stream, expected, offset = b"", [], 0
    if between_frames:
        cuts = [len(frame(0, payload)) for payload in payloads]
    for payload in payloads:
        stream += frame(offset, payload)
        expected.append((offset, crc32c(payload), payload))
        offset += len(payload)
    stream += encode(m.Ping(n=7)) + frame(offset, b"last")
    server, got = appending(), []
    for cut in [*cuts, len(stream)]:
        if at_once:
            got += taken(server, server.receive_run(memoryview(bytearray(stream[:cut]))))
        else:
            server.receive(bytearray(stream[:cut]))
            got += taken(server)
        stream = stream[cut:]
    assert got == [*expected, m.Ping(n=7), (offset, crc32c(b"last"), b"last")]
    assert server.drained


def test_what_arrived_together_is_one_run() -> None:
    server = appending()
    server.receive(frame(0, b"ab") + frame(2, b"c") + frame(3, b"defg")[:-1])
    run = server.next_run()
    assert run is not None
    assert (run.offset, run.end, len(run.payloads)) == (0, 3, 2)
    assert not server.drained
    assert server.next_run() is None
    assert server.next_event() is None
    assert server.midway
    assert not server.drained


@pytest.mark.parametrize(
    "bad",
    [frame(2, b"xyz", crc=1), frame(3, b"gap"), frame(1, b"again"), frame(2, bytes(FRAME_BYTES_MAX_LEAST))],
    ids=["crc", "gap", "again", "too long"],
)
def test_a_bad_frame_ends_the_run_and_is_refused_as_an_event(bad: bytes) -> None:
    server = appending()
    server.receive(frame(0, b"ab") + bad + frame(5, b"never"))
    run = server.next_run()
    assert run is not None
    assert run.end == 2
    assert server.next_run() is None
    with pytest.raises(ProtocolError):
        server.next_event()
    assert server.broken
    assert server.next_run() is None


@pytest.mark.parametrize(
    "bad",
    [frame(0, b"xyz", crc=1), frame(3, b"gap"), frame(0, bytes(FRAME_BYTES_MAX_LEAST)), EMPTY_DATA],
    ids=["crc", "gap", "too long", "empty"],
)
def test_a_bad_frame_that_comes_alone_is_refused_as_an_event(bad: bytes) -> None:
    server = appending()
    assert server.receive_run(memoryview(bad)) is None
    with pytest.raises(ProtocolError):
        server.next_event()
    assert server.broken
    assert server.receive_run(memoryview(frame(0, b"never"))) is None


def test_a_frame_that_comes_alone_costs_the_splitter_nothing_and_is_counted() -> None:
    server = appending()
    run = server.receive_run(memoryview(frame(0, b"abc")))
    assert run == DataRun(0, 3, [memoryview(b"abc")], [crc32c(b"abc")])
    assert server.drained
    assert server.receive_run(memoryview(encode(m.Ping(n=1)))) is None
    assert server.next_event() == m.Ping(n=1)
    assert server.receive_run(memoryview(frame(3, b"d"))) == DataRun(3, 4, [memoryview(b"d")], [crc32c(b"d")])


def test_nothing_is_a_run_outside_of_an_append() -> None:
    server = appending()
    server.receive(encode(m.End()) + frame(0, b"late"))
    assert server.next_run() is None
    assert isinstance(server.next_event(), m.End)
    assert server.next_run() is None
    with pytest.raises(ProtocolError):
        server.next_event()


def test_the_longest_payload_may_be_in_a_run() -> None:
    server = appending(frame_bytes_max=DATA_BYTES_MAX + 13)
    server.receive(frame(0, bytes(DATA_BYTES_MAX)))
    run = server.next_run()
    assert run is not None
    assert run.end == DATA_BYTES_MAX


def test_an_ack_is_the_one_that_send_makes_and_no_more_is_allowed() -> None:
    server, model = appending(), appending()
    for connection in (server, model):
        connection.send(m.Appending(size=0))
        connection.receive(frame(0, b"abc"))
        assert taken(connection) == [(0, crc32c(b"abc"), b"abc")]
    assert server.acknowledge(3, 2) == model.send(m.Ack(3, 2))
    for written, synced in ((4, 2), (3, 1), (2, 3)):
        with pytest.raises(MisuseError):
            server.acknowledge(written, synced)
    assert server.acknowledge(3, 3) == model.send(m.Ack(3, 3))
    with pytest.raises(MisuseError):
        Connection(Role.SERVER).acknowledge(0, 0)
