"""The connectors' PROTOCOL.md is true: its frames and tables are the code's, its conversations are allowed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import connectors.wire
from connectors.wire import frames, limits, two_phase
from connectors.wire.frames import FrameType
from connectors.wire.session import SESSION_MOVES, ConnectorRole, ConnectorSession, SessionState, Side
from connectors.wire.streams import STREAM_MOVES
from connectors.wire.two_phase import TwoPhaseType
from connectors.wire.two_phase_round import ROUND_MOVES

if TYPE_CHECKING:
    from connectors.wire.frames import Frame

DOCUMENT = (Path(connectors.wire.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
NAMES = {name: getattr(module, name) for module in (frames, two_phase) for name in dir(module)} | {
    "NOTHING_SEEN": limits.NOTHING_SEEN
}


def conversations() -> list[list[tuple[str, Frame, bytes]]]:
    found = []
    for block in re.findall(r"```frames\n(.*?)```", DOCUMENT, re.DOTALL):
        lines = block.splitlines()
        found.append(
            [
                (said[0], eval(said[2:], NAMES), bytes.fromhex(shown))  # the document is ours
                for said, shown in zip(lines[::2], lines[1::2], strict=True)
            ]
        )
    return found


@pytest.mark.parametrize(
    ("steps", "opener", "taker"),
    [
        (conversations()[0], ConnectorRole.SOURCE, ConnectorRole.LISTENER),
        (conversations()[1], ConnectorRole.RELAY, ConnectorRole.SINK),
    ],
    ids=["source", "sink"],
)
def test_the_conversations_are_allowed(
    steps: list[tuple[str, Frame, bytes]], opener: ConnectorRole, taker: ConnectorRole
) -> None:
    ends = {">": ConnectorSession(opener), "<": ConnectorSession(taker)}
    for sender, frame, shown in steps:
        here, there = (ends[">"], ends["<"]) if sender == ">" else (ends["<"], ends[">"])
        assert here.send(frame).hex(" ") == shown.hex(" ")
        there.receive(shown)
        assert there.next_frame() == frame
        assert there.next_frame() is None
        assert here.state is there.state
        assert here.credits == there.credits


def table(heading: str) -> list[list[str]]:
    """The rows of the first table after a text."""
    after = DOCUMENT[DOCUMENT.index(heading) + len(heading) :]
    rows = re.search(r"(?:^\|.*\|\n)+", after, re.MULTILINE)
    assert rows, heading
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in rows[0].splitlines()[2:]]


def test_the_types_are_the_types() -> None:
    shown = {name: int(code) for code, name, _ in table("addresses have at most")}
    assert shown == {kind.name: kind.value for kind in FrameType}
    shown = {name: int(code) for code, name, *_ in table("### Two-phase messages")}
    assert shown == {kind.name: kind.value for kind in TwoPhaseType}


def test_the_order_of_a_connection_is_the_code() -> None:
    shown = set()
    for before, who, sent, after in table("## Order"):
        side = Side(who.split()[0])
        for name in sent.split(", "):
            shown.add((SessionState(before), side, FrameType[name.split()[0]], SessionState(after)))
    errors = {
        (state, side, FrameType.ERROR, SessionState.OVER)
        for state in (SessionState.CONNECTED, SessionState.HANDSHAKE, SessionState.STREAMING)
        for side in Side
    }
    assert shown | errors == {(*move, after) for move, after in SESSION_MOVES.items()}


def test_the_order_of_a_stream_is_the_code() -> None:
    shown = {tuple(row) for row in table("Of each stream in it:")}
    assert shown == {(before.value, move.value, after.value) for (before, move), after in STREAM_MOVES.items()}


def test_the_order_of_a_round_is_the_code() -> None:
    shown = {tuple(row) for row in table("Of the rounds of two-phase commit")}
    assert shown == {(before.value, move.value, after.value) for (before, move), after in ROUND_MOVES.items()}


def test_the_limits_are_the_limits() -> None:
    for number in (limits.FRAME_BYTES_MAX, limits.FRAME_BYTES_MAX_BEFORE_OK, limits.NAME_BYTES_MAX, limits.RANGES_MAX):
        assert f"{number:,}" in DOCUMENT


def test_no_frame_is_forgotten() -> None:
    said = {type(frame) for steps in conversations() for _, frame, _ in steps}
    assert said == set(frames.TYPE_OF) - {frames.ErrorFrame}
