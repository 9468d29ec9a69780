"""What a run is judged by: the volume is taken over and read back, and every answer anybody got is held against it.

First on copies of the drives, with each set of members gone that the promise allows to be lost; then on the drives
themselves. A volume that forgets is held to its pins and to how long it promised to remember, too.
"""

from __future__ import annotations

import dataclasses
import random
from bisect import bisect_left
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import msgpack
import trio

from journal.copies.promise import Verdict
from journal.copies.volume_reader import open_reader, whole_snapshot
from journal.errors import DamagedJournalError, JournalError
from journal.image.index_snapshot import checked_snapshot, parse_snapshot_name, snapshots_on_chain
from journal.owner.opening import open_journal
from journal.records.record import Lsn
from tests.fakes.simulated_disk import DiskFaults
from tests.histories.checker import check
from tests.histories.log_bytes import read_log
from tests.simulation.journal_actors import PATHS
from tests.simulation.journal_archive import open_copies
from tests.simulation.journal_calls import calls_of
from tests.simulation.journal_model import LogModel, check_history
from tests.simulation.journal_process import VOLUME, address_of, surroundings
from tests.simulation.journal_verdict import require_ok, verify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from journal.copies.copies import Copy
    from journal.copies.volume_reader import VolumeReader
    from journal.owner.journal import Journal
    from journal.records.membership import Configuration, Membership
    from tests.fakes.simulated_drive import SimulatedDrive
    from tests.simulation.journal_stage import JournalStage

RECOVERY_SECONDS: Final = 90.0
TAKEN_AWAY_MAX: Final = 3
"""Of all sets of members that may be lost, so many are drawn: for three members, all."""
TOO_MUCH_RATE: Final = 0.3
MOMENTS_MAX: Final = 4
AUDITOR: Final = "auditor"
AUDITED_PATH: Final = "auditor/was-here"
AUDITED_CONTENT: Final = b"new" * 150
WRITES_AFTER_LOSS: Final = 40
"""More than what was lost, so that what comes back lies in the past of what is written after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One way to look at what is left: who is there, and whether an operator gives up on the others."""

    present: tuple[str, ...]
    accept_loss: bool
    words: str
    is_bearable: bool = True
    """Whether the promise covers it. Else much may be gone, but what is said afterwards is true all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What there is to be lost."""

    membership: Membership
    is_ok: bool
    """Whether `verify` says that all is well, although some have lost what they had once."""
    ends: dict[str, int]
    """How far the log goes on each member that can be read."""


async def audit(stage: JournalStage, nursery: trio.Nursery) -> None:
    """Everything was stopped. Judge what the drives have, and at last, if nothing was lost, what is said of it."""
    everybody = Trial(present=tuple(stage.servers), accept_loss=False, words="")
    drives = {name: host.drive.copied() for name, host in stage.servers.items()}
    stage.start_servers(nursery)
    found = await _looked_at(stage)
    here = set() if found.is_ok else stage.lost
    for trial in [*_losses(stage, found.membership, here), *_too_much(stage, found)]:
        stage.world.note("taken away", trial.words)
        await _set_up(stage, drives, trial, nursery)
        await _judge(stage, trial)
        if not trial.is_bearable:
            await _come_back(stage, trial, nursery)
    await _set_up(stage, drives, everybody, nursery)
    await _judge(stage, everybody)
    if stage.scenario.goes_on and not stage.lost:
        await require_ok(stage)


async def _set_up(stage: JournalStage, drives: dict[str, SimulatedDrive], trial: Trial, nursery: trio.Nursery) -> None:
    """The servers as they were when everything was stopped, only those that are present running."""
    for name, host in stage.servers.items():
        await host.kill(power_cut=True)
        host.drive = drives[name].copied()
        host.faults, host.refused_to_start = DiskFaults(), None
        host.held_down = name not in trial.present
    stage.start_servers(nursery)


async def _come_back(stage: JournalStage, trial: Trial, nursery: trio.Nursery) -> None:
    """The others are there again, with a past that was given up: nobody may take it for the volume's."""
    for host in stage.servers.values():
        host.held_down = False
    stage.start_servers(nursery)
    await trio.sleep(1)
    words = f"{trial.words}, and the others come back"
    await _judge(stage, dataclasses.replace(trial, present=tuple(stage.servers), accept_loss=False, words=words))


async def _looked_at(stage: JournalStage) -> Found:
    """Before anything is taken away."""
    await trio.sleep(1)
    async with open_copies(stage.world, stage.servers, AUDITOR, random.Random(stage.chance.random())) as copies:
        whole = [one for one in copies if _host_of(one.label) not in stage.lost]
        membership = (await open_reader(VOLUME, whole)).header.membership
        members = [one for one in copies if one.label in {member.address for member in membership.members}]
        with suppress(JournalError):
            reader = await open_reader(VOLUME, members)
            ends = {_host_of(one.label): int(reader.chain.ends[one.label].lsn) for one in reader.chain.copies}
            is_ok = False
            if stage.lost and len(members) == len(membership.members):
                verdict, _ = await verify(reader, members)
                stage.world.note("verified", verdict.name)
                is_ok = verdict is Verdict.OK
            return Found(membership=membership, is_ok=is_ok, ends=ends)
    return Found(membership=membership, is_ok=False, ends={})


