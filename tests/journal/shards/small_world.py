"""A small world of shards: their journals in memory with the logs that they would write, and actors who take turns.

Belongs here: whose request is done next, who dies, and what must hold at every step. The clients are the real ones
(`ShardedVolume` and what is above it), and so is what reads the logs. A service that is killed and comes back is a
request that waits, since a client repeats it under its id; so what can go wrong is the order, and the death of clients.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import trio
import trio.testing

from journal.copies.volume_reader import open_reader
from journal.gateway.client.operation_ids import OperationIds
from journal.gateway.client.sharded_volume import ShardedVolume
from journal.records.change import (
    Change,
    ClaimChange,
    DeleteChange,
    MakeDirectoryChange,
    MarkChange,
    PutChange,
    RenameChange,
)
from journal.records.shards import HOME, is_in_partition, operator_directory, shard_of, shards_of
from journal.shards.whole_reader import WholeReader
from tests.fakes.memory_volume import MemoryVolume
from tests.journal.copies.test_volume_reader import MemoryCopy
from tests.journal.histories import History

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from journal.records.moments import Moment
    from journal.records.shards import Shard
    from journal.volume import PathClaim, Volume

Files: TypeAlias = "dict[str, bytes]"
Program: TypeAlias = "Callable[[World, int], Awaitable[None]]"
"""With the number of its actor."""
Deviation: TypeAlias = "tuple[int, str]"
"""(step, what happens there instead of the next request of whoever came last)"""

STEPS_MAX: Final = 2_000
OTHERS_MAX: Final = 3
"""Of requests that are on their way at once, so many may overtake the one whose turn it is."""
_CHANGES: Final = frozenset({"put", "mkdirs", "delete", "rename", "claim", "mark"})


class ViolationError(Exception):
    """Something that must never happen has happened."""


class DeadError(BaseException):
    """Its process was killed: nothing of it reaches anybody any more, cleaning up included."""


@dataclass(eq=False)
class Request:
    """Of an actor to a shard, on its way."""

    actor: int
    what: str
    go: trio.Event = field(default_factory=trio.Event)
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What was there after a change had been made."""

    what: str
    files: Files
    forked: Files
    """In the volume that somebody forks to."""
    log_bytes: tuple[int, ...]


class LoggedShard(MemoryVolume):
    """A shard's journal: what was changed is in its log, and known to be durable."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(name=shard.name)
        self.shard = shard
        self.history = History(holder=bytes([shard.index + 1]) * 16)
        self.history.open_segment()

    def log(self, change: Change, payload: bytes) -> None:
        self.history.add(change, payload)
        self.history.add(MarkChange(values={"beat": 1}))  # says that what is before it was acknowledged

    @property
    def log_bytes(self) -> int:
        return sum(len(data) for data in self.history.segments.values())

    @property
    def files(self) -> Files:
        return {path: entry.content for path, entry in self.tree.items() if entry.content is not None}

    def copy(self, log_bytes: int) -> MemoryCopy:
        """As a member has it that has so much of the log."""
        ((name, data),) = self.history.segments.items()
        return MemoryCopy(label=self.name, objects={name: bytes(data[:log_bytes])})


class Spread:
    """The shards of one volume, and what must hold for where things lie."""

    def __init__(self, volume: str, count: int) -> None:
        self.shards = tuple(LoggedShard(shard) for shard in shards_of(volume, count))

    def check_known(self, shard: LoggedShard, path: str) -> None:
        """Before a path is made: HOME says what there is, so it must know the directory first."""
        if (
            shard is not self.shards[HOME]
            and is_in_partition(path)
            and operator_directory(path) not in self.shards[HOME].tree
        ):
            raise ViolationError(f"{path} is written to {shard.name}, and HOME does not have its directory")

    def check_places(self, what: str) -> None:
        for shard in self.shards:
            for path in shard.files:
                if shard_of(path, len(self.shards)) != shard.shard.index:
                    raise ViolationError(f"{path} lies in {shard.name} after: {what}")

    def files(self) -> Files:
        """What a user sees: of a partition what HOME has the directory of."""
        home = self.shards[HOME].tree
        found: Files = {}
        for shard in self.shards:
            for path, content in shard.files.items():
                if not is_in_partition(path) or operator_directory(path) in home:
                    found[path] = content
        return found


class ActorsView:
    """A shard as one actor's client has it: each request waits for its turn. Has what the programs ask for."""

    def __init__(self, world: World, spread: Spread, shard: LoggedShard, actor: int) -> None:
        self.name = shard.name
        self._world, self._spread, self._shard, self._actor = world, spread, shard, actor

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        return partial(self._ask, method)

    async def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        world, shard = self._world, self._shard
        what = " ".join([method, *(one for one in arguments if isinstance(one, str)), shard.name])
        await world.turn(self._actor, what)
        if method in ("put", "mkdirs"):
            self._spread.check_known(shard, arguments[0])
        answer = await getattr(shard, method)(*arguments, **options)
        if method in _CHANGES and answer is not False:
            shard.log(_record(method, *arguments), bytes(arguments[1]) if method == "put" else b"")
            self._spread.check_places(what)
            world.changed(what, arguments[1] if method == "claim" else options.get("claim"))
        world.check_alive(self._actor)
        return answer


