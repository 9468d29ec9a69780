"""Runs of the small world that are worth reading, as docs/two-phase-commit.md shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.connectors.relay.small_world import SmallWorld, StrictSink, named

if TYPE_CHECKING:
    from collections.abc import Sequence

TRACES: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "a batch at two sinks": (2, ()),
    "a vote is lost": (1, ("the connection of sink 0 is cut before relay hears a vote",)),
    "a sink votes abort": (2, ("sink 1 takes phase 1, and votes abort",)),
    "the relay dies before it decides": (1, ("the relay dies before the decision is durable",)),
    "the relay dies after it has decided": (1, ("the decision is durable; the relay dies before it knows",)),
    "another relay takes over": (1, ("another relay takes the decisions over",)),
}
"""Sinks, and the faults; what is not a fault happens in the order of the world's list."""


def played(trace: tuple[int, Sequence[str]]) -> str:
    """What happens, a line each."""
    sinks, wanted = trace
    faults = list(wanted)
    world = SmallWorld([StrictSink() for _ in range(sinks)], batches=1, faults=len(faults), telling=True)
    while True:
        actions = list(world.actions())
        due = [action for action in actions if action[-1] and faults and _is_due(world, named(action), faults[0])]
        usual = [action for action in actions if not action[-1]]
        if due:
            faults.pop(0)
            world.act(due[0])
        elif usual:
            world.act(usual[0])
        else:
            break
    assert not faults, faults
    world.check_end()
    return "".join(line + "\n" for line in world.told)


def _is_due(world: SmallWorld, name: str, wanted: str) -> bool:
    fault, _, moment = wanted.partition(" before ")
    if name != (fault if moment in ("relay hears a vote", "the decision is durable") else wanted):
        return False
    if moment == "relay hears a vote":
        return bool(world.to_relay[0]) and world.to_relay[0][0][0] == "vote"
    return moment != "the decision is durable" or world.deciding is not None
