"""The log: JSON lines that nobody can forge or flood, and that wait for nobody."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from sos_client.printable import printable
from sos_client.serving.event_log import (
    REFUSALS_PER_MINUTE_MAX,
    REFUSALS_PER_PEER_MAX,
    WARNINGS_PER_MINUTE_MAX,
    WARNINGS_PER_SECOND_MAX,
    EventLog,
    Level,
)
from sos_client.serving.stderr_lines import StderrLines

if TYPE_CHECKING:
    from collections.abc import Iterator

TRICKS = "evil\x9b31m\x07\u0085\u2028\u202e\u2066\x7f\U000e0001"


def test_log_lines_are_json_and_a_flood_is_counted() -> None:
    lines: list[str] = []
    now = 1_000_000_000.25
    log = EventLog(least=Level.INFO, write=lines.append, clock=lambda: now)
    log.debug("unseen")
    log.audit("FENCE", holder=b"\x01\xff", epoch=3)
    assert json.loads(lines.pop()) == {
        "time": "2001-09-09T01:46:40.250Z",
        "level": "audit",
        "event": "FENCE",
        "holder": "01ff",
        "epoch": 3,
    }
    for _ in range(WARNINGS_PER_SECOND_MAX + 7):
        log.warning("bad peer")
    assert len(lines) == WARNINGS_PER_SECOND_MAX
    now += 1
    log.warning("bad peer")
    assert json.loads(lines[-2])["count"] == 7


def test_warnings_are_bounded_by_the_minute_too() -> None:
    lines: list[str] = []
    now = 1_000_000_020.0
    log = EventLog(write=lines.append, clock=lambda: now)
    for _ in range(59):
        for _ in range(WARNINGS_PER_SECOND_MAX):
            log.warning("bad peer")
        now += 1
    shown = [line for line in map(json.loads, lines) if line["event"] == "bad peer"]
    assert len(shown) == WARNINGS_PER_MINUTE_MAX
    assert log.lines_left_out == 59 * WARNINGS_PER_SECOND_MAX - WARNINGS_PER_MINUTE_MAX
    now += 60
    log.warning("bad peer")
    assert {"warnings left out", "bad peer"} == {json.loads(line)["event"] for line in lines[-2:]}


def test_refusals_are_bounded_for_each_host_and_in_all() -> None:
    lines: list[str] = []
    now = 1_000_000_000.0
    log = EventLog(write=lines.append, clock=lambda: now)
    for port in range(1000):
        log.refused("AUTH refused", peer=f"10.0.0.1:{port}")
    assert len(lines) == REFUSALS_PER_PEER_MAX
    for host in range(1000):
        log.refused("AUTH refused", peer=f"10.1.{host >> 8}.{host & 255}:1")
    assert len(lines) == REFUSALS_PER_MINUTE_MAX
    log.audit("FENCE", epoch=1)
    assert json.loads(lines[-1])["event"] == "FENCE"
    now += 60
    log.refused("AUTH refused", peer="[::1]:1")
    assert json.loads(lines[-2])["event"] == "refusals left out"
    assert json.loads(lines[-2])["count"] == 2000 - REFUSALS_PER_MINUTE_MAX
    assert log.lines_left_out == 2000 - REFUSALS_PER_MINUTE_MAX


def test_what_a_peer_says_cannot_forge_or_hide_a_line() -> None:
    lines: list[str] = []
    EventLog(write=lines.append).info("connection ended", client=TRICKS)
    (line,) = lines
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert json.loads(line)["client"] == TRICKS


def test_printable_leaves_what_can_be_seen() -> None:
    assert printable("größe 数 \U0001f600") == "größe 数 \U0001f600"
    assert printable("a\tb\u202e") == r"a\u0009b\u202e"
    assert json.loads(f'"{printable(TRICKS)}"') == TRICKS


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for handle in (reading, writing):
        os.close(handle)


def all_lines(reading: int) -> list[dict[str, Any]]:
    os.set_blocking(reading, False)
    content = b""
    while True:
        try:
            content += os.read(reading, 1 << 20)
        except BlockingIOError:
            return [json.loads(line) for line in content.splitlines()]


def test_a_log_that_nobody_reads_loses_lines_and_says_so(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    log = EventLog(write=StderrLines(writing))
    for number in range(3000):
        log.info("event", number=number, text="x" * (number % 6000))
    assert log.lines_lost > 0
    lost = log.lines_lost
    received = all_lines(reading)
    log.info("again")
    received += all_lines(reading)
    numbers = [line["number"] for line in received if line["event"] == "event"]
    assert numbers == list(range(3000 - lost))
    assert [(line["event"], line.get("count")) for line in received[len(numbers) :]] == [
        ("lines lost", lost),
        ("again", None),
    ]


def test_a_log_whose_reader_has_gone_loses_lines() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    log = EventLog(least=Level.INFO, write=StderrLines(writing))
    log.info("event")
    log.info("event")
    assert log.lines_lost == 2
    os.close(writing)
