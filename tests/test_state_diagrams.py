"""The diagrams of the protocols' documents are drawn from the tables that the code obeys (`--renew-traces` draws them).

Each is between a line `<!-- diagram: NAME -->` and the end of the block of code after it. Moves that lead nowhere else
are left out: the table beside the diagram has them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import connectors.wire
import sos_client.wire
from connectors.wire.session import SESSION_MOVES
from connectors.wire.streams import STREAM_MOVES
from connectors.wire.two_phase_round import ABORTS_ONLY, ROUND_MOVES
from sos_client.wire.connection import ANSWER_OVER, TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

SOS: Final = Path(sos_client.wire.__file__).parent / "PROTOCOL.md"
CONNECTORS: Final = Path(connectors.wire.__file__).parent / "PROTOCOL.md"
Edge = tuple[str, str, str]


def connection() -> list[Edge]:
    edges = [(before.value, move.value, after.value) for (before, move), after in TRANSITIONS.items()]
    return [*edges, *((before.value, "the answer is over", after.value) for before, after in ANSWER_OVER.items())]


def session() -> list[Edge]:
    return [
        (before.value, f"{kind.name} of the {side.value}", after.value)
        for (before, side, kind), after in SESSION_MOVES.items()
        if kind.name != "ERROR"
    ]


def stream() -> list[Edge]:
    return [(before.value, move.value, after.value) for (before, move), after in STREAM_MOVES.items()]


def two_phase_round() -> list[Edge]:
    return [
        (before.value, f"{move.value} (abort)" if (before, move) in ABORTS_ONLY else move.value, after.value)
        for (before, move), after in ROUND_MOVES.items()
    ]


DIAGRAMS: Final = {
    (SOS, "connection"): connection,
    (CONNECTORS, "session"): session,
    (CONNECTORS, "stream"): stream,
    (CONNECTORS, "round"): two_phase_round,
}


def drawn(edges: Iterable[Edge]) -> str:
    """As mermaid has it: each state by a short name, each change with all that makes it."""
    names: dict[str, str] = {}
    changes: dict[tuple[str, str], list[str]] = {}
    for before, move, after in edges:
        for state in (before, after):
            names.setdefault(state, re.sub(r"\W+", "_", state).lower())
        if before != after:
            changes.setdefault((before, after), []).append(move)
    lines = [f"    {name} : {state}" for state, name in names.items() if name != state]
    lines += [f"    {names[one]} --> {names[other]} : {', '.join(moves)}" for (one, other), moves in changes.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```", ""])


@pytest.mark.parametrize(("document", "name"), DIAGRAMS, ids=[name for _, name in DIAGRAMS])
def test_diagram_is_that_of_the_table(document: Path, name: str, request: pytest.FixtureRequest) -> None:
    text = document.read_text(encoding="utf-8")
    begin = f"<!-- diagram: {name} -->\n"
    assert text.count(begin) == 1
    head, _, rest = text.partition(begin)
    tail = re.sub(r"\A```mermaid\n.*?```\n", "", rest, count=1, flags=re.DOTALL)
    current = f"{head}{begin}{drawn(DIAGRAMS[document, name]())}{tail}"
    if request.config.getoption("--renew-traces"):
        document.write_text(current, encoding="utf-8")
    else:
        assert current == text
