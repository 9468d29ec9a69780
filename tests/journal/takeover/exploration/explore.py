"""Tries everything that can happen in a scenario, breadth first, each world once.

Run it alone for as long as you like:

    python -m tests.journal.takeover.exploration.explore --seconds 600 [--scenario NAME] [--more]
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections import deque
from dataclasses import dataclass

from tests.journal.takeover.exploration.checks import ViolationError
from tests.journal.takeover.exploration.scenarios import SCENARIOS, Scenario
from tests.journal.takeover.exploration.steps import successors
from tests.journal.takeover.exploration.world import Budget, World


@dataclass(frozen=True, kw_only=True)
class Found:
    """What an exploration came to. `steps` lead to the violation, if there is one; `complete`: nothing was left out."""

    worlds: int
    depth: int
    complete: bool
    violation: str | None = None
    steps: tuple[str, ...] = ()


def explore(scenario: Scenario, *, worlds_max: int = 10_000_000, seconds_max: float = 1e9) -> Found:
    """Every world within the scenario's bounds, or until a limit."""
    start = beginning(scenario)
    parents: dict[int, tuple[int, str]] = {}
    seen = {hash(start)}
    waiting = deque([(start, 0)])
    deadline = time.monotonic() + seconds_max
    depth = 0
    while waiting:
        world, depth = waiting.popleft()
        here = hash(world)
        try:
            for label, after in successors(world, scenario):
                key = hash(after)
                if key not in seen:
                    seen.add(key)
                    parents[key] = (here, label)
                    waiting.append((after, depth + 1))
        except ViolationError as violation:
            return Found(
                worlds=len(seen), depth=depth + 1, complete=False, violation=str(violation), steps=_path(parents, here)
            )
        if len(seen) >= worlds_max or time.monotonic() > deadline:
            return Found(worlds=len(seen), depth=depth, complete=False)
    return Found(worlds=len(seen), depth=depth, complete=True)


def beginning(scenario: Scenario) -> World:
    """The world after the scenario's prelude. LookupError if a step of it is not possible."""
    world = scenario.start()
    for wanted in scenario.prelude:
        possible = [(label, after) for label, after in successors(world, scenario) if label.startswith(wanted)]
        if not possible:
            labels = [label for label, _ in successors(world, scenario)]
            raise LookupError(f"{scenario.name}: {wanted!r} is none of {labels}")
        world = possible[0][1]
    return world


def _path(parents: dict[int, tuple[int, str]], key: int) -> tuple[str, ...]:
    steps = []
    while key in parents:
        key, label = parents[key]
        steps.append(label)
    return tuple(reversed(steps))


def with_more(scenario: Scenario) -> Scenario:
    """The same with every bound that is not zero raised by one."""
    raised = Budget(*(count + 1 if count else 0 for count in scenario.budget))
    return dataclasses.replace(scenario, budget=raised)


def main() -> None:
    """Explore and print one line per scenario."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each scenario")
    parser.add_argument("--scenario", help="only this one")
    parser.add_argument("--more", action="store_true", help="raise every bound by one")
    options = parser.parse_args()
    for scenario in SCENARIOS:
        if options.scenario in (None, scenario.name):
            begun = time.monotonic()
            found = explore(with_more(scenario) if options.more else scenario, seconds_max=options.seconds)
            state = "complete" if found.complete else "cut short"
            seconds = time.monotonic() - begun
            print(f"{scenario.name:28} {found.worlds:9,} worlds, {found.depth:3} deep, {seconds:6.1f} s, {state}")  # noqa: T201
            if found.violation is not None:
                print("\n".join([*found.steps, found.violation]))  # noqa: T201


if __name__ == "__main__":
    main()


__all__ = ["Found", "World", "explore", "main", "with_more"]
