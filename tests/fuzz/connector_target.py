"""What the coverage-guided fuzzer runs: any bytes into each role of the connector protocol, in any state.

    python -m tests.fuzz.connector_target CORPUS_DIRECTORY -runs=100000

The first byte chooses the role, how far the connection is, and the pieces in which the rest arrives. Whatever happens
that is not a ProtocolError, or takes memory, is a finding, and ends the run.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["connectors.wire", "sos_client.wire"]):
    from connectors.wire.codec import decode, encode
    from connectors.wire.frames import (
        EosFrame,
        Frame,
        HelloFrame,
        MessageFrame,
        NotifyAckFrame,
        NotifyFrame,
        OkFrame,
    )
    from connectors.wire.limits import FRAME_BYTES_MAX_BEFORE_OK, NOTHING_SEEN
    from connectors.wire.session import ConnectorRole, ConnectorSession
    from connectors.wire.two_phase import PhaseOne, disclose, enclose
    from sos_client.wire.errors import ProtocolError

OPENED: tuple[Frame, ...] = (
    HelloFrame(version="0.0.1", cookie=b"", program="fuzz", instance="i"),
    OkFrame(initial_credits=1000),
    NotifyFrame(stream_id=1, stream_name="s", point_of_reference=0),
    NotifyAckFrame(accepted=True, stream_id=1, point_of_reference=NOTHING_SEEN),
)
ROLES = tuple(ConnectorRole)
PHASE_1 = enclose(PhaseOne(transaction="t", ranges=((1, 0, 9),)))


def fuzz(data: bytes) -> None:
    """One input."""
    if not data:
        return
    choice, data = data[0], data[1:]
    try:
        if choice == 0:
            _decode(data)
        else:
            _feed(_session(ROLES[choice % 4], steps=choice // 4 % 8), data, piece_bytes=choice // 32 * 7 + 1)
    except ProtocolError:
        return


def _decode(data: bytes) -> None:
    frame = decode(data[0] if data else 0, memoryview(data)[1:])
    if isinstance(frame, MessageFrame):
        inner = disclose(frame) if frame.stream_id == 0 else None
        assert inner is None or disclose(enclose(inner)) == inner
    assert isinstance(frame, OkFrame | EosFrame) or decode(data[0], memoryview(encode(frame))[5:]) == frame


def _session(role: ConnectorRole, *, steps: int) -> ConnectorSession:
    """A connection that has come so far."""
    session = ConnectorSession(role)
    opens = role in (ConnectorRole.SOURCE, ConnectorRole.RELAY)
    for number, frame in enumerate(OPENED[:steps]):
        if opens is (number % 2 == 0):
            session.send(frame)
        else:
            session.receive(encode(frame))
            session.next_frame()
    if steps > len(OPENED) and role is ConnectorRole.RELAY:
        session.send(PHASE_1)
    return session


def _feed(session: ConnectorSession, data: bytes, *, piece_bytes: int) -> None:
    listens = session.role is ConnectorRole.LISTENER
    for start in range(0, len(data), piece_bytes):
        session.receive(data[start : start + piece_bytes])
        while (listens and session.next_messages() is not None) or session.next_frame() is not None:
            pass
        assert session.midway_bytes <= max(len(data), FRAME_BYTES_MAX_BEFORE_OK)


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()
