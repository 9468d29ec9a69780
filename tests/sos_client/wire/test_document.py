"""PROTOCOL.md is true: its frames are what the code makes of its messages, in an order that is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import sos_client.wire
from sos_client.wire import codec, limits, messages
from sos_client.wire.connection import TRANSITIONS, Connection, Move, Role, State
from sos_client.wire.errors import REFUSALS, ErrorCode
from sos_client.wire.messages import Message, MessageType

DOCUMENT = (Path(sos_client.wire.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
NAMES = {name: getattr(messages, name) for name in dir(messages)} | {"hex": bytes.fromhex, "ErrorCode": ErrorCode}


def conversation() -> list[tuple[str, Message, bytes]]:
    steps: list[tuple[str, Message, bytes]] = []
    for block in re.findall(r"```frames\n(.*?)```", DOCUMENT, re.DOTALL):
        for line in block.splitlines():
            if line[0] in "<>":
                steps.append((line[0], eval(line[2:], NAMES), b""))  # the document is ours
            else:
                sender, message, frame = steps.pop()
                steps.append((sender, message, frame + bytes.fromhex(line)))
    return steps


def test_the_frames_are_those_of_the_messages() -> None:
    steps = conversation()
    assert len(steps) > 30
    for _, message, frame in steps:
        assert codec.encode(message).hex(" ") == frame.hex(" ")


def test_the_conversation_is_allowed() -> None:
    client, server = Connection(Role.CLIENT), Connection(Role.SERVER)
    for sender, message, frame in conversation():
        here, there = (client, server) if sender == ">" else (server, client)
        assert here.send(message) == frame
        there.receive(frame)
        seen = there.next_event()
        assert seen == message or (seen is None and isinstance(message, messages.Data | messages.End))
        assert there.next_event() is None
    assert client.state is server.state is State.CLOSED
    assert client.unanswered == server.unanswered == 0


def test_the_error_table_is_the_codes() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \| (.*?) \| (closes)? ?\| (.*) \|$", DOCUMENT, re.MULTILINE)
    assert [
        (int(number), name, tuple(fields.split(", ")) if fields else (), bool(closes), sentence)
        for number, name, fields, closes, sentence in rows
    ] == [(code.value, code.name, row.fields, row.closes, row.sentence) for code, row in REFUSALS.items()]


def test_the_type_codes_are_the_codes() -> None:
    section = DOCUMENT[DOCUMENT.index("## Frames") : DOCUMENT.index("## Order")]
    found = {name: int(code, 16) for code, name in re.findall(r"\b([0-9a-f]{2}) ([A-Z_]{3,})\b", section)}
    found |= {
        name: int(code, 16) for code, name in re.findall(r"^\| ([0-9a-f]{2}) \| ([A-Z]+) \|", section, re.MULTILINE)
    }
    assert found == {kind.name: kind.value for kind in MessageType}


def test_the_states_are_the_transitions() -> None:
    rows = re.findall(r"^\| ([a-z]+) \| ([A-Z].*?) \| ([a-z /]+) \|$", DOCUMENT, re.MULTILINE)
    written: set[tuple[State, Move, State]] = set()
    for before, sent, after in rows:
        after_each = after.split(" / ")
        requests = sent.split(" / ") if len(after_each) > 1 else sent.split(", ")
        for position, request in enumerate(requests):
            move = {"GET with follow": Move.FOLLOW, "GET without follow": Move.GET}.get(request)
            if move is None:
                move = Move[request] if request in Move.__members__ else Move.ASK
            written.add((State(before), move, State(after_each[min(position, len(after_each) - 1)])))
    assert written == {(before, move, after) for (before, move), after in TRANSITIONS.items()}


def test_the_limits_are_the_limits() -> None:
    for number in (
        limits.FRAME_BYTES_MAX,
        limits.FRAME_BYTES_MAX_BEFORE_HELLO,
        limits.FRAME_BYTES_MAX_LEAST,
        limits.REQUEST_BYTES_MAX,
        limits.TEXT_BYTES_MAX,
        limits.NAME_BYTES_MAX,
        limits.LIST_ENTRIES_MAX,
        limits.PIPELINED_REQUESTS_MAX,
    ):
        assert f"{number:,}" in DOCUMENT
