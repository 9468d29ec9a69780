"""What Spark's tasks and driver say to a relay, in Python: stages rows, and has batches committed. No JVM."""

from __future__ import annotations

import json
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.relay.manifest import place_of
from connectors.relay.relay_volume import VOLUME
from connectors.relay.staged_rows import StagedRow, encode_rows
from journal.gateway.client.client import ClientSettings, open_volume
from journal.volume import PathClaim

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from journal.gateway.client.client import RemoteVolume

QUERY = "c0ffee00-0000-4000-8000-000000000001"


@dataclass(kw_only=True)
class StagingDriver:
    """One query of one driver."""

    relay: RemoteVolume
    sinks: Sequence[str]
    checkpoint: str = "sos://payments/queries/q1"
    query: str = QUERY
    application: str = "app-1"
    start_time: int = 1
    version: int = 2
    order: str = "partition"
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def claim(self) -> PathClaim:
        return PathClaim(start_time=self.start_time, application=self.application)

    @property
    def place(self) -> str:
        """A driver of version 1 stages under the query's id alone."""
        return self.query if self.version == 1 else place_of(self.query, self.checkpoint)

    async def stage(
        self, batch: int, run: str, part: str, rows: Sequence[StagedRow], *, keys: bool = False
    ) -> list[Any]:
        """The rows of one task; its entry in the manifest."""
        content = encode_rows(rows, keys=keys, sequences=self.order == "sequence")
        write = await self.relay.open_write(
            f"staged/{self.place}/{batch}/{run}/{part}",
            overwrite=True,
            operation=self.relay.new_operation(),
            claim=self.claim,
        )
        await write.write(content)
        await write.commit()
        return [part, len(rows), len(content)]

    async def commit(self, batch: int, run: str, parts: Sequence[list[Any]]) -> None:
        """Returns when the batch is committed."""
        manifest = {
            "version": self.version,
            "query": self.query,
            "batch": batch,
            "run": run,
            "checkpoint": self.checkpoint,
            "sinks": list(self.sinks),
            "order": self.order,
            "parts": list(parts),
            **self.more,
        }
        await self.relay.put(
            f"commits/{self.place}/{batch}",
            json.dumps(manifest).encode(),
            overwrite=True,
            operation=self.relay.new_operation(),
            claim=self.claim,
        )

    async def abort(self, batch: int, run: str) -> bool:
        """Forget what was staged."""
        return await self.relay.delete(
            f"staged/{self.place}/{batch}/{run}",
            recursive=True,
            operation=self.relay.new_operation(),
            claim=self.claim,
        )

    async def batch(self, number: int, *partitions: Sequence[bytes], key_of: Any = None) -> None:
        """Stage the rows of each partition, and commit."""
        run = secrets.token_hex(4)
        parts = []
        for partition, values in enumerate(partitions):
            rows = [StagedRow(0, key_of(value) if key_of else None, value) for value in values]
            parts.append(await self.stage(number, run, f"{partition}-0", rows, keys=key_of is not None))
        await self.commit(number, run, parts)


@asynccontextmanager
async def staging_driver(
    relay: str, sinks: Sequence[str], *, seconds: float = 60.0, **more: Any
) -> AsyncIterator[StagingDriver]:
    """A driver at a relay."""
    async with open_volume([relay], VOLUME, settings=ClientSettings(seconds=seconds)) as volume:
        yield StagingDriver(relay=volume, sinks=sinks, **more)
