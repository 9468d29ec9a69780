"""Clients whose files grow: they append to what they know, as a writer that flushes does, while others write there.

A writer knows a file by the size and the time that its last answer had, or looks what it is now. Files are joined after
a few appends here (decision 0706), so a short run does that often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, JournalError
from journal.owner import in_place
from journal.volume import FileStatus
from tests.simulation.journal_actors import EXPECTED, PATHS, Driver
from tests.simulation.planting import replaced

if TYPE_CHECKING:
    from journal.gateway.client.client import RemoteVolume
    from tests.simulation.journal_model import History
    from tests.simulation.world import World

EXTENTS_FEW: Final = 5
few_extents: Final = replaced(in_place, "EXTENTS_MAX", EXTENTS_FEW)
FAVOURITES: Final = PATHS[:2]
"""What grows. Others put, delete and rename there, too."""
KNOWN_RATE: Final = 0.8
"""How often a writer goes on from its last answer, as writers do."""


class Grower(Driver):
    """A client process that does what the others do, and appends most of the time."""

    def __init__(
        self, world: World, history: History, name: str, services: list[str], *, token: bytes | None = None
    ) -> None:
        super().__init__(world, history, name, services, token=token)
        self._known: dict[str, FileStatus] = {}
        """What the last answer of each path said."""

    async def _do_something(self, volume: RemoteVolume) -> None:
        (work,) = self.chance.choices([self._append, self._put, None], [6, 1, 3])
        if work is None:
            await super()._do_something(volume)
        else:
            await work(volume, self.chance.choice(FAVOURITES))

    async def _write(self, volume: RemoteVolume, path: str, *, overwrite: bool) -> None:
        before = len(self.history.operations)
        await super()._write(volume, path, overwrite=overwrite)
        self._remember(path, self.history.operations[before].answer)

    async def _append(self, volume: RemoteVolume, path: str) -> None:
        """What it does not know, or is another file by now, is written first by `put`, as a file system does."""
        known = await self._known_or_looked_up(volume, path)
        if known is None:
            await self._put(volume, path)
            return
        operation, data = volume.new_operation(), self._payload()
        size, modified_ms = known.size, known.modified_ms
        asked = self.history.ask(
            self.name,
            "append",
            path,
            payload=data,
            based_on=(size, modified_ms),
            key=(operation.client, operation.sequence),
        )

        async def append(volume: RemoteVolume) -> object:
            return await volume.append(path, data, size=size, modified_ms=modified_ms, operation=operation)

        await self._settle(asked, append(volume))
        self._remember(path, asked.answer)
        if asked.answer is not None:
            self._done.append(append)

    async def _known_or_looked_up(self, volume: RemoteVolume, path: str) -> FileStatus | None:
        known = self._known.get(path)
        if known is not None and self.chance.random() < KNOWN_RATE:
            return known
        try:
            return await volume.stat(path)
        except JournalError as error:
            self.world.require(error.code in EXPECTED, f"{self.name}: stat {path}: {error.code.name} {error}")
            if error.code is JournalCode.NOT_FOUND:
                self._known.pop(path, None)
                return None
            return known

    def _remember(self, path: str, answer: object) -> None:
        """Without an answer it is not known whether the file has grown: mostly one looks then."""
        if isinstance(answer, FileStatus):
            self._known[path] = answer
        elif self.chance.random() < KNOWN_RATE:
            self._known.pop(path, None)

    def _payload(self) -> bytes:
        """Few sizes, so that different pasts of a file often have one length."""
        return self.chance.randbytes(self.chance.choice([100, 100, 100, 700]))
