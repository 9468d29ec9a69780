"""Clients that change files all the time and know what must be there: each acknowledged change once, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal.errors import JournalCode, JournalError

if TYPE_CHECKING:
    import random

    import trio

    from journal.gateway.client.client import RemoteVolume
    from journal.volume import Volume


async def content_of(volume: Volume, path: str) -> bytes:
    return b"".join([piece async for piece in volume.read(path)])


async def tree_of(volume: Volume, path: str) -> dict[str, bytes]:
    """All files below a directory, with their content."""
    tree: dict[str, bytes] = {}
    after, more = "", True
    while more:
        page = await volume.list(path, after=after, limit=50)
        for entry in page.entries:
            if entry.is_directory:
                tree |= await tree_of(volume, entry.path)
            else:
                tree[entry.path] = await content_of(volume, entry.path)
            after = entry.path.rpartition("/")[2]
        more = page.more
    return tree


@dataclass(slots=True)
class FileWriter:
    """One client's own directory. Each content is new, so a change that is lost, repeated or late shows."""

    number: int
    changes: int = 0
    checks: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    won: dict[str, bytes] = field(default_factory=dict)

    @property
    def directory(self) -> str:
        return f"writer{self.number}"

    async def run(self, volume: RemoteVolume, chance: random.Random, stop: trio.Event) -> None:
        """Change and check until told to stop, and check at the end."""
        await volume.mkdirs(self.directory, operation=volume.new_operation())
        while not stop.is_set():
            await self.change(volume, chance)
            if chance.random() < 0.02:
                await self.check(volume)
        await self.check(volume)

    async def change(self, volume: RemoteVolume, chance: random.Random) -> None:
        self.changes += 1
        fresh = b"%d/%d " % (self.number, self.changes) + chance.randbytes(chance.choice([0, 30, 1200, 4000]))
        kind = chance.choice(["put", "put", "put", "delete", "rename", "stream", "race"])
        known = sorted(self.files)
        if kind in ("delete", "rename") and not known:
            kind = "put"
        match kind:
            case "put":
                path = f"{self.directory}/{chance.randrange(30)}"
                await volume.put(path, fresh, overwrite=True, operation=volume.new_operation())
                self.files[path] = fresh
            case "delete":
                path = chance.choice(known)
                gone = await volume.delete(path, recursive=False, operation=volume.new_operation())
                assert gone, "somebody else deleted it"
                del self.files[path]
            case "rename":
                path, target = chance.choice(known), f"{self.directory}/moved/{self.changes}"
                await volume.rename(path, target, overwrite=False, operation=volume.new_operation())
                self.files[target] = self.files.pop(path)
            case "stream":
                path = f"{self.directory}/large"
                write = await volume.open_write(path, overwrite=True, operation=volume.new_operation())
                large = fresh * (1_200_000 // len(fresh)) if chance.random() < 0.02 else fresh
                await write.write(large)
                await write.commit()
                self.files[path] = large
            case _:
                await self.race(volume, f"race/{self.changes}", fresh)

    async def race(self, volume: RemoteVolume, path: str, fresh: bytes) -> None:
        """All writers create the same files: one of them is told that it did."""
        try:
            await volume.put(path, fresh, overwrite=False, operation=volume.new_operation())
        except JournalError as error:
            if error.code is not JournalCode.ALREADY_EXISTS:
                raise
        else:
            self.won[path] = fresh

    async def check(self, volume: RemoteVolume) -> None:
        """The directory is exactly as acknowledged."""
        self.checks += 1
        seen = await tree_of(volume, self.directory)
        assert seen.keys() == self.files.keys()
        for path, expected in self.files.items():
            assert seen[path] == expected, path


async def check_races(volume: RemoteVolume, writers: list[FileWriter]) -> int:
    """Each file of the race is that of its one winner; gives how many there were."""
    winners = [(path, content) for writer in writers for path, content in writer.won.items()]
    expected = dict(winners)
    assert len(expected) == len(winners), "two clients were told that they had created the same file"
    assert await tree_of(volume, "race") == expected
    return len(expected)
