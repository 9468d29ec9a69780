"""When `verify` says OK, any members that may be lost can be lost; else it does not: by planted faults."""

from __future__ import annotations

import copy
import random
from contextlib import AsyncExitStack
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from journal.copies.copies import MemberCopy
from journal.copies.promise import Verdict, judge
from journal.copies.surveying import survey
from journal.copies.verification import judge_reports, verify_called_damaged, verify_copy
from journal.copies.volume_reader import open_reader
from journal.errors import JournalError
from journal.image.index_snapshot import SnapshotName, parse_snapshot_name
from journal.kept_past import Retention
from journal.records.record import ChainHash, Epoch, Lsn
from journal.records.settings import JournalSettings
from sos_client.client import open_client
from sos_server.storage.contents import Claim
from tests.fakes.virtual_time import in_virtual_time
from tests.journal.cluster import VOLUME, MemoryCluster, create, memory_cluster, open_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from journal.copies.volume_reader import VolumeReader

MEMBERS: Final = "abcd"
MAY_BE_LOST: Final = 2  # of four members three acknowledge
SETTINGS: Final = JournalSettings(segment_bytes_max=4000, retention=Retention(bytes=12_000))
FILES: Final = {f"file/{number}": bytes([number]) * 1000 for number in range(6)}


class Disk(NamedTuple):
    """What a server has of the volume."""

    claim: Claim | None
    objects: dict[str, tuple[bytes, bool]]


class Stage:
    """A volume that was trimmed and taken over, with a pinned moment, and nothing that runs."""

    def __init__(self, servers: MemoryCluster) -> None:
        self.servers = servers
        self.pinned = 0
        self.earlier: dict[str, Disk] = {}

    async def build(self) -> None:
        await create(self.servers, acknowledgements=len(MEMBERS) - 1)
        async with open_on(self.servers, settings=SETTINGS) as journal:
            while not journal.log.segment.oldest:
                await journal.put("overwritten", bytes(1000), overwrite=True)
            self.pinned = journal.log.segment.oldest
            await journal.pin("fork", lsn=self.pinned, seconds=86_400)
            for path, content in FILES.items():
                await journal.put(path, content)
                await trio.sleep(0.1)
        self.earlier = self.saved()
        async with open_on(self.servers, settings=SETTINGS) as journal:
            for _ in range(8):
                await journal.put("overwritten", bytes(1000), overwrite=True)
            await trio.sleep(3)

    def saved(self) -> dict[str, Disk]:
        return {name: self._disk(name) for name in MEMBERS}

    def _disk(self, name: str) -> Disk:
        objects = {one: (bytes(stored.content), stored.sealed) for one, stored in self.servers.objects(name).items()}
        return Disk(self.servers.servers[name].store.namespaces[VOLUME].claim, objects)

    async def put_back(self, disks: dict[str, Disk]) -> None:
        for name, disk in disks.items():
            await self.servers.down(name)
            await self.put_back_one(name, disk)
            await self.servers.up(name)

    async def put_back_one(self, name: str, disk: Disk) -> None:
        store = self.servers.servers[name].store
        namespace = await store.namespace(VOLUME, create=True)
        namespace.claim = disk.claim
        namespace.objects.clear()
        for one, (content, sealed) in disk.objects.items():
            claim, namespace.claim = namespace.claim, None
            appender = await namespace.start_append(
                one, size=0, prefix_crc=None, claim=None, instance=bytes(16),
                on_progress=lambda: None, on_evicted=lambda _: None,
            )  # fmt: skip
            appender.abandon()
            namespace.claim = claim
            namespace.objects[one].content += content
            namespace.objects[one].sealed = sealed

    async def says_ok(self) -> bool:
        """What `verify` and `status` find together."""
        try:
            async with AsyncExitStack() as stack:
                reader = await self.reader(stack)
                reports = [await verify_copy(reader, one, lambda _: None) for one in reader.copies]
                findings = await judge_reports(reader, reports)
                holdings = await survey(reader, await verify_called_damaged(reader))
                findings += judge(reader.header.membership, epoch=reader.header.epoch, holdings=holdings)
        except JournalError:
            return False
        return {one.verdict for one in reports} | {one.verdict for one in findings} == {Verdict.OK}

    async def reader(self, stack: AsyncExitStack, names: Iterable[str] = MEMBERS) -> VolumeReader:
        dial = partial(self.servers.dial, source="operator")
        copies = []
        for name in names:
            client = await stack.enter_async_context(open_client(name, dial=dial))
            copies.append(MemberCopy(client, label=name, volume=VOLUME))
        return await open_reader(VOLUME, copies)

    async def comes_back(self, gone: tuple[str, ...]) -> bool:
        """Whether an operator who gives these members up gets everything from the others."""
        for name in gone:
            await self.servers.down(name)
        try:
            with trio.fail_after(60):
                async with open_on(self.servers, settings=SETTINGS, accept_loss=True) as journal:
                    for path, content in FILES.items():
                        if b"".join([piece async for piece in journal.read(path)]) != content:
                            return False
                    async with AsyncExitStack() as stack:
                        reader = await self.reader(stack, [name for name in MEMBERS if name not in gone])
                        return (await reader.image_at(Lsn(self.pinned))).lsn == self.pinned
        except (JournalError, trio.TooSlowError):
            return False
        finally:
            for name in gone:
                await self.servers.up(name)


