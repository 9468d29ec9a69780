"""The volumes of a service, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.errors import JournalCode, journal_error

if TYPE_CHECKING:
    from tests.fakes.memory_volume import MemoryVolume


class MemoryVolumes:
    """A name in `elsewhere` is owned by the service at that address."""

    def __init__(self, *volumes: MemoryVolume) -> None:
        self.here = {volume.name: volume for volume in volumes}
        self.elsewhere: dict[str, str | None] = {}

    async def settle(self, _name: str) -> None: ...

    def owned(self, name: str) -> MemoryVolume:
        if name in self.elsewhere:
            fields = {"volume": name, "address": self.elsewhere[name], "epoch": 0}
            raise journal_error(JournalCode.NOT_OWNER, "served elsewhere", fields)
        if name not in self.here:
            raise journal_error(JournalCode.VOLUME_NOT_FOUND, f"this service has no volume {name}", {"volume": name})
        return self.here[name]
