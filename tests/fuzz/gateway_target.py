"""What the coverage-guided fuzzer runs against the file protocol: any bytes into its decoders, cut into frames or not.

    python -m tests.fuzz.gateway_target CORPUS_DIRECTORY -runs=100000

The first byte chooses what is fed. CRCs of PUT and DATA are put right now and then. Whatever happens that is not a
ProtocolError, or takes memory, is a finding, and ends the run.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["journal.gateway", "sos_client.wire"]):
    from journal.gateway.wire import messages as m
    from journal.gateway.wire.decoding import decode_answer, decode_request
    from journal.gateway.wire.encoding import encode
    from journal.gateway.wire.limits import FRAME_BYTES_MAX_BEFORE_HELLO, SHARED_VERSION
    from journal.gateway.wire.tagging import tagged, untagged
    from sos_client.wire.checksum import crc32c
    from sos_client.wire.errors import ProtocolError
    from sos_client.wire.frames import FrameSplitter, frame_header


def fuzz(data: bytes) -> None:
    """One input."""
    if not data:
        return
    choice, data = data[0], data[1:]
    try:
        if choice % 2 == 0:
            _check(data[:1], data[1:], answers=choice & 2 != 0)
        elif choice & 4:
            _check_tagged(data, answers=choice & 2 != 0)
        else:
            splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX_BEFORE_HELLO)
            splitter.feed(data)
            while (frame := splitter.next_frame()) is not None:
                _check(bytes([frame[0]]), _with_true_crc(frame[0], bytes(frame[1])), answers=choice & 2 != 0)
    except ProtocolError:
        return


def _check_tagged(data: bytes, *, answers: bool) -> None:
    """The same on a shared connection."""
    splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX_BEFORE_HELLO)
    splitter.feed(data)
    while (frame := splitter.next_frame()) is not None:
        tag, body = untagged(frame[1])
        whole = tagged(tag, frame_header(frame[0], len(body)) + bytes(body))
        assert whole == frame_header(frame[0], len(frame[1])) + bytes(frame[1])
        _check(bytes([frame[0]]), bytes(body), answers=answers)


def _check(type_code: bytes, body: bytes, *, answers: bool) -> None:
    """What can be decoded means the same when it is written down and read again."""
    decode = decode_answer if answers else decode_request
    message = decode(type_code[0] if type_code else 0, memoryview(body))
    if message is None or (isinstance(message, m.HelloRequest) and message.version > SHARED_VERSION):
        return
    assert decode(type_code[0], memoryview(encode(message)[5:])) == message


def _with_true_crc(type_code: int, body: bytes) -> bytes:
    if type_code == m.FileMessageType.DATA and len(body) > 12:
        return body[:8] + crc32c(body[12:]).to_bytes(4, "big") + body[12:]
    return body


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()
