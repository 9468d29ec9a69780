"""Stateful fuzzing for seconds, and for half a minute; `make fuzz` goes on for as long as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz.conversations import TARGETS, run

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 8.0
SLOW_SECONDS = 30.0

each_protocol = pytest.mark.parametrize("protocol", sorted(TARGETS))


@each_protocol
async def test_conversations(protocol: str, tmp_path: Path) -> None:
    await converse(protocol, tmp_path, seconds=SECONDS, seed=1)


@pytest.mark.slow
@pytest.mark.alone
@each_protocol
async def test_many_conversations(protocol: str, tmp_path: Path) -> None:
    await converse(protocol, tmp_path, seconds=SLOW_SECONDS, seed=2)


async def converse(protocol: str, directory: Path, *, seconds: float, seed: int) -> None:
    tally = await run(protocol, directory, seconds=seconds, seed=seed)
    assert tally.answered > seconds, "it must have talked, and been answered"
    granted = {
        "sos": ("Appending", "Ack", "Fenced", "Data"),
        "files": ("OpenedAnswer", "StatusAnswer", "DoneAnswer", "FileData"),
    }
    assert all(tally.answers[kind] for kind in granted[protocol]), tally.answers
