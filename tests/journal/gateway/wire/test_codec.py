"""The file protocol's codec: shared vectors, the document's example, any message there and back, any bytes at all."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import JournalCode
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_answer, decode_request
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.tagging import TAG_MAX, tagged, tagged_status, untagged
from journal.kept_past import Retention
from journal.volume import ClaimedPath, FileStatus, OperationId, PathClaim, VolumeDescription
from sos_client.wire.errors import MisuseError, ProtocolError
from sos_client.wire.frames import FrameSplitter
from sos_client.wire.msgpack_edge import pack

ROOT = Path(__file__).parents[4]
VECTORS = json.loads((ROOT / "tests/vectors/gateway_messages.json").read_text())
TAGGED = json.loads((ROOT / "tests/vectors/gateway_tagged.json").read_text())
INVALID = json.loads((ROOT / "tests/vectors/gateway_invalid.json").read_text())
PROTOCOL = (ROOT / "journal/gateway/PROTOCOL.md").read_text()


def _frames(data: bytes) -> list[tuple[int, bytes]]:
    splitter = FrameSplitter(frame_bytes_max=limits.FRAME_BYTES_MAX)
    splitter.feed(data)
    frames = []
    while (frame := splitter.next_frame()) is not None:
        frames.append((frame[0], bytes(frame[1])))
    return frames


def _decode(side: str, frame: bytes) -> m.Message | None:
    ((type_code, body),) = _frames(frame)
    decode = decode_request if side == "requests" else decode_answer
    return decode(type_code, memoryview(body))


def _plain(value: object) -> Any:
    """A message as the vectors have it."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"hex": bytes(value).hex()}
    names = getattr(value, "_fields", None)
    if dataclasses.is_dataclass(value):
        names = [item.name for item in dataclasses.fields(value)]
    if isinstance(value, list | tuple) and names is None:
        return [_plain(item) for item in value]
    if isinstance(value, VolumeDescription):
        return {"servers": list(value.servers), **value.retention.as_json()}
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names if name != "crc"}
    return value


def _rows(document: dict[str, Any]) -> list[Any]:
    sides = ("requests", "answers")
    return [pytest.param(side, row, id=f"{side}: {row['name']}") for side in sides for row in document[side]]


@pytest.mark.parametrize(("side", "row"), _rows(VECTORS))
def test_vector(side: str, row: dict[str, Any]) -> None:
    frame = bytes.fromhex(row["frame"])
    message = _decode(side, frame)
    assert re.sub("^File|Request$|Answer$", "", type(message).__name__) == row["message"].removesuffix("Answer")
    assert _plain(message) == row["fields"]
    assert message is not None
    assert encode(message) == frame


