"""What the coverage-guided fuzzer runs: any bytes into either end of a connection, and into the decoders directly.

    python -m tests.fuzz.wire_target CORPUS_DIRECTORY -runs=100000

The first byte chooses what is fed. CRCs of DATA are put right now and then, or no fuzzer would ever get after them.
Whatever happens that is not a ProtocolError, or takes memory, is a finding, and ends the run.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["sos_client.wire"]):
    from sos_client.wire import codec
    from sos_client.wire import messages as m
    from sos_client.wire.checksum import crc32c
    from sos_client.wire.connection import Connection, Role
    from sos_client.wire.errors import ProtocolError
    from sos_client.wire.frames import FrameSplitter, frame_header
    from sos_client.wire.limits import FRAME_BYTES_MAX_BEFORE_HELLO

IDENTITY = bytes(16)
HELLO = m.Hello(version=1, token=None, client="fuzz", instance=IDENTITY)
WELCOME = m.Welcome(version=1, server_identity=IDENTITY, frame_bytes_max=1 << 22, server_time=0.0)
ASKED: tuple[tuple[m.Request, ...], ...] = (
    (),
    (m.Use(namespace="n", create=True), m.Stat(object="o"), m.List(after="", limit=1000), m.Quit()),
    (m.Append(object="o", size=0, prefix_crc=None, epoch=0, holder=b""), m.Ping(n=1)),
    (m.Get(object="o", offset=0, length=None, follow=True),),
)


def fuzz(data: bytes) -> None:
    """One input."""
    if not data:
        return
    choice, data = data[0], data[1:]
    try:
        if choice % 4 == 0:
            _decode(choice, data)
        elif choice % 4 == 1:
            _feed(_server(opened=choice & 4 != 0), data, piece_bytes=choice // 8 + 1)
        elif choice % 4 == 2:
            _feed(_client(ASKED[choice // 4 % len(ASKED)]), data, piece_bytes=choice // 16 + 1)
        else:
            _feed(_server(opened=True), _with_true_crcs(data), piece_bytes=1 << 16)
    except ProtocolError:
        return


def _decode(choice: int, data: bytes) -> None:
    read = codec.decode_answer if choice & 4 else codec.decode_request
    message = read(data[0] if data else 0, data[1:])
    if not isinstance(message, m.Unknown | m.Hello):
        assert read(data[0], codec.encode(message)[5:]) == message


def _server(*, opened: bool) -> Connection:
    connection = Connection(Role.SERVER)
    if opened:
        connection.receive(codec.encode(HELLO))
        connection.next_event()
        connection.send(WELCOME)
    return connection


def _client(requests: tuple[m.Request, ...]) -> Connection:
    connection = Connection(Role.CLIENT)
    connection.send(HELLO)
    connection.receive(codec.encode(WELCOME))
    connection.next_event()
    for request in requests:
        connection.send(request)
    return connection


def _feed(connection: Connection, data: bytes, *, piece_bytes: int) -> None:
    for start in range(0, len(data), piece_bytes):
        connection.receive(data[start : start + piece_bytes])
        while connection.next_event() is not None:
            pass


def _with_true_crcs(data: bytes) -> bytes:
    """The same frames, but that the CRC in each DATA is the one of its payload."""
    splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX_BEFORE_HELLO)
    splitter.feed(data)
    frames = []
    while (frame := splitter.next_frame()) is not None:
        type_code, body = frame[0], bytes(frame[1])
        if type_code == m.MessageType.DATA and len(body) > 12:
            body = body[:8] + crc32c(body[12:]).to_bytes(4, "big") + body[12:]
        frames.append(frame_header(type_code, len(body)) + body)
    return b"".join(frames)


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()