def _object_gone(stage: Stage, name: str, chance: random.Random) -> None:
    there = stage.servers.objects(name)
    if there:
        del there[chance.choice(sorted(there))]


def _cut_short(stage: Stage, name: str, chance: random.Random) -> None:
    there = stage.servers.objects(name)
    if there:
        stored = there[chance.choice(sorted(there))]
        del stored.content[chance.randrange(len(stored.content)) :]


def _bit_flipped(stage: Stage, name: str, chance: random.Random) -> None:
    there = stage.servers.objects(name)
    if there:
        stored = there[chance.choice(sorted(there))]
        stored.content[chance.randrange(len(stored.content))] ^= 1 << chance.randrange(8)


def _unsealed(stage: Stage, name: str, chance: random.Random) -> None:
    there = stage.servers.objects(name)
    if there:
        there[chance.choice(sorted(there))].sealed = False


def _emptied(stage: Stage, name: str, chance: random.Random) -> None:
    del chance
    stage.servers.objects(name).clear()


def _claimed(stage: Stage, name: str, chance: random.Random) -> None:
    namespace = stage.servers.servers[name].store.namespaces[VOLUME]
    assert namespace.claim is not None
    namespace.claim = Claim(epoch=namespace.claim.epoch + 1, holder=chance.randbytes(16))


FAULTS: Final[tuple[Callable[[Stage, str, random.Random], None], ...]] = (
    _object_gone, _object_gone, _cut_short, _cut_short, _bit_flipped, _unsealed, _emptied, _claimed,
)  # fmt: skip


@in_virtual_time
async def test_ok_is_said_only_of_a_volume_that_survives_each_loss_that_it_may_have() -> None:
    chance, verdicts = random.Random(11), []
    async with memory_cluster(MEMBERS) as servers:
        stage = Stage(servers)
        await stage.build()
        whole = stage.saved()
        for _ in range(40):
            await stage.put_back(whole)
            for _ in range(chance.choice([1, 1, 2, 3])):
                name = chance.choice(MEMBERS)
                if chance.random() < 0.15:
                    await stage.put_back_one(name, stage.earlier[name])
                else:
                    chance.choice(FAULTS)(stage, name, chance)
            broken = stage.saved()
            is_ok = await stage.says_ok()
            verdicts.append(is_ok)
            for gone in combinations(MEMBERS, MAY_BE_LOST) if is_ok else ():
                await stage.put_back(broken)
                assert await stage.comes_back(gone), f"OK was said, and without {gone} something is lost"
    assert {True, False} == set(verdicts)


@in_virtual_time
async def test_a_whole_volume_is_ok_and_survives_each_loss() -> None:
    async with memory_cluster(MEMBERS) as servers:
        stage = Stage(servers)
        await stage.build()
        whole = stage.saved()
        assert await stage.says_ok()
        for gone in combinations(MEMBERS, MAY_BE_LOST):
            await stage.put_back(whole)
            assert await stage.comes_back(gone)


@in_virtual_time
async def test_no_fault_of_what_is_needed_is_said_to_be_ok() -> None:
    """Each object of a member that the image or the pinned moment is told from: absent, and damaged in one more way."""
    async with memory_cluster(MEMBERS) as servers:
        stage = Stage(servers)
        await stage.build()
        whole = stage.saved()
        async with AsyncExitStack() as stack:
            reader = await stage.reader(stack)
            needed = [link.segment for link in reader.chain.links]
        needed += [
            name for name in whole["a"].objects if (parsed := parse_snapshot_name(name)) and parsed.lsn == stage.pinned
        ]
        assert len(needed) > 3
        for number, name in enumerate(needed):
            content, sealed = whole["a"].objects[name]
            flipped = bytes([content[0] ^ 1]) + content[1:]
            for left in (None, flipped if number % 2 else content[: len(content) // 2]):
                broken = copy.deepcopy(whole["a"])
                del broken.objects[name]
                if left is not None:
                    broken.objects[name] = left, sealed
                await stage.put_back(whole | {"a": broken})
                assert not await stage.says_ok(), f"{name} has {None if left is None else len(left)} bytes"


@in_virtual_time
async def test_an_index_snapshot_that_was_begun_and_not_ended_is_no_fault() -> None:
    """Its owner died while it wrote it to the first member: nobody has it whole, nobody needs it, and it stays."""
    async with memory_cluster(MEMBERS) as servers:
        stage = Stage(servers)
        await stage.build()
        disks = stage.saved()
        async with AsyncExitStack() as stack:
            reader = await stage.reader(stack)
            lsn, value = max(reader.chain.boundaries.items())
        name = str(SnapshotName(lsn=Lsn(lsn), epoch=Epoch(1), chain=ChainHash(value)))
        for disk in disks.values():
            disk.objects.pop(name, None)
        disks["a"].objects[name] = b"begun", False
        await stage.put_back(disks)
        assert await stage.says_ok()
        disks["a"].objects[name] = b"begun", True
        await stage.put_back(disks)
        assert not await stage.says_ok()