def _losses(stage: JournalStage, membership: Membership, lost: set[str]) -> Iterator[Trial]:
    """Some of the sets that the promise allows to be lost, those that are `lost` already always among them."""
    names = {_host_of(member.address) for member in membership.members}
    here = lost & names
    allowed = [
        gone
        for size in range(len(names))
        for more in combinations(sorted(names - here), size)
        if (gone := here | set(more)) and all(_bearable(gone, one) for one in membership.configurations)
    ]
    largest = [gone for gone in allowed if not any(gone < other for other in allowed)]
    for gone in stage.chance.sample(largest, min(len(largest), TAKEN_AWAY_MAX)):
        rest = tuple(name for name in stage.servers if name not in gone)
        enough = all(len(_names(one) - gone) >= one.acknowledgements for one in membership.configurations)
        yield Trial(present=rest, accept_loss=not enough, words=f"without {', '.join(sorted(gone))}")


def _too_much(stage: JournalStage, found: Found) -> Iterator[Trial]:
    """Now and then so few members that acknowledged records may be on none of them, and an operator accepts that."""
    membership, gives_up = found.membership, stage.scenario.profile.gives_up
    names = _names(membership.configuration)
    few = len(names) - membership.configuration.acknowledgements
    rest = sorted(names - stage.lost)
    alone = len(membership.configurations) == 1 and not stage.scenario.forgets
    if alone and few and len(rest) >= few and (gives_up or stage.chance.random() < TOO_MUCH_RATE):
        furthest_back = sorted(rest, key=lambda name: found.ends.get(name, 0))
        present = tuple(furthest_back[:few] if gives_up else stage.chance.sample(rest, few))
        yield Trial(present=present, accept_loss=True, words=f"with {', '.join(present)} alone", is_bearable=False)


def _bearable(gone: set[str], configuration: Configuration) -> bool:
    return len(gone & _names(configuration)) <= configuration.acknowledgements - 1


def _names(configuration: Configuration) -> set[str]:
    return {_host_of(member.address) for member in configuration.members}


def _host_of(address: str) -> str:
    return address.partition(":")[0]


async def _judge(stage: JournalStage, trial: Trial) -> None:
    """Take the volume over, and hold its whole past against what clients were told."""
    problem: JournalError | None = None
    give_up_at = trio.current_time() + RECOVERY_SECONDS
    where = f"{trial.words}: " if trial.words else ""
    while trio.current_time() < give_up_at:
        opened = False
        try:
            async with open_journal(
                VOLUME,
                servers=[address_of(name) for name in stage.servers],
                settings=stage.plan.settings,
                surroundings=surroundings(stage.world, AUDITOR, random.Random(stage.chance.random())),
                accept_loss=trial.accept_loss,
            ) as journal:
                opened = True
                await _Judgement(stage, journal, trial, where).pass_()
                return
        except JournalError as error:
            stage.world.require(not opened, f"{where}what an owner has cannot be read: {error}")
            problem = error
        await trio.sleep(1)
    stage.world.require(
        promise=False, sentence=f"{where}nobody can take the volume over, and all is in order: {problem}"
    )


