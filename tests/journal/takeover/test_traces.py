"""Traces of takeovers: what happens now is what the files say, and docs/takeover.md shows the ten that matter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from journal.takeover.takeover import Phase
from tests.journal.takeover.traces import Player, play

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[2] / "docs" / "takeover.md"
TRACES = sorted(HERE.glob("*.txt"))
SHOWN = re.compile(r"<!-- trace: (\w+) -->\n```\n.*?```\n", re.DOTALL)
DIAGRAM = re.compile(r"<!-- phases: seen in the traces -->\n```mermaid\n.*?```\n", re.DOTALL)


@pytest.fixture
def renews(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--renew-traces"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_what_happened_happens_again(path: Path, *, renews: bool) -> None:
    kept = path.read_text(encoding="utf-8")
    played = play(kept, Player())
    if renews:
        path.write_text(played, encoding="utf-8")
    else:
        assert played == kept


def test_the_document_shows_ten_of_them_as_they_are(*, renews: bool) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")

    def shown(found: re.Match[str]) -> str:
        trace = (HERE / f"{found[1]}.txt").read_text(encoding="utf-8")
        return f"<!-- trace: {found[1]} -->\n```\n{trace}```\n"

    current = SHOWN.sub(shown, text)
    current = DIAGRAM.sub(lambda _: f"<!-- phases: seen in the traces -->\n```mermaid\n{diagram()}```\n", current)
    if renews:
        DOCUMENT.write_text(current, encoding="utf-8")
    else:
        assert current == text
    assert len(SHOWN.findall(current)) == 10


def test_every_phase_is_in_a_trace() -> None:
    seen = {phase for step in steps() for phase in step}
    assert seen == {phase.value for phase in Phase}


def steps() -> set[tuple[str, str]]:
    player = Player()
    for path in TRACES:
        player.servers, player.takeovers = {}, {}
        play(path.read_text(encoding="utf-8"), player)
    return player.steps


def diagram() -> str:
    order = [phase.value for phase in Phase]
    lines = sorted(steps(), key=lambda step: (order.index(step[0]), order.index(step[1])))
    return "stateDiagram-v2\n" + "".join(f"    {before} --> {after}\n" for before, after in lines)
