"""What is explored: who comes after whom, and what must hold at the end of every run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from journal.checkpoint.layout import batch_of
from journal.errors import JournalError
from journal.gateway.client.operation_ids import OperationIds
from journal.gateway.client.sharded_volume import ShardedVolume
from journal.records.moments import AtBatch, Now
from tests.journal.shards.programs import ASIDE, PARTITIONS, Driver, Fork, Rewind, delete, move
from tests.journal.shards.small_world import Files, ViolationError, World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.journal.shards.small_world import Deviation, Program


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`programs` in the order in which they begin, each when the one before is at its end, or dead."""

    programs: Sequence[Program]
    check: Callable[[World], Awaitable[None]]
    overlapping: bool = False
    """A program may also begin while the one before goes on."""
    disturbed: int = 0
    """The first program to which anything happens."""


def run(scenario: Scenario, deviations: Sequence[Deviation]) -> World:
    """One run to its end. ViolationError, with what happened, if anything is wrong."""

    async def main() -> World:
        world = World(scenario.programs, deviations, overlapping=scenario.overlapping, disturbed=scenario.disturbed)
        await world.run()
        await check_batches(world)
        await scenario.check(world)
        return world

    return trio.run(main)


def explore(scenario: Scenario, *, deviations: int) -> int:
    """All runs in which so many things happen otherwise than in the plain one; gives their number."""
    todo: list[tuple[Deviation, ...]] = [()]
    count = 0
    while todo:
        plan = todo.pop()
        try:
            world = run(scenario, plan)
        except* (ViolationError, JournalError) as error:
            raise ViolationError(f"{plan}: {_first(error)}") from None
        count += 1
        if len(plan) < deviations:
            begin = plan[-1][0] + 1 if plan else 0
            turns = enumerate(world.alternatives[begin:], start=begin)
            todo += [(*plan, (at, choice)) for at, choices in turns for choice in choices]
    return count


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# ── what must hold ────────────────────────────────────────────────────────────────────────────────────────────────


def of_query(files: Files, path: str = "q") -> Files:
    """Without what tasks have left that did not come to their end."""
    return {name: data for name, data in files.items() if name.startswith(f"{path}/") and not name.endswith(".tmp")}


def commits(world: World, upto: int) -> dict[int, int]:
    """Each batch that was committed, with the number of changes up to its last commit."""
    found: dict[int, int] = {}
    for number, step in enumerate(world.steps[:upto], start=1):
        words = step.what.split()
        batch = batch_of(words[1]) if words[0] == "put" else None
        if batch is not None and batch[:2] == ("q", "commits"):
            found[batch[2]] = number
    return found


async def check_batches(world: World) -> None:
    """Whenever somebody ended: each batch has all that was there when it was committed, and nothing else."""
    for upto in sorted({*world.ends, len(world.steps)} - {0}):
        for batch, after in commits(world, upto).items():
            found = of_query(await world.read(AtBatch(batch=batch), steps=[upto] * len(world.shards)))
            wanted = of_query(world.steps[after - 1].files)
            if found != wanted:
                wrong = sorted(name for name in found | wanted if found.get(name) != wanted.get(name))
                raise ViolationError(f"batch {batch} after {upto} changes: {wrong} are not as at its commit")


async def check_progress(world: World, batches: int) -> None:
    last = world.steps[-1].files
    if any(f"q/commits/{batch}" not in last for batch in range(batches)):
        raise ViolationError("a batch is never committed")
    for partition in range(PARTITIONS):
        if f"q/state/0/{partition}/{batches}.delta" not in last:
            raise ViolationError(f"the last batch lacks the state of partition {partition}")


