"""Frames as Wallaroo's own encoder wrote them are read and written here, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connectors.wire.codec import decode, encode
from connectors.wire.frames import (
    AckFrame,
    EosFrame,
    ErrorFrame,
    HelloFrame,
    MessageFrame,
    NotifyAckFrame,
    NotifyFrame,
    OkFrame,
    RestartFrame,
)
from connectors.wire.limits import NOTHING_SEEN, U32_MAX
from connectors.wire.two_phase import (
    ListUncommitted,
    PhaseOne,
    PhaseTwo,
    ReplyUncommitted,
    Vote,
    WorkersLeft,
    disclose,
    enclose,
)
from sos_client.wire.errors import MisuseError, ProtocolError

if TYPE_CHECKING:
    from connectors.wire.frames import Frame
    from connectors.wire.two_phase import TwoPhaseMessage

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "connector_frames_wallaroo.json").read_text(encoding="utf-8")
)
BY_NAME = {vector["name"]: vector for vector in VECTORS}
COOKIE = b"Dragons-Love-Tacos"

FRAMES: dict[str, Frame] = {
    "HELLO source": HelloFrame(version="0.0.1", cookie=COOKIE, program="celsius at least once", instance="instance"),
    "HELLO sink": HelloFrame(version="v0.0.1", cookie=COOKIE, program="app", instance="initializer"),
    "HELLO empty": HelloFrame(version="", cookie=b"", program="", instance=""),
    "HELLO utf-8": HelloFrame(version="0.0.1", cookie=b"", program="p", instance="näme"),
    "OK 500": OkFrame(initial_credits=500),
    "OK max": OkFrame(initial_credits=U32_MAX),
    "ERROR": ErrorFrame(reason="Bad cookie: x, wanted: y"),
    "NOTIFY": NotifyFrame(stream_id=1, stream_name="stream-1", point_of_reference=0),
    "NOTIFY big id": NotifyFrame(
        stream_id=0x8000000000000001, stream_name="/tmp/input-file.A.txt", point_of_reference=4096
    ),
    "NOTIFY_ACK new": NotifyAckFrame(accepted=True, stream_id=1, point_of_reference=NOTHING_SEEN),
    "NOTIFY_ACK resume": NotifyAckFrame(accepted=True, stream_id=1, point_of_reference=4096),
    "NOTIFY_ACK refused": NotifyAckFrame(accepted=False, stream_id=1, point_of_reference=0),
    "MESSAGE no key": MessageFrame(1, 10, 0, b"", b"hello"),
    "MESSAGE key": MessageFrame(1, 11, 1234567890123456789, b"A", b"hello"),
    "MESSAGE negative time": MessageFrame(1, 12, -1, b"A", b"x"),
    "MESSAGE min time": MessageFrame(NOTHING_SEEN, NOTHING_SEEN, -(2**63), b"", b""),
    "MESSAGE binary": MessageFrame(7, 1, 0, b"\x00\xff", b"\x00\x01\xfe\xff"),
    "EOS_MESSAGE": EosFrame(stream_id=1),
    "ACK credits only": AckFrame(credits=10),
    "ACK": AckFrame(credits=10, points=((1, 10), (2, 4096))),
    "ACK zero credits": AckFrame(credits=0, points=((1, NOTHING_SEEN),)),
    "RESTART no address": RestartFrame(),
    "RESTART address": RestartFrame(address="127.0.0.1:5555"),
}
TWO_PHASE: dict[str, TwoPhaseMessage] = {
    "2PC LIST_UNCOMMITTED": ListUncommitted(tag=1),
    "2PC REPLY_UNCOMMITTED none": ReplyUncommitted(tag=1, transactions=()),
    "2PC REPLY_UNCOMMITTED one": ReplyUncommitted(tag=1, transactions=("app:c_id=3",)),
    "2PC REPLY_UNCOMMITTED non-ascii": ReplyUncommitted(tag=1, transactions=("t\udcc3",)),
    "2PC PHASE1": PhaseOne(transaction="app:c_id=3", ranges=((1, 0, 4096),)),
    "2PC PHASE1 empty range": PhaseOne(transaction="app:c_id=4", ranges=((1, 4096, 4096),)),
    "2PC REPLY commit": Vote(transaction="app:c_id=3", commit=True),
    "2PC REPLY abort": Vote(transaction="app:c_id=3", commit=False),
    "2PC PHASE2 commit": PhaseTwo(transaction="app:c_id=3", commit=True),
    "2PC PHASE2 abort": PhaseTwo(transaction="app:c_id=3", commit=False),
    "2PC WORKERS_LEFT": WorkersLeft(tag=2, workers=("worker3", "w2")),
}
PROBES: dict[str, Frame | None] = {
    "decode: RESTART with no field (seed document)": RestartFrame(),
    "decode: EOS with MessageId (seed document)": EosFrame(stream_id=1),
    "decode: OK with trailing bytes": OkFrame(initial_credits=5),
    "decode: ERROR without its length": None,
    "decode: MESSAGE cut inside the key": None,
    "decode: unknown tag 9": None,
    "decode: unknown tag 200": None,
    "decode: empty frame": None,
}


def test_each_vector_has_its_meaning_here() -> None:
    assert FRAMES.keys() | TWO_PHASE.keys() | PROBES.keys() == BY_NAME.keys()


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame(name: str) -> None:
    data = bytes.fromhex(BY_NAME[name]["hex"])
    assert len(data) == BY_NAME[name]["length"]
    assert encode(FRAMES[name]) == data
    assert decode(data[4], memoryview(data)[5:]) == FRAMES[name]


@pytest.mark.parametrize("name", TWO_PHASE)
def test_a_two_phase_message(name: str) -> None:
    data = bytes.fromhex(BY_NAME[name]["hex"])
    assert encode(enclose(TWO_PHASE[name])) == data
    frame = decode(data[4], memoryview(data)[5:])
    assert isinstance(frame, MessageFrame)
    assert bytes(frame.payload).hex() == BY_NAME[name]["inner_hex"]
    assert disclose(frame) == TWO_PHASE[name]


@pytest.mark.parametrize("name", TWO_PHASE)
def test_a_two_phase_message_with_the_length_of_the_document(name: str) -> None:
    inner = bytes.fromhex(BY_NAME[name]["inner_hex"])
    frame = MessageFrame(0, 0, payload=len(inner).to_bytes(4, "big") + inner)
    assert disclose(frame) == TWO_PHASE[name]


@pytest.mark.parametrize("name", PROBES)
def test_what_their_decoder_was_asked(name: str) -> None:
    data = bytes.fromhex(BY_NAME[name]["hex"])
    wanted = PROBES[name]
    if not data:
        return  # a frame of length 0: test_session
    if wanted is None:
        with pytest.raises(ProtocolError):
            decode(data[0], memoryview(data)[1:])
    else:
        assert decode(data[0], memoryview(data)[1:]) == wanted


def test_an_id_that_is_not_ascii_is_not_written() -> None:
    with pytest.raises(MisuseError, match="not ASCII"):
        enclose(PhaseTwo(transaction="tä", commit=True))