class _Judgement:
    """One owner's view of the volume, against what was told."""

    def __init__(self, stage: JournalStage, journal: Journal, trial: Trial, where: str) -> None:
        self.stage = stage
        self.world = stage.world
        self.journal = journal
        self.trial = trial
        self.where = where
        self.model = LogModel(stage.world)
        self.end = 0

    async def pass_(self) -> None:
        for _ in range(1 if self.trial.is_bearable else WRITES_AFTER_LOSS):
            await self.journal.put(AUDITED_PATH, AUDITED_CONTENT, overwrite=True)
        chance = random.Random(self.stage.chance.random())
        self.end = self.journal.acknowledged_lsn  # before the reader looks: the owner may begin a segment meanwhile
        async with open_copies(self.world, self.trial.present, AUDITOR, chance) as copies:
            reader = await open_reader(VOLUME, copies)
            await self._read_log(reader)
            if self.trial.is_bearable:
                check_history(self.world, self.model, self.stage.history, self.stage.rights)
            for path in (*PATHS, AUDITED_PATH):
                await self._compare(path)
            if not self.trial.is_bearable:
                self.world.counts["loss accepted"] += self.trial.accept_loss
                for moment in self._after_snapshots(reader):
                    await self._compare_past(reader, moment)
                return
            for moment in self._moments(chance):
                await self._compare_past(reader, moment)
            if not self.trial.words:
                await self._check_snapshots(reader)
            if not self.trial.words and self.stage.archive.pinned is None:
                await self._ask_another_judge(reader.chain.copies)
        if not self.trial.words:
            self.world.counts["operations audited"] += len(self.stage.history.operations)
            self.world.counts["records audited"] += len(self.model.places)

    async def _read_log(self, reader: VolumeReader) -> None:
        """What was read in time, and the rest as the members have it, up to what the owner says is acknowledged."""
        archive = self.stage.archive
        for record in archive.records:
            self.model.add(record)
        async with aclosing(reader.records(archive.end, self.end, payloads=True)) as records:
            async for record in records:
                self.model.add(record)
        self.world.require(
            self.model.end == self.end,
            f"{self.where}the members' records end at {self.model.end}, the owner says {self.end}",
        )

    async def _check_snapshots(self, reader: VolumeReader) -> None:
        """What stands for the log says what the log says, files and answers, whoever may have use for it."""
        counting = snapshots_on_chain(reader.chain.names, reader.chain.boundaries, lsn=self.model.end)
        for name in map(str, counting):
            try:
                image = checked_snapshot(name, await whole_snapshot(reader.chain.copies, name))
            except JournalError:
                continue  # rotten
            for path in PATHS:
                status, wanted = image.tree.find(path), self.model.content_at(path, image.lsn)
                same = (status is None) == (wanted is None) and (wanted is None or status.size == len(wanted))  # type: ignore[union-attr]
                self.world.require(same, f"{name} has another {path} than the log before it")
            for packed in image.operations.answers():
                client, sequence, *_ = msgpack.unpackb(packed)
                place = self.model.places.get((client, sequence), 0)
                self.world.require(place <= image.lsn, f"{name} has an answer that was given later, at {place}")
            self.world.counts["snapshots audited"] += 1

    async def _ask_another_judge(self, copies: Sequence[Copy]) -> None:
        """The independent checker sees what clients saw, and the bytes that members have."""
        objects: list[dict[str, bytes]] = []
        for one in copies:
            objects.append({})
            for name, stored in (await one.list()).items():
                if name.endswith(".seg"):
                    with suppress(DamagedJournalError):  # of a member that was lost: the others have it
                        objects[-1][name] = await one.read(name, 0, stored.size)
        records = read_log(objects, acknowledged=self.journal.acknowledged_lsn)
        strangers = {one.client.hex() for one in records if one.meta and one.meta[0] == AUDITED_PATH}
        findings = check(list(calls_of(self.stage.history)), records, strangers=strangers)
        self.world.require(not findings, f"the other judge says: {'; '.join(findings[:3])}")
        self.world.counts["judged twice"] += 1

    async def _compare(self, path: str) -> None:
        wanted = self.model.content_at(path, self.model.end)
        try:
            got: bytes | None = b"".join([piece async for piece in self.journal.read(path)])
        except JournalError as error:
            got = None
            self.world.require(wanted is None, f"{self.where}{path} cannot be read: {error}")
        self.world.require(got == wanted, f"{self.where}{path} has other bytes than the log gives")

    def _moments(self, chance: random.Random) -> Iterable[int]:
        """Moments that must be readable: the pinned one, and some that are not too old."""
        pinned, forgets = self.stage.archive.pinned, self.stage.scenario.forgets
        kept = [] if pinned is None else [pinned]
        young = self._young() if forgets and not self.trial.words else []
        return [*kept, *chance.sample(young, min(len(young), MOMENTS_MAX))]

    def _after_snapshots(self, reader: VolumeReader) -> list[int]:
        """The first moment after each index snapshot that lies anywhere, also of the past that was given up."""
        ends = sorted(self.model.chains)
        found = {bisect_left(ends, parsed.lsn) for name in reader.chain.names if (parsed := parse_snapshot_name(name))}
        return [ends[index] for index in sorted(found) if index < len(ends)]

    def _young(self) -> list[int]:
        """Moments that ended so late, by the time that has really passed, that nothing allows them to be forgotten."""
        scenario, now = self.stage.scenario, trio.current_time()
        since = now - scenario.retention_seconds if scenario.retention_seconds else 0.0
        oldest = self.model.end - scenario.retention_bytes if scenario.retention_bytes else 0
        moments = []
        for operation in self.stage.history.operations:
            begin = self.model.begins.get(operation.key) if operation.key is not None else None
            if begin is not None and begin > oldest and operation.asked_at > since:
                moments.append(begin)
        return moments

    async def _compare_past(self, reader: VolumeReader, lsn: int) -> None:
        self.world.counts["moments audited"] += 1
        what = "pinned" if lsn == self.stage.archive.pinned else "young"
        try:
            image = await reader.image_at(Lsn(lsn))
            for path in PATHS:
                wanted, status = self.model.content_at(path, lsn), image.tree.find(path)
                self.world.require(
                    (status is None) == (wanted is None), f"{self.where}at LSN {lsn} {path} is not as the log gives"
                )
                if wanted is not None:
                    got = b"".join([piece async for piece in reader.read_file(image, path)])
                    self.world.require(got == wanted, f"{self.where}at LSN {lsn} {path} had other bytes")
        except JournalError as error:
            self.world.require(promise=False, sentence=f"{self.where}the {what} moment {lsn} is not readable: {error}")