@pytest.mark.parametrize(("side", "row"), _rows(INVALID))
def test_invalid_frame_is_a_protocol_error(side: str, row: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        _decode(side, bytes.fromhex(row["frame"]))


@pytest.mark.parametrize(("side", "row"), _rows(VECTORS))
def test_a_vector_cut_anywhere_is_a_protocol_error(side: str, row: dict[str, Any]) -> None:
    ((type_code, body),) = _frames(bytes.fromhex(row["frame"]))
    decode = decode_request if side == "requests" else decode_answer
    for length in range(len(body)):
        with pytest.raises(ProtocolError):
            decode(type_code, memoryview(body)[:length])


@pytest.mark.parametrize(("side", "row"), _rows(VECTORS))
def test_a_vector_with_junk_after_it_is_a_protocol_error(side: str, row: dict[str, Any]) -> None:
    ((type_code, body),) = _frames(bytes.fromhex(row["frame"]))
    decode = decode_request if side == "requests" else decode_answer
    with pytest.raises(ProtocolError):
        decode(type_code, memoryview(body + b"\x00"))


def test_every_message_type_has_a_vector() -> None:
    seen = {bytes.fromhex(row["frame"])[4] for side in ("requests", "answers") for row in VECTORS[side]}
    assert seen == set(m.FileMessageType)


def test_worked_example_of_the_document() -> None:
    example = PROTOCOL.split("## Worked example")[1].split("```")[1]
    hexadecimal = {"C": "", "S": ""}
    side = ""
    for line in example.strip().splitlines():
        if line[0] in hexadecimal:
            side = line[0]
        hexadecimal[side] += re.sub(r"^[CS]|\s", "", line)
    asked = [decode_request(t, memoryview(b)) for t, b in _frames(bytes.fromhex(hexadecimal["C"]))]
    told = [decode_answer(t, memoryview(b)) for t, b in _frames(bytes.fromhex(hexadecimal["S"]))]
    assert [type(message) for message in asked] == [m.HelloRequest, m.OpenRequest, m.PutRequest, m.QuitRequest]
    assert [type(message) for message in told] == [m.WelcomeAnswer, m.OpenedAnswer, m.StatusAnswer, m.ByeAnswer]
    put = asked[2]
    assert isinstance(put, m.PutRequest)
    assert (put.path, bytes(put.payload), put.stamp.epoch_seen) == ("q1/offsets/7", b"v1", 5)


def test_the_document_has_every_type_code() -> None:
    rows = re.findall(r"^\| ([A-Z_]+) \| ([0-9a-f]{2}) \|", PROTOCOL, re.MULTILINE)
    assert {name: int(code, 16) for name, code in rows} == {t.name: int(t) for t in m.FileMessageType}


def test_the_document_has_every_error_code() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+)", PROTOCOL, re.MULTILINE)
    assert {name: int(code) for code, name in rows} == {code.name: int(code) for code in JournalCode}


def test_another_version_is_told_whatever_follows_its_token() -> None:
    body = b"\x00\x03\x00" + bytes(32) + b"whatever version 3 has here"
    hello = decode_request(m.FileMessageType.HELLO, memoryview(body))
    assert isinstance(hello, m.HelloRequest)
    assert hello.version == 3


@pytest.mark.parametrize(("side", "row"), _rows(TAGGED))
def test_vector_of_a_shared_connection(side: str, row: dict[str, Any]) -> None:
    frame = bytes.fromhex(row["frame"])
    ((type_code, body),) = _frames(frame)
    tag, rest = untagged(memoryview(body))
    assert tag == row["tag"]
    message = (decode_request if side == "requests" else decode_answer)(type_code, rest)
    assert message is not None
    assert _plain(message) == row["fields"]
    assert tagged(tag, encode(message)) == frame
    if isinstance(message, m.StatusAnswer):
        assert tagged_status(tag, message.epoch, message.status) == frame
    for length in range(4):
        with pytest.raises(ProtocolError):
            untagged(memoryview(body)[:length])


def test_the_documents_example_of_a_shared_connection() -> None:
    example = PROTOCOL.split("On a shared connection")[1].split("```")[1]
    asked, told = example.strip().split("\nS ")
    frames = [re.sub(r"^C|\s", "", asked), re.sub(r"\s", "", told)]
    ((put, put_body), (status, status_body)) = [_frames(bytes.fromhex(frame))[0] for frame in frames]
    assert (put, status) == (m.FileMessageType.PUT, m.FileMessageType.STATUS)
    assert untagged(memoryview(put_body))[0] == untagged(memoryview(status_body))[0] == 1
    request = decode_request(put, untagged(memoryview(put_body))[1])
    assert isinstance(request, m.PutRequest)
    assert (request.path, bytes(request.payload)) == ("q1/offsets/7", b"v1")
    answer = decode_answer(status, untagged(memoryview(status_body))[1])
    assert isinstance(answer, m.StatusAnswer)
    assert answer.status.path == "q1/offsets/7"


def test_unknown_request_is_none() -> None:
    assert decode_request(0x7F, memoryview(b"anything")) is None


