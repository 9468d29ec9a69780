"""Reads a log while it is written, before the volume forgets it, and keeps each next moment by a pin until it is read.

The pin is what is tried here: as long as it holds, everything from its moment on must be there, whoever owns the volume
and whatever else was trimmed. The audit (`journal_audit`) gets all records from the first on, and the pinned moment.
"""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.copies import MemberCopy
from journal.copies.volume_reader import open_reader
from journal.errors import JournalCode, JournalError, UnavailableError
from journal.gateway.client.client import open_volume
from sos_client.client import open_client
from sos_client.nurseries import background
from sos_client.wire.errors import SosError
from tests.simulation.journal_actors import client_settings
from tests.simulation.journal_process import DEADLINES, SERVICE_PORT, VOLUME, address_of

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Iterable

    from journal.copies.copies import Copy
    from journal.gateway.client.client import RemoteVolume
    from journal.records.record import Record
    from tests.simulation.world import World

PIN_SECONDS: Final = 20 * 3600
HOST: Final = "archivist"
BEGIN_SECONDS: Final = 60.0


class Archive:
    """All records that were ever acknowledged and read, from LSN 0 on, and the moment that a pin keeps."""

    def __init__(
        self, world: World, hosts: Iterable[str], services: Iterable[str], *, token: bytes | None = None
    ) -> None:
        self.world = world
        self.hosts = tuple(hosts)
        self.services = [f"{service}:{SERVICE_PORT}" for service in services]
        self.token = token
        self.chance = world.chance(HOST)
        self.records: list[Record] = []
        self.end = 0
        self.pinned: int | None = None
        """The moment of the pin that was asked for last; None before the first."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[RemoteVolume]:
        """A client of the services, with the first moment of all pinned."""
        settings = client_settings(self.world, HOST, self.chance)
        dial = partial(self.world.dial, source=HOST)
        opening = open_volume(self.services, VOLUME, token=self.token, client_name=HOST, dial=dial, settings=settings)
        async with opening as volume:
            with trio.fail_after(BEGIN_SECONDS):
                while self.pinned is None:  # a network that cuts connections may keep an owner off for longer than that
                    with suppress(UnavailableError):
                        await volume.pin(HOST, lsn=0, seconds=PIN_SECONDS, operation=volume.new_operation())
                        self.pinned = 0
            yield volume

    async def live(self, volume: RemoteVolume) -> None:
        """Read on, pin what is next, wait; until cancelled."""
        while True:
            await trio.sleep(self.chance.choice([0.3, 1.0, 4.0]) * self.chance.random())
            try:
                async with open_copies(self.world, self.hosts, HOST, self.chance) as copies:
                    await self._read_on(copies)
            except JournalError:
                continue  # somebody is away: whether it is lost is seen in the end, when all are back
            await self._pin(volume)

    async def _read_on(self, copies: list[Copy]) -> None:
        reader = await open_reader(VOLUME, copies)
        stop = reader.acknowledged_lsn
        async with aclosing(reader.records(self.end, stop, payloads=True)) as records:
            async for record in records:
                if record.header.end_lsn > stop:
                    return
                self.world.require(
                    record.header.lsn == self.end, f"the pinned log has a gap: {self.end} to {record.header.lsn}"
                )
                self.records.append(record)
                self.end = record.header.end_lsn

    async def _pin(self, volume: RemoteVolume) -> None:
        """Replaces the earlier pin. What it asks for lies after that one, so it cannot be gone."""
        self.world.note("pin", f"{self.end}")
        asked = self.end
        try:
            await volume.pin(HOST, lsn=asked, seconds=PIN_SECONDS, operation=volume.new_operation())
        except JournalError as error:
            self.world.counts[f"pin answered {error.code.name}"] += 1
            self.world.require(
                error.code is not JournalCode.OUT_OF_RETENTION, f"moment {asked} was pinned, it is refused now: {error}"
            )
        self.pinned = asked


@asynccontextmanager
async def open_copies(
    world: World, hosts: Iterable[str], source: str, chance: random.Random
) -> AsyncIterator[list[Copy]]:
    """The copies on those servers that answer."""
    dial = partial(world.dial, source=source)
    async with background() as nursery:
        copies: list[Copy] = []
        for name in hosts:
            client = await nursery.start(_hold, address_of(name), dial, chance)
            if client is not None:
                copies.append(MemberCopy(client, label=address_of(name), volume=VOLUME))
        yield copies


async def _hold(
    address: str,
    dial: partial[object],
    chance: random.Random,
    *,
    task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED,
) -> None:
    told = False
    try:
        async with open_client(address, dial=dial, deadlines=DEADLINES, chance=chance) as client:  # type: ignore[arg-type]
            told = True
            task_status.started(client)
            await trio.sleep_forever()
    except SosError:
        if not told:
            task_status.started(None)