async def after_drivers(world: World) -> None:
    """The last driver has come to its end; there is one claim; HOME read first, `now` has what its commits need."""
    await check_progress(world, 2)
    shards = world.main.shards
    volume = ShardedVolume([one.shard for one in shards], shards, operations=OperationIds(random.Random(0)))
    claims = (await volume.claims()).claims
    if [(one.path, one.claim) for one in claims] != [("q", world.started)]:
        raise ViolationError(f"the claims are {claims}")
    last = len(world.steps)
    for home in range(1, last + 1, 3):
        for other in {home, min(home + 1, last), last}:
            found = await world.read(Now(), steps=[home, other])
            committed = commits(world, home)
            wanted = of_query(world.steps[committed[max(committed)] - 1].files) if committed else {}
            if wrong := sorted(name for name, data in wanted.items() if found.get(name) != data):
                raise ViolationError(f"now, HOME after {home} changes and the other after {other}: {wrong} are missing")


async def after_rewind(world: World) -> None:
    """What was there is aside, whole; what is there now was written by the last driver from batch 1 on."""
    await check_progress(world, 3)
    upto = max(number for number, step in enumerate(world.steps) if step.what.startswith("put q/commits/2 "))
    before = next(step.files for step in world.steps if "put q/commits/2 " in step.what)
    last = world.steps[upto].files
    aside = {name.replace(f"{ASIDE}/", "q/", 1): data for name, data in of_query(last, ASIDE).items()}
    if aside != of_query(before):
        raise ViolationError("what was there before is not whole aside")
    old = sorted(name for name, data in of_query(last).items() if data.endswith(b"by 1") and _version(name) > 1)
    if old:
        raise ViolationError(f"{old} were there before the rewind")


def _version(path: str) -> int:
    number = int(path.rpartition("/")[2].split(".")[0])
    return number if "/state/" in path else number + 1


async def after_delete(world: World) -> None:
    """Nothing of the query from before is there again."""
    await check_progress(world, 2)
    old = sorted(name for name, data in of_query(world.steps[-1].files).items() if not data.endswith(b"by 2"))
    if old:
        raise ViolationError(f"{old} are there again")


async def after_claims(world: World) -> None:
    """Whoever died between two claims: the query was deleted, and has begun again."""
    await check_progress(world, 2)
    old = sorted(name for name, data in of_query(world.steps[-1].files).items() if not data.endswith(b"by 3"))
    if old:
        raise ViolationError(f"{old} are there again")


async def after_move(world: World) -> None:
    found = {name.removeprefix("elsewhere/"): data for name, data in world.steps[-1].files.items()}
    if found != world.steps[commits(world, len(world.steps))[1] - 1].files:
        raise ViolationError("what was moved is not whole elsewhere")


async def after_fork(world: World) -> None:
    """It is there at once, and it is the batch."""
    wanted = of_query(world.steps[commits(world, len(world.steps))[0] - 1].files)
    for step in world.steps:
        if of_query(step.forked) not in ({}, wanted):
            raise ViolationError(f"a part of the fork can be seen after: {step.what}")
    if of_query(world.steps[-1].forked) != wanted:
        raise ViolationError("the fork is not whole")


def scenarios(deaths: int) -> dict[str, Scenario]:
    """By name. Whoever puts something in order tries it once more than he may die: until then nobody else begins."""
    rewinds, deletes, forks = ([one] * (deaths + 1) for one in (Rewind(0), delete, Fork(0)))
    return {
        "drivers": Scenario(programs=[Driver(1, 2), Driver(2, 2)], check=after_drivers, overlapping=True),
        "rewind": Scenario(programs=[Driver(1, 3), *rewinds, Driver(2, 3)], check=after_rewind, disturbed=1),
        "delete": Scenario(programs=[Driver(1, 3), *deletes, Driver(2, 2)], check=after_delete, disturbed=1),
        "claims": Scenario(
            programs=[Driver(1, 1), Driver(2, 2), *deletes, Driver(3, 2)], check=after_claims, disturbed=1
        ),
        "moves": Scenario(programs=[Driver(1, 2), move], check=after_move, disturbed=1),
        "fork": Scenario(programs=[Driver(1, 2), *forks], check=after_fork, disturbed=1),
    }


SCENARIOS: Final = scenarios(deaths=1)