@pytest.mark.parametrize(
    "message",
    [
        m.HelloRequest(version=1, token=b"short", client="c", instance=bytes(16)),
        m.FileData(offset=0, payload=b""),
        m.FileData(offset=0, payload=bytes(limits.PIECE_BYTES_MAX + 1)),
        m.PutRequest(
            path="p",
            overwrite=False,
            stamp=m.Stamp(operation=OperationId(client=bytes(16), sequence=1), claim=None, epoch_seen=0),
            payload=bytes(limits.PIECE_BYTES_MAX + 1),
        ),
        m.AppendRequest(
            path="p",
            size=0,
            modified_ms=0,
            stamp=m.Stamp(operation=OperationId(client=bytes(16), sequence=1), claim=None, epoch_seen=0),
            payload=b"",
        ),
    ],
    ids=["token", "no data", "too much data", "too large a put", "an append of nothing"],
)
def test_what_cannot_be_sent_is_the_callers_mistake(message: m.Message) -> None:
    with pytest.raises(MisuseError):
        encode(message)


def test_file_bytes_over_the_maximum_are_refused() -> None:
    data = bytes(12 + limits.PIECE_BYTES_MAX + 1)
    with pytest.raises(ProtocolError, match="are allowed"):
        decode_request(m.FileMessageType.DATA, memoryview(data))


numbers = st.integers(0, limits.NUMBER_MAX)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
binaries = st.binary(min_size=16, max_size=16)
payloads = st.binary(max_size=2000)
claims = st.none() | st.builds(PathClaim, application=texts, start_time=numbers)
stamps = st.builds(
    m.Stamp, operation=st.builds(OperationId, client=binaries, sequence=numbers), claim=claims, epoch_seen=numbers
)
claiming = stamps.filter(lambda stamp: stamp.claim is not None)
claimed = st.builds(ClaimedPath, path=texts, claim=st.builds(PathClaim, application=texts, start_time=numbers))
statuses = st.builds(
    FileStatus, path=texts, is_directory=st.booleans(), size=numbers, modified_ms=numbers, crc=st.none()
)
descriptions = st.builds(
    VolumeDescription,
    servers=st.lists(texts, max_size=8).map(tuple),
    retention=st.builds(Retention, seconds=numbers, bytes=numbers),
)
signed = st.integers(-limits.NUMBER_MAX, limits.NUMBER_MAX)
marks = st.lists(st.tuples(texts, texts | signed), max_size=8).map(tuple)
values = texts | signed | st.booleans() | st.none() | st.binary(max_size=16)
fields = st.lists(st.tuples(texts, values), max_size=8).map(tuple)
requests = st.one_of(
    st.builds(
        m.HelloRequest,
        version=st.sampled_from((limits.VERSION, limits.SHARED_VERSION)),
        token=st.none() | st.binary(min_size=32, max_size=32),
        client=texts,
        instance=binaries,
    ),
    st.builds(m.OpenRequest, volume=texts, epoch_seen=numbers),
    st.builds(m.PutRequest, path=texts, overwrite=st.booleans(), stamp=stamps, payload=payloads),
    st.builds(
        m.AppendRequest,
        path=texts,
        size=numbers,
        modified_ms=numbers,
        stamp=stamps,
        payload=st.binary(min_size=1, max_size=2000),
    ),
    st.builds(m.WriteOpenRequest, path=texts, overwrite=st.booleans(), stamp=stamps),
    st.builds(m.FileData, offset=numbers, payload=st.binary(min_size=1, max_size=2000)),
    st.builds(m.WriteCommitRequest, size=numbers),
    st.builds(m.WriteCancelRequest),
    st.builds(
        m.ReadRequest,
        path=texts,
        offset=numbers,
        length=st.none() | numbers,
        modified_ms=st.none() | numbers,
        epoch_seen=numbers,
    ),
    st.builds(m.StatRequest, path=texts, epoch_seen=numbers),
    st.builds(m.ListRequest, path=texts, after=texts, limit=st.integers(1, limits.ARRAY_MAX), epoch_seen=numbers),
    st.builds(m.MkdirsRequest, path=texts, stamp=stamps),
    st.builds(m.DeleteRequest, path=texts, recursive=st.booleans(), stamp=stamps),
    st.builds(m.RenameRequest, source=texts, target=texts, overwrite=st.booleans(), stamp=stamps),
    st.builds(m.ClaimRequest, path=texts, stamp=claiming),
    st.builds(m.MarkRequest, values=marks, stamp=stamps),
    st.builds(m.PinRequest, name=texts, lsn=numbers, seconds=numbers, stamp=stamps),
    st.builds(m.DescribeRequest, epoch_seen=numbers),
    st.builds(m.ClaimsRequest, after=st.none() | texts, limit=st.integers(1, limits.ARRAY_MAX), epoch_seen=numbers),
    st.builds(m.ReleaseRequest, path=texts, stamp=claiming),
    st.builds(m.PingRequest, number=numbers),
    st.builds(m.QuitRequest),
)
answers = st.one_of(
    st.builds(
        m.WelcomeAnswer,
        version=numbers,
        service=binaries,
        frame_bytes_max=numbers,
        piece_bytes_max=numbers,
        time_ms=numbers,
    ),
    st.builds(m.OpenedAnswer, epoch=numbers, volume=texts),
    st.builds(m.StatusAnswer, epoch=numbers, status=statuses),
    st.builds(m.FileData, offset=numbers, payload=st.binary(min_size=1, max_size=2000)),
    st.builds(m.DoneAnswer, epoch=numbers, applied=st.booleans()),
    st.builds(m.PageAnswer, epoch=numbers, entries=st.lists(statuses, max_size=8).map(tuple), more=st.booleans()),
    st.builds(m.DescriptionAnswer, epoch=numbers, description=descriptions),
    st.builds(m.ClaimPageAnswer, epoch=numbers, claims=st.lists(claimed, max_size=8).map(tuple), more=st.booleans()),
    st.builds(m.ReadEndAnswer, epoch=numbers, next_offset=numbers),
    st.builds(m.WaitingAnswer, epoch=numbers, waited_ms=numbers),
    st.builds(m.PongAnswer, epoch=numbers, number=numbers, time_ms=numbers),
    st.builds(m.ByeAnswer),
    st.builds(m.RefusalAnswer, epoch=numbers, code=numbers, message=texts, fields=fields),
)


