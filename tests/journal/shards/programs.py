"""Who uses the small world: drivers that write batches as Spark does, and operators who rewind, delete and fork."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, JournalError
from journal.files.tree_writing import NewFile, write_tree
from journal.records.moments import AtBatch
from journal.volume import PathClaim
from sos_client.nurseries import together
from tests.journal.shards.small_world import ViolationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from journal.gateway.client.sharded_volume import ShardedVolume
    from tests.journal.shards.small_world import Files, World

PARTITIONS: Final = 2
ASIDE: Final = "q.before"
SCRATCH: Final = "q.rewound"
MOVES: Final = [
    ("q/state/0/0", "q/state/0/3"),
    ("q/state/0/1/1.delta", "q/state/0/0/9.delta"),
    ("q/offsets/0", "q/state/0/1/offsets"),
    ("q/state/0/1/1.delta", "q/1.delta"),
    ("q/state", "q/states"),
    ("q/state/0", "q/state/1"),
]


async def _exists(volume: ShardedVolume, path: str) -> bool:
    try:
        await volume.stat(path)
    except JournalError as error:
        if error.code is JournalCode.NOT_FOUND:
            return False
        raise
    return True


@dataclass(frozen=True)
class Driver:
    """Goes on after the last batch that is committed. What it writes says who wrote it."""

    number: int
    batches: int

    async def __call__(self, world: World, actor: int) -> None:
        volume = world.client(actor, world.main)
        claim = PathClaim(application=f"driver {self.number}", start_time=1_790_000_000_000 + self.number)
        try:
            await volume.claim("q", claim, operation=volume.new_operation())
            world.started = max(claim, world.started) if world.started else claim
            for batch in range(await self._next(volume), self.batches):
                await self._run(volume, claim, batch)
        except JournalError as error:
            if error.code is not JournalCode.FENCED:
                raise

    async def _next(self, volume: ShardedVolume) -> int:
        if not await _exists(volume, "q/commits"):
            return 0
        return 1 + max(int(entry.path.rpartition("/")[2]) for entry in (await volume.list("q/commits")).entries)

    async def _run(self, volume: ShardedVolume, claim: PathClaim, batch: int) -> None:
        async def put(path: str) -> None:
            content = f"{path} by {self.number}".encode()
            operation = volume.new_operation()
            await volume.put(f"q/{path}", content, overwrite=True, operation=operation, claim=claim)

        async def state(partition: int) -> None:
            folder = f"state/0/{partition}"
            temporary = f"{folder}/.{batch + 1}.{self.number}.tmp"
            await put(temporary)
            source, target = f"q/{temporary}", f"q/{folder}/{batch + 1}.delta"
            await volume.rename(source, target, overwrite=True, operation=volume.new_operation(), claim=claim)

        if not await _exists(volume, f"q/offsets/{batch}"):
            await put(f"offsets/{batch}")
        async with together() as nursery:
            for partition in reversed(range(PARTITIONS)):
                nursery.start_soon(state, partition)
        await put(f"commits/{batch}")


async def delete(world: World, actor: int) -> None:
    """As `rm -r` does, with the claim that is there; who sees nothing any more does nothing."""
    volume = world.client(actor, world.main)
    if not await _exists(volume, "q"):
        return
    claim = max((one.claim for one in (await volume.claims()).claims), default=None)
    await volume.delete("q", recursive=True, operation=volume.new_operation(), claim=claim)


async def move(world: World, actor: int) -> None:
    """As somebody does who puts a checkpoint in order by hand: only whole checkpoints may be moved."""
    volume = world.client(actor, world.main)
    claim = world.started
    for source, target in MOVES:
        try:
            await volume.rename(source, target, overwrite=False, operation=volume.new_operation(), claim=claim)
        except JournalError as error:
            if error.code is not JournalCode.BAD_REQUEST:
                raise
        else:
            raise ViolationError(f"{source} was renamed to {target}")
    await volume.rename("q", "elsewhere/q", overwrite=False, operation=volume.new_operation(), claim=claim)


@dataclass(frozen=True)
class Rewind:
    """As `rewind` does; who does it again goes on where it was cut short."""

    batch: int

    async def __call__(self, world: World, actor: int) -> None:
        volume = world.client(actor, world.main)
        if await _exists(volume, ASIDE):
            if not await _exists(volume, "q"):
                await self._move(volume, SCRATCH, "q")
            return
        if not await _exists(volume, SCRATCH):
            await volume.delete(SCRATCH, recursive=True, operation=volume.new_operation())
            files = await world.read(AtBatch(batch=self.batch), steps=[len(world.steps)] * len(world.shards))
            await write_files(volume, files, SCRATCH, scratch=f"{actor}")
        await self._move(volume, "q", ASIDE, claim=world.started)
        await self._move(volume, SCRATCH, "q")

    async def _move(self, volume: ShardedVolume, source: str, target: str, claim: PathClaim | None = None) -> None:
        await volume.rename(source, target, overwrite=False, operation=volume.new_operation(), claim=claim)


@dataclass(frozen=True)
class Fork:
    """The query as of a batch, to a volume of another number of shards; done again if it was cut short."""

    batch: int

    async def __call__(self, world: World, actor: int) -> None:
        volume = world.client(actor, world.forked)
        if not await _exists(volume, "q"):
            await volume.delete("q", recursive=True, operation=volume.new_operation())
            files = await world.read(AtBatch(batch=self.batch), steps=[len(world.steps)] * len(world.shards))
            await write_files(volume, files, "q", scratch=f"{actor}")


async def write_files(volume: ShardedVolume, files: Files, target: str, *, scratch: str) -> None:
    """What is at `q` in these files, to another path."""

    def new_file(path: str, content: bytes) -> NewFile:
        async def pieces() -> AsyncIterator[bytes]:
            yield content

        return NewFile(
            path=path.removeprefix("q/"), is_directory=False, size=len(content), modified_ms=1, pieces=pieces
        )

    wanted = [new_file(path, content) for path, content in sorted(files.items())]
    await write_tree(volume, wanted, target, scratch=scratch, origin={"from": "payments"}, progress=lambda _done: None)
