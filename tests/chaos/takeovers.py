"""`python -m tests.chaos.takeovers --minutes 60`: kills, takeovers and replaced members under load, without Spark.

Real servers and services, clients that write down what they ask and what they are told. Each round ends with everything
killed; then, on copies of the servers' directories, every set of members that may be lost is taken away in turn, the
volume is taken over from the rest, and the independent checker (tests/histories) compares the log there with what the
clients were told.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalError
from journal.owner.opening import open_journal
from journal.records.settings import MEMBER_DEADLINES, Surroundings
from journal.takeover.membership_change import Wish, change_members
from journal.takeover.volume_creation import create_volume
from sos_client.client import open_client
from sos_client.wire.errors import SosError
from tests.chaos.recording import Recorder
from tests.histories.checker import Call, check, to_lines
from tests.histories.log_bytes import BrokenLogError, LogRecord, read_log
from tests.system.ports import free_port
from tests.system.server_process import ServerProcess
from tests.system.service_process import VOLUME, ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MEMBERS: Final = 3
SPARES: Final = 2
SERVICES: Final = 2
CLIENTS: Final = 6
EVENTS_A_ROUND: Final = 80  # to judge a round takes as long as some twenty of them
PAUSE_SECONDS_MAX: Final = 0.5
CHANGE_SECONDS_MAX: Final = 600.0
OPEN_SECONDS_MAX: Final = 900.0
JUDGE: Final = "judge/was-here"
EVENTS: Final = {"kill a server": 6, "kill a service": 6, "kill two servers": 1, "stop a service": 1, "replace": 3}


@dataclass(slots=True)
class TakeoversReport:
    """What happened in all rounds."""

    rounds: int = 0
    taken_away: int = 0
    calls: int = 0
    events: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def text(self, seconds: float) -> str:
        count = sum(self.events.values())
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(self.events.items()))
        verdict = "nothing lost, nothing twice, no phantom, no stale read" if not self.findings else "WRONG"
        return "\n".join(
            [
                f"{count} events ({kinds}) in {self.rounds} rounds, {seconds / 60:.1f} min,"
                f" {3600 * count / max(seconds, 1):.0f} an hour; {self.calls} calls of clients;"
                f" {self.taken_away} times members were taken away on copies",
                f"verdict: {verdict}",
                *self.findings,
            ]
        )


class Round:
    """One volume, from its birth to its judgement."""

    def __init__(self, folder: Path, seed: int, report: TakeoversReport) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.report = report
        self.servers: list[ServerProcess] = []
        for number in range(MEMBERS + SPARES):
            root = folder / f"server{number}"
            root.mkdir(parents=True)
            self.servers.append(ServerProcess(root, port=free_port()))
        addresses = [server.address for server in self.servers]
        self.services = [ServiceProcess(folder / f"service{number}", addresses) for number in range(SERVICES)]
        self.members = list(range(MEMBERS))

    @property
    def addresses(self) -> list[str]:
        return [server.address for server in self.servers]

    async def play(self, events: int) -> None:
        """The load, the events, the judgement."""
        calls: list[Call] = []
        try:
            async with trio.open_nursery() as starting:
                for server in self.servers:
                    starting.start_soon(trio.to_thread.run_sync, server.start)
            await create_volume(VOLUME, self.addresses[:MEMBERS])
            for service in self.services:
                await trio.to_thread.run_sync(service.start)
            async with trio.open_nursery() as nursery:
                for number in range(CLIENTS):
                    recorder = Recorder(f"client{number}", random.Random(self.chance.random()), calls)
                    nursery.start_soon(recorder.run, [service.address for service in self.services], VOLUME)
                for _ in range(events):
                    await trio.sleep(self.chance.uniform(0, PAUSE_SECONDS_MAX))
                    (kind,) = self.chance.choices(list(EVENTS), list(EVENTS.values()))
                    await self._event(kind)
                    self.report.events[kind] += 1
                await trio.sleep(2)
                nursery.cancel_scope.cancel()
        finally:
            for service in self.services:
                service.kill()
            for server in self.servers:
                server.kill()
        self.report.calls += len(calls)
        (self.folder / "calls.jsonl").write_text("\n".join(to_lines(calls)))
        await self._judge(calls)
        self.report.rounds += 1

    async def _event(self, kind: str) -> None:
        chance = self.chance
        if kind == "replace":
            await self._replace()
        elif "server" in kind:
            away = chance.sample(self.members, 2 if "two" in kind else 1)
            for number in away:
                self.servers[number].kill()
            await trio.sleep(chance.choice([0, 0, 0.3]))
            for number in away:
                await trio.to_thread.run_sync(self.servers[number].start)
        else:
            service = chance.choice(self.services)
            if kind == "stop a service":
                await trio.to_thread.run_sync(service.terminate)
            else:
                service.kill()
            if chance.random() < 0.2:
                service.forget_directory()
            await trio.to_thread.run_sync(service.start)

    async def _replace(self) -> None:
        """One member is lost with its disk, a spare takes its place."""
        leaving = self.chance.choice(self.members)
        joining = self.chance.choice([number for number in range(len(self.servers)) if number not in self.members])
        self.servers[leaving].kill()
        trouble: JournalError | None = None
        wish = Wish(joining=self.addresses[joining], leaving=self.addresses[leaving])
        with trio.move_on_after(CHANGE_SECONDS_MAX):
            while True:
                try:
                    await change_members(VOLUME, self.addresses, wish, surroundings=Surroundings())
                except JournalError as error:
                    if "none of the members" in str(error):  # it was done, though the answer was lost
                        break
                    trouble = error
                    await trio.sleep(0.3)
                else:
                    break
            self.members[self.members.index(leaving)] = joining
            shutil.rmtree(self.servers[leaving].root)
            await trio.to_thread.run_sync(self.servers[leaving].start)
            return
        self.report.findings.append(f"{self.folder}: member {leaving} could not be replaced by {joining}: {trouble}")
        await trio.to_thread.run_sync(self.servers[leaving].start)

    async def _judge(self, calls: Sequence[Call]) -> None:
        for gone in [None, *self.members]:
            words = "with all members" if gone is None else f"without server {gone}"
            self.report.taken_away += gone is not None
            copies = self.folder / f"judged-{gone}"
            present = [number for number in range(len(self.servers)) if number != gone]
            try:
                records = await _taken_over([self.folder / f"server{number}" for number in present], copies)
                strangers = {record.client.hex() for record in records if record.meta and record.meta[0] == JUDGE}
                findings = check(calls, records, strangers=strangers)
            except (BrokenLogError, JournalError, trio.TooSlowError) as error:
                findings = [f"{type(error).__name__}: {error}"]
            self.report.findings += [f"{self.folder}, {words}: {finding}" for finding in findings[:5]]
            shutil.rmtree(copies)


async def _taken_over(directories: Sequence[Path], copies: Path) -> list[LogRecord]:
    """Servers on copies of these directories, an owner that takes the volume over from them, and the log it has."""
    servers = []
    for directory in directories:
        shutil.copytree(directory, copies / directory.name)
        servers.append(ServerProcess(copies / directory.name, port=free_port()))
    try:
        async with trio.open_nursery() as nursery:
            for server in servers:
                nursery.start_soon(trio.to_thread.run_sync, server.start)
        addresses = [server.address for server in servers]
        with trio.fail_after(OPEN_SECONDS_MAX):
            async with open_journal(VOLUME, servers=addresses) as journal:
                await journal.put(JUDGE, b"")
                acknowledged = journal.acknowledged_lsn
            return read_log([await _objects(address) for address in addresses], acknowledged=acknowledged)
    finally:
        for server in servers:
            server.kill()


async def _objects(address: str) -> dict[str, bytes]:
    """The segments that a server has; none if it has not the volume."""
    async with open_client(address, deadlines=MEMBER_DEADLINES) as client:
        try:
            listed = [info async for info in client.list_all(VOLUME)]
        except SosError:
            return {}
        return {info.name: await client.get(VOLUME, info.name) for info in listed if ".seg" in info.name and info.size}


def play_rounds(
    folder: Path, *, seconds: float, seed: int, rounds_max: int = 10**6, events: int = EVENTS_A_ROUND,
    say: Callable[[str], None] = lambda _: None,
) -> TakeoversReport:  # fmt: skip
    """Rounds until the time is over or something is found; what was found stays in the folder."""
    report, began = TakeoversReport(), time.monotonic()
    for number in range(rounds_max):
        if time.monotonic() - began > seconds or report.findings:
            break
        one = Round(folder / f"round{number}", seed + number, report)
        trio.run(one.play, events)
        say(f"seed {seed + number}: {report.text(time.monotonic() - began)}")
        if not report.findings:
            shutil.rmtree(one.folder)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.takeovers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sos-takeovers-"))
    report = play_rounds(
        folder, seconds=options.minutes * 60, seed=options.seed, say=lambda line: print(line, flush=True)
    )
    if report.findings:
        print(f"what is left of it: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