@given(requests)
def test_any_request_there_and_back(message: m.Request) -> None:
    assert _decode("requests", encode(message)) == message


@given(requests | answers, st.integers(0, TAG_MAX))
def test_any_frame_with_any_tag_there_and_back(message: m.Message, tag: int) -> None:
    ((type_code, body),) = _frames(tagged(tag, encode(message)))
    found, rest = untagged(memoryview(body))
    assert found == tag
    assert [(type_code, bytes(rest))] == _frames(encode(message))


@given(answers)
def test_any_answer_there_and_back(message: m.Answer) -> None:
    assert _decode("answers", encode(message)) == message


@given(st.sampled_from(sorted(m.FileMessageType)), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_the_one_error(type_code: int, body: bytes) -> None:
    for decode in (decode_request, decode_answer):
        with contextlib.suppress(ProtocolError):
            decode(type_code, memoryview(body))


@given(requests, st.integers(min_value=0), st.integers(1, 255))
def test_a_request_with_one_byte_changed_is_a_message_or_the_one_error(
    message: m.Request, where: int, change: int
) -> None:
    frame = bytearray(encode(message))
    body = frame[5:]
    if body:
        body[where % len(body)] ^= change
    with contextlib.suppress(ProtocolError):
        decode_request(frame[4], memoryview(body))


@pytest.mark.parametrize("value", [[b"short", 1, None, 0], [1, 1, None, 0], [bytes(16), 1, None], [bytes(16), 1, 5, 0]])
def test_what_is_no_stamp(value: list[object]) -> None:
    with pytest.raises(ProtocolError):
        m.STAMP.read(value)


@pytest.mark.parametrize("value", ["a:7400", None, ["a:7400", 1]])
def test_what_is_no_list_of_texts(value: object) -> None:
    body = pack([1, value, 0, 0])
    with pytest.raises(ProtocolError):
        decode_answer(m.FileMessageType.DESCRIPTION, memoryview(body))
