"""A store on a simulated drive that loses power, and a record of what it acknowledged, to compare with afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from typing import TYPE_CHECKING, Final

import trio

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.store.namespace import Appender, Claim, Namespace
from sos_server.store.object_store import ObjectStore
from sos_server.store.settings import StoreSettings
from tests.fakes.simulated_disk import DiskFaults, ProcessDied, SimulatedDisk
from tests.fakes.simulated_drive import SimulatedDrive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SMALL: Final = StoreSettings(
    batch_bytes_max=16 << 10,
    append_bytes_max=80 << 10,
    log_file_bytes_first=1 << 20,
    log_file_bytes_max=1 << 20,
    log_bytes_max=4 << 20,
    idle_copy_seconds=0.02,
    reserve_bytes=64 << 10,
)
RUNS: Final = dataclasses.replace(SMALL, run_log_part=0.0, run_bytes_min=4096, run_bytes_max=100_000)
"""Whatever is in a hurry goes straight to its object's file."""
INSTANCE: Final = b"one client only."
ROUND_SECONDS_MAX: Final = 0.01


@dataclasses.dataclass(slots=True)
class Known:
    """What the outside knows of one object: bytes it sent, how far they were acknowledged, whether it was sealed."""

    sent: bytearray = dataclasses.field(default_factory=bytearray)
    synced: int = 0
    sealed: bool = False
    deleted: bool = False
    maybe_sealed: bool = False
    maybe_deleted: bool = False
    exists: bool = False


class StoreWorld:
    """One drive; store after store on it. `objects` is by (namespace, object)."""

    def __init__(
        self,
        seed: int,
        *,
        settings: StoreSettings = SMALL,
        capacity_bytes: int = 1 << 40,
        faults: DiskFaults | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.drive = SimulatedDrive(random.Random(seed + 1), capacity_bytes=capacity_bytes)
        self.settings = settings
        self.faults = faults
        self.objects: dict[tuple[str, str], Known] = {}
        self.claims: dict[str, int] = {}
        self.identity: bytes | None = None
        self.reports: list[str] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[ObjectStore]:
        """A store until the block ends: a crash, unless the block closed it. A process that died is not an error."""
        disk = SimulatedDisk(self.drive, faults=self.faults)
        try:
            store = await ObjectStore.open(
                disk,
                settings=self.settings,
                wall_clock=trio.current_time,
                random_bytes=self.rng.randbytes,
                report=self.reports.append,
            )
            assert self.identity in {None, store.identity}
            self.identity = store.identity
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.run)
                nursery.start_soon(self._end_rounds, store)
                yield store
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            others = group.split(ProcessDied)[1]
            if others is not None:
                raise others from None
        except ProcessDied:
            pass
        finally:
            with contextlib.suppress(ProcessDied):
                await disk.close()

    async def _end_rounds(self, store: ObjectStore) -> None:
        """As the poller does after it has served some sockets."""
        while True:
            await trio.sleep(self.rng.uniform(0, ROUND_SECONDS_MAX))
            store.begin_round()
            store.end_round()

    async def check(self, store: ObjectStore) -> None:
        """Everything acknowledged is there, and nothing that was never sent. What is there now is known from now on."""
        for (namespace_name, name), known in self.objects.items():
            if known.deleted or (known.maybe_deleted and not await _exists(store, namespace_name, name)):
                assert not await _exists(store, namespace_name, name)
                known.deleted = True
                continue
            if not known.exists and not await _exists(store, namespace_name, name):
                assert known.synced == 0
                known.sent.clear()
                continue
            namespace = await store.namespace(namespace_name, create=False)
            info = namespace.stat(name)
            assert known.synced <= info.size <= len(known.sent), (name, known.synced, info.size, len(known.sent))
            assert info.sealed or not known.sealed
            assert known.sealed or known.maybe_sealed or not info.sealed
            content = await read_all(namespace, name)
            assert content == known.sent[: info.size], name
            assert crc32c(content) == info.crc
            assert not info.damaged
            known.sent = bytearray(content)
            known.synced, known.sealed, known.exists = info.size, info.sealed, True
        for namespace_name, epoch in self.claims.items():
            claim = (await store.namespace(namespace_name, create=False)).claim
            assert claim is not None
            assert claim.epoch >= epoch

    async def append_for_a_while(self, store: ObjectStore, namespace_name: str, name: str, times: int) -> None:
        """One client's life: append, sometimes seal, sometimes delete. A refusal ends it."""
        known = self.objects.setdefault((namespace_name, name), Known())
        with contextlib.suppress(RefusedError, ProcessDied):
            namespace = await store.namespace(namespace_name, create=True)
            appender = await self.start(namespace, name, known)
            for _ in range(times):
                await self._append_some(appender, known)
                if self.rng.random() < 0.3:
                    await trio.sleep(self.rng.uniform(0, 0.003))
            await appender.end()
            assert appender.synced == len(known.sent)
            known.synced, known.exists = appender.synced, True
            if self.rng.random() < 0.3:
                known.maybe_sealed = True
                await namespace.seal(name, size=known.synced, claim=namespace.claim)
                known.sealed = True
                if self.rng.random() < 0.5:
                    known.maybe_deleted = True
                    await namespace.delete(name, claim=namespace.claim)
                    known.deleted = True

    async def fence(self, store: ObjectStore, namespace_name: str) -> None:
        """Claim the namespace with the next epoch."""
        with contextlib.suppress(RefusedError, ProcessDied):
            namespace = await store.namespace(namespace_name, create=True)
            epoch = 1 + (namespace.claim.epoch if namespace.claim is not None else 0)
            await namespace.fence(Claim(epoch=epoch, holder=self.rng.randbytes(16)))
            self.claims[namespace_name] = epoch

    async def start(self, namespace: Namespace, name: str, known: Known) -> Appender:
        """Begin where this client stopped; acknowledgements are noted."""

        def on_progress() -> None:
            known.synced, known.exists = max(known.synced, appender.synced), True

        appender = await namespace.start_append(
            name,
            size=len(known.sent),
            prefix_crc=crc32c(known.sent),
            claim=namespace.claim,
            instance=INSTANCE,
            on_progress=on_progress,
            on_evicted=lambda _: None,
        )
        return appender

    async def _append_some(self, appender: Appender, known: Known) -> None:
        payload = self.rng.randbytes(self.rng.choice([1, 100, 4096, 10_000, 70_000]))
        await appender.wait_room()
        known.sent += payload
        try:
            appender.append(appender.written, crc32c(payload), payload)
        except RefusedError:
            del known.sent[len(known.sent) - len(payload) :]
            raise


async def read_all(namespace: Namespace, name: str) -> bytes:
    content = b""
    while piece := (await namespace.read(name, len(content), 50_000)).content:
        content += piece
    return content


async def _exists(store: ObjectStore, namespace_name: str, name: str) -> bool:
    try:
        (await store.namespace(namespace_name, create=False)).stat(name)
    except RefusedError as refusal:
        if refusal.code is not ErrorCode.NOT_FOUND:
            raise
        return False
    return True
