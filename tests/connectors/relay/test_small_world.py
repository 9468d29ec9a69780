"""Every order of what can happen in a small world of relay, sinks, volume, driver, with every fault at every step."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from connectors.relay.coordinator import Coordinator
from tests.connectors.relay.small_world import LyingSink, SmallWorld, StrictSink, ViolationError, explore
from tests.connectors.relay.traces import TRACES, played
from tests.connectors.relay.wrong_coordinators import BROKEN

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "two-phase-commit.md"


def world(sinks: int, *, batches: int = 2, faults: int, kind: type[Coordinator] = Coordinator) -> SmallWorld:
    return SmallWorld([StrictSink() for _ in range(sinks)], batches=batches, faults=faults, kind=kind)


@pytest.mark.parametrize(("sinks", "batches", "faults"), [(1, 2, 2), (2, 1, 1), (3, 1, 0)])
def test_nothing_goes_wrong_whatever_happens(sinks: int, batches: int, faults: int) -> None:
    assert explore(world(sinks, batches=batches, faults=faults)) > 1000


@pytest.mark.parametrize("forgets", [False, True], ids=["lists nothing", "forgets"])
@pytest.mark.parametrize(("honest", "faults"), [(0, 2), (1, 1)])
def test_a_sink_that_lies_hurts_nobody_else(honest: int, faults: int, *, forgets: bool) -> None:
    sinks = [LyingSink(forgets=forgets), *(StrictSink() for _ in range(honest))]
    assert explore(SmallWorld(sinks, batches=1, faults=faults)) > 100


@pytest.mark.slow
@pytest.mark.parametrize(("sinks", "batches", "faults"), [(1, 2, 3), (2, 1, 2)])
def test_nothing_goes_wrong_with_more_faults(sinks: int, batches: int, faults: int) -> None:
    assert explore(world(sinks, batches=batches, faults=faults)) > 20_000


@pytest.mark.soak
@pytest.mark.parametrize(("sinks", "batches", "faults"), [(3, 1, 1), (2, 2, 2), (1, 3, 4)])
def test_nothing_goes_wrong_in_larger_worlds(sinks: int, batches: int, faults: int) -> None:
    assert explore(world(sinks, batches=batches, faults=faults)) > 100_000


@pytest.mark.parametrize(("kind", "sinks", "faults"), BROKEN, ids=lambda one: getattr(one, "__name__", str(one)))
def test_each_rule_is_needed(kind: type[Coordinator], sinks: int, faults: int) -> None:
    with pytest.raises(ViolationError):
        explore(world(sinks, faults=faults, kind=kind))


def test_only_one_relay_may_decide() -> None:
    """Without the fence, a relay that was replaced commits what its successor has aborted."""
    unfenced = SmallWorld([StrictSink()], batches=1, faults=2, fenced=False)
    with pytest.raises(ViolationError, match="a sink has not committed it"):
        explore(unfenced)


def test_the_traces_in_the_document_are_what_happens() -> None:
    """RENEW_TRACES=1 writes them again."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, actions in TRACES.items():
        block = re.compile(rf"```trace {name}\n(.*?)```", re.DOTALL)
        if os.environ.get("RENEW_TRACES"):
            renewed = f"```trace {name}\n{played(actions)}```"
            text = block.sub(renewed, text)
            DOCUMENT.write_text(text, encoding="utf-8")
        found = block.search(text)
        assert found is not None, name
        assert found[1] == played(actions)