def _record(method: str, first: Any, second: Any = None) -> Change:
    match method:
        case "put":
            return PutChange(path=first)
        case "mkdirs":
            return MakeDirectoryChange(path=first)
        case "delete":
            return DeleteChange(path=first)
        case "rename":
            return RenameChange(source=first, target=second)
        case "claim":
            return ClaimChange(path=first, application=second.application, start_time=second.start_time)
        case _:
            return MarkChange(values=dict(first))


class World:
    """The shards, whose turn it is, and what has happened."""

    def __init__(
        self,
        programs: Sequence[Program],
        deviations: Sequence[Deviation] = (),
        *,
        overlapping: bool = False,
        disturbed: int = 0,
    ) -> None:
        """`overlapping`: a program may begin while the one before goes on. The last one does not die.

        `disturbed`: the first program to which anything happens.
        """
        self.main, self.forked = Spread("payments", 2), Spread("wider", 3)
        self.shards = self.main.shards
        self.steps: list[Step] = []
        self.alternatives: list[list[str]] = []
        """At each turn: what might have happened instead."""
        self.started: PathClaim | None = None
        """The claim of the last driver that has started."""
        self.ends: list[int] = []
        """After how many changes an actor has ended or died."""
        self._programs = list(programs)
        self._overlapping = overlapping
        self._disturbed = disturbed
        self._deviations = dict(deviations)
        self._pending: list[Request] = []
        self._dead: set[int] = set()
        self._current = -1

    # ── whose turn it is ──────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Until all programs are at their end."""
        async with trio.open_nursery() as nursery:
            await trio.testing.wait_all_tasks_blocked()
            while self._pending or self._current + 1 < len(self._programs):
                if len(self.alternatives) >= STEPS_MAX:
                    raise ViolationError("it never ends")
                if self._pending:
                    await self._go_on(nursery)
                else:
                    self._begin_next(nursery)
                await trio.testing.wait_all_tasks_blocked()

    def client(self, actor: int, spread: Spread) -> ShardedVolume:
        views = [cast("Volume", ActorsView(self, spread, shard, actor)) for shard in spread.shards]
        shards = [one.shard for one in spread.shards]
        return ShardedVolume(shards, views, operations=OperationIds(random.Random(f"{actor} {len(shards)}")))

    def _begin_next(self, nursery: trio.Nursery) -> None:
        self._current += 1
        nursery.start_soon(self._act, self._current)

    async def _act(self, actor: int) -> None:
        try:
            await self._programs[actor](self, actor)
        except* DeadError:
            pass
        self.ends.append(len(self.steps))

    async def _go_on(self, nursery: trio.Nursery) -> None:
        """The next request of whoever began last is done, or what a deviation says happens."""
        pending = sorted(self._pending, key=lambda one: (-one.actor, one.what))  # Trio starts tasks in any order
        mine = [request for request in pending if request.actor == self._current] or pending
        others = [request for request in pending if request is not mine[0]]
        choices = [f"first {at}" for at in range(min(len(others), OTHERS_MAX))]
        if self._current + 1 < len(self._programs):
            choices += ["dies, all lost", "dies, all done", *(["the next begins"] if self._overlapping else [])]
        choice = self._deviations.get(len(self.alternatives), "")
        self.alternatives.append(choices if self._current >= self._disturbed else [])
        if choice.startswith("dies"):
            self._kill(mine[0].actor, done=choice == "dies, all done")
        elif choice == "the next begins":
            self._begin_next(nursery)
        else:
            self._do(others[int(choice.split()[1])] if choice else mine[0])

    def _do(self, request: Request, *, lost: bool = False) -> None:
        self._pending.remove(request)
        request.lost = lost
        request.go.set()

    def _kill(self, actor: int, *, done: bool) -> None:
        """All of its requests that are on their way arrive, or none; it hears of neither."""
        self._dead.add(actor)
        for request in [one for one in self._pending if one.actor == actor]:
            self._do(request, lost=not done)

    async def turn(self, actor: int, what: str) -> None:
        """Wait until this request arrives."""
        self.check_alive(actor)
        request = Request(actor, what)
        self._pending.append(request)
        await request.go.wait()
        if request.lost:
            raise DeadError

    def check_alive(self, actor: int) -> None:
        if actor in self._dead:
            raise DeadError

    def changed(self, what: str, claim: PathClaim | None) -> None:
        """A change was made: may its driver still make any?"""
        if claim is not None and self.started is not None and claim < self.started:
            raise ViolationError(f"{what}, by {claim.application} after {self.started.application} has started")
        log_bytes = tuple(shard.log_bytes for shard in self.shards)
        self.steps.append(Step(what, self.main.files(), self.forked.files(), log_bytes))

    # ── what the logs say ─────────────────────────────────────────────────────────────────────────────────────────

    async def read(self, moment: Moment, *, steps: Sequence[int], path: str = "q") -> Files:
        """What the logs give at a moment, when each was read after so many changes."""
        readers = []
        for shard, after in zip(self.shards, steps, strict=True):
            log_bytes = self.steps[after - 1].log_bytes[shard.shard.index]
            readers.append(await open_reader(shard.name, [shard.copy(log_bytes)]))
        reader = WholeReader([shard.shard for shard in self.shards], readers)
        image = await reader.image(moment, path=path)
        found: Files = {}
        for status in image.tree.walk(path) if image.tree.find(path) is not None else ():
            if not status.is_directory:
                found[status.path] = b"".join([piece async for piece in reader.read_file(image, status.path)])
        return found
