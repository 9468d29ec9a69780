"""One run of the journal half: three servers, two services that both want the volume, drivers, and what goes wrong.

At the end everything is repaired, a new owner takes the volume over, reads the whole log back, and every answer that
anybody ever got is held against it (`journal_model`).
"""

from __future__ import annotations

import random
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from journal.birth import create_volume
from journal.copies import MemberCopy
from journal.errors import JournalError
from journal.journal import open_journal
from journal.reading import open_reader
from sos_client.client import open_client
from sos_client.wire.errors import SosError
from tests.fakes.simulated_disk import DiskFaults
from tests.fakes.simulated_drive import Survival
from tests.fakes.simulated_network import NetworkFaults
from tests.simulation.journal_actors import CLIENT_SECONDS, PATHS, Driver
from tests.simulation.journal_model import History, LogModel, check_history
from tests.simulation.journal_process import (
    DEADLINES,
    MEMBERS,
    SERVERS,
    VOLUME,
    journal_settings,
    serve_volume,
    surroundings,
)
from tests.simulation.process import SimulatedHost
from tests.simulation.report import RunReport, report_on
from tests.simulation.server_process import serve
from tests.simulation.world import World

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from journal.copies import Copy
    from journal.journal import Journal

SERVICES: Final = ("x", "y")
DRIVERS: Final = 3
RECOVERY_SECONDS: Final = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What goes wrong in a run."""

    name: str
    events: dict[str, int]
    seconds: float = 5.0
    event_seconds: float = 0.4
    disk_errors: dict[str, float] = field(default_factory=dict)
    cut_rate: float = 0.0
    ghost_rate: float = 0.0
    stall_rate: float = 0.0
    services: int = 2


PROFILES: Final = (
    Profile(name="owners", events={"kill service": 4, "start service": 4, "stop service": 1, "partition": 1}),
    Profile(
        name="servers",
        services=1,
        seconds=15.0,
        events={"kill server": 4, "power cut": 5, "kill service": 2, "too few members": 3},
    ),
    Profile(
        name="network",
        events={"partition": 3, "one-way partition": 5, "cut": 6, "lose replies": 6, "start service": 1},
        cut_rate=0.003,
        ghost_rate=0.05,
    ),
    Profile(
        name="turns",
        stall_rate=0.05,
        events={"leave one behind": 3, "take turns": 3, "blackout": 4},
        services=1,
        seconds=7.0,
        event_seconds=0.2,
    ),
    Profile(
        name="a lost member",
        events={"lose a member": 2, "power cut": 2, "kill service": 3, "start service": 1, "cut": 1},
    ),
    Profile(
        name="everything",
        events={
            "kill service": 3,
            "start service": 3,
            "power cut": 3,
            "kill server": 1,
            "cut": 2,
            "lose replies": 2,
            "one-way partition": 2,
            "lose a member": 1,
            "driver crash": 1,
            "clock jump": 1,
            "fail a sync": 2,
        },
        disk_errors={"sync": 0.001},
        cut_rate=0.001,
    ),
)


def simulate_journal(seed: int, *, keep_trace: bool = False) -> RunReport:
    """Run one seed to its end, or to the first broken promise."""
    profile = PROFILES[seed % len(PROFILES)]
    faults = NetworkFaults(cut_rate=profile.cut_rate, ghost_rate=profile.ghost_rate, slow_rate=0.005)
    world = World(seed, network_faults=faults, keep_trace=keep_trace)
    return report_on(world, profile.name, _JournalRun(world, profile).run)


class _JournalRun:
    def __init__(self, world: World, profile: Profile) -> None:
        self.world = world
        self.profile = profile
        self.chance = world.chance("faults")
        self.history = History()
        self.servers = {name: SimulatedHost(world, name, serve) for name in MEMBERS}
        self.services = {name: SimulatedHost(world, name, serve_volume) for name in SERVICES[: profile.services]}
        self.victim = self.chance.choice(MEMBERS)
        """The one member that may lose what it has: k − 1 of n, as the promise says."""
        self.victim_is_lost = False
        self.drivers: list[Driver] = []

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for host in self.servers.values():
                host.start(nursery)
            await self._create()
            for host in self.services.values():
                host.start(nursery)
            self._arm()
            with trio.move_on_after(self.profile.seconds):
                async with trio.open_nursery() as working:
                    for number in range(DRIVERS):
                        driver = Driver(self.world, self.history, f"driver-{number}", list(self.services))
                        self.drivers.append(driver)
                        working.start_soon(driver.live)
                    working.start_soon(self._keep_up, nursery)
                    await self._break_things(nursery)
            await self._repair(nursery)
            await self._audit()
            nursery.cancel_scope.cancel()

    async def _create(self) -> None:
        quiet, self.world.network.faults = self.world.network.faults, NetworkFaults(slow_rate=0.0)
        await trio.sleep(0.5)
        await create_volume(
            VOLUME, SERVERS, surroundings=surroundings(self.world, "creator", self.world.chance("creator"))
        )
        self.world.network.faults = quiet

    async def _keep_up(self, nursery: trio.Nursery) -> None:
        """Start again what has ended by itself, as a supervisor does."""
        while True:
            await trio.sleep(0.4)
            self._start_servers(nursery)
            for host in self.services.values():
                if host.running and host.refused_to_start is not None:
                    self._check_services()

    def _start_servers(self, nursery: trio.Nursery) -> None:
        for host in self.servers.values():
            damaged = host.refused_to_start is not None
            if not host.running and not damaged and not host.held_down:
                host.start(nursery)
            may_refuse = host.name == self.victim and self.victim_is_lost
            self.world.require(
                not damaged or may_refuse, f"server {host.name} would not start: {host.refused_to_start}"
            )

    def _check_services(self) -> None:
        for host in self.services.values():
            self.world.require(host.refused_to_start is None, f"service {host.name} gave up: {host.refused_to_start}")

    async def _break_things(self, nursery: trio.Nursery) -> None:
        names, weights = list(self.profile.events), list(self.profile.events.values())
        while True:
            await trio.sleep(self.chance.expovariate(1 / self.profile.event_seconds))
            await self.chance.choice(list(self.servers.values())).between_awaits()
            (event,) = self.chance.choices(names, weights)
            self.world.note("event", event)
            await self._break(event, nursery)

    async def _break(self, event: str, nursery: trio.Nursery) -> None:
        network, chance = self.world.network, self.chance
        server, service = chance.choice(list(self.servers.values())), chance.choice(list(self.services.values()))
        match event:
            case "kill server" | "power cut":
                await self._restart(server, nursery, power_cut=event == "power cut")
            case "kill service" | "start service":
                # A service that starts takes the volume over, from a living owner, too.
                await self._restart(service, nursery, power_cut=chance.random() < 0.3)
            case "stop service":
                service.stop_wanted.set()
                with trio.move_on_after(12):
                    await service.wait_end()
                await self._restart(service, nursery, power_cut=False)
            case "cut" | "lose replies":
                if network.connections:
                    call = network.cut if event == "cut" else network.lose_replies
                    call(chance.choice(network.connections))
            case "partition" | "one-way partition":
                pair = [service.name, server.name]
                chance.shuffle(pair)
                network.partition(pair[0], pair[1])
                if event == "partition":
                    network.partition(pair[1], pair[0])
                await trio.sleep(chance.uniform(0, 4))
                network.heal()
            case "too few members":
                await self._take_away_two(nursery)
            case "leave one behind":
                await self._leave_one_behind(service, nursery)
            case "blackout":
                hosts = [*self.servers.values(), service]
                for host in hosts:
                    await host.kill(power_cut=True, survival=Survival.NOTHING)
                for host in hosts:
                    if not host.running and host.refused_to_start is None:
                        host.start(nursery)
            case "take turns":
                await self._take_turns(service, nursery)
            case "lose a member":
                await self._lose_a_member(nursery)
            case "driver crash":
                chance.choice(self.drivers).crash()
            case "fail a sync":
                server.faults.fail_at("sync", nth=chance.randrange(1, 8))
            case "clock jump":
                self.world.clock_skew_seconds += chance.choice([-3600.0, -1.0, 1.0, 3600.0])
            case _:
                raise AssertionError(event)

    async def _restart(self, host: SimulatedHost, nursery: trio.Nursery, *, power_cut: bool) -> None:
        if host.refused_to_start is not None and host.name in self.servers:
            return
        await host.kill(power_cut=power_cut)
        if host.name in self.services and self.chance.random() < 0.3:
            self._harm_local_copy(host)
        await trio.sleep(self.chance.uniform(0, 1))
        if not host.running:
            host.start(nursery)

    async def _leave_one_behind(self, service: SimulatedHost, nursery: trio.Nursery) -> None:
        """Only one member hears the owner for a while; then the next owner has to do without that one."""
        *deaf, hearing = self.chance.sample(sorted(self.servers), 3)
        for name in deaf:
            self.world.network.partition(service.name, name)
        await trio.sleep(self.chance.uniform(0.1, 0.6))
        await self._change_owner(service, self.servers[hearing], nursery)

    async def _take_turns(self, service: SimulatedHost, nursery: trio.Nursery) -> None:
        """One is away and comes back, then another one; the next owner has only these two."""
        first, second, third = (self.servers[name] for name in self.chance.sample(sorted(self.servers), 3))
        for host in (first, second):
            await host.kill(power_cut=True)
            await trio.sleep(self.chance.uniform(0.3, 1.0))
            if not host.running:
                host.start(nursery)
            if host is first:
                await trio.sleep(self.chance.uniform(0.1, 1.0))
        await self._change_owner(service, third, nursery)

    async def _change_owner(self, service: SimulatedHost, without: SimulatedHost, nursery: trio.Nursery) -> None:
        """The service starts anew, without its local copy, while one member is away; that one comes back later."""
        await service.kill(power_cut=True)
        service.drive.wipe()
        without.held_down = True
        await without.kill(power_cut=True)
        self.world.network.heal()
        if not service.running:
            service.start(nursery)
        await trio.sleep(self.chance.uniform(0.5, 2.0))
        without.held_down = False
        self._start_servers(nursery)

    def _harm_local_copy(self, host: SimulatedHost) -> None:
        """A service's directory is a cache: whatever is in it, nobody may notice."""
        if self.chance.random() < 0.3:
            host.drive.wipe()
        for _ in range(self.chance.randrange(8)):
            host.drive.flip_random_bit()

    async def _take_away_two(self, nursery: trio.Nursery) -> None:
        """Below the quorum, for a while: writes wait, or end with an outcome that nobody knows."""
        away = self.chance.sample(sorted(self.servers), 2)
        for name in away:
            await self.servers[name].kill(power_cut=self.chance.random() < 0.5)
            self.servers[name].held_down = True
        await trio.sleep(self.chance.uniform(1, 1.5 * CLIENT_SECONDS))
        for name in away:
            self.servers[name].held_down = False
        self._start_servers(nursery)

    async def _lose_a_member(self, nursery: trio.Nursery) -> None:
        """A new disk in one server, or a bit that flips on it. Never on two servers: that is beyond the promise."""
        host = self.servers[self.victim]
        if self.victim_is_lost:
            return
        self.victim_is_lost = True
        await host.kill(power_cut=True)
        if self.chance.random() < 0.5:
            self.world.note("wipe", host.name)
            host.drive.wipe()
        else:
            self.world.note("rot", f"{host.name} {host.drive.flip_random_bit()}")
        host.start(nursery)

    def _arm(self) -> None:
        for host in self.servers.values():
            host.faults.error_rates = dict(self.profile.disk_errors)
            host.faults.stall_rate, host.faults.stall_seconds = self.profile.stall_rate, 0.5

    async def _repair(self, nursery: trio.Nursery) -> None:
        """Everything is stopped, mended and started again, so that what is not durable is gone."""
        self.world.network.heal()
        self.world.network.faults = NetworkFaults(slow_rate=0.0)
        for driver in self.drivers:
            self.world.network.kill_host(driver.name, power_cut=True)
        for host in self.services.values():
            await host.kill(power_cut=True)
        self._check_services()
        for host in self.servers.values():
            host.faults, host.held_down = DiskFaults(), False
            if host.refused_to_start is None:
                await host.kill(power_cut=True)
        self._start_servers(nursery)

    async def _audit(self) -> None:
        """Take the volume over, and hold its whole past against what clients were told."""
        problem: JournalError | None = None
        give_up_at = trio.current_time() + RECOVERY_SECONDS
        while trio.current_time() < give_up_at:
            opened = False
            try:
                async with self._owner() as journal:
                    opened = True
                    await self._audit_as_owner(journal)
                    return
            except JournalError as error:
                self.world.require(not opened, f"what an owner has cannot be read: {error}")
                problem = error
            await trio.sleep(1)
        self.world.require(promise=False, sentence=f"nobody can take the volume over, and all is in order: {problem}")

    def _owner(self) -> AbstractAsyncContextManager[Journal]:
        """A new owner without any local copy."""
        around = surroundings(self.world, "auditor", random.Random(self.chance.random()))
        return open_journal(VOLUME, servers=SERVERS, settings=journal_settings(), surroundings=around)

    async def _audit_as_owner(self, journal: Journal) -> None:
        await journal.put("auditor/was-here", b"new", overwrite=True)
        model = await self._read_log(journal)
        check_history(self.world, model, self.history)
        for path in PATHS:
            await self._compare(journal, model, path)
        self.world.counts["operations audited"] += len(self.history.operations)
        self.world.counts["records audited"] += len(model.places)

    async def _read_log(self, journal: Journal) -> LogModel:
        """The whole log as the members have it, up to what the owner says is acknowledged."""
        model = LogModel(self.world)
        dial = partial(self.world.network.dial, source="auditor")
        async with trio.open_nursery() as nursery:
            copies: list[Copy] = []
            for address in SERVERS:
                client = await nursery.start(_hold, address, dial, self.world.chance(address))
                if client is not None:
                    copies.append(MemberCopy(client, label=address, volume=VOLUME))
            reader = await open_reader(VOLUME, copies)
            async with aclosing(reader.records(0, journal.acknowledged_lsn, payloads=True)) as records:
                async for record in records:
                    model.add(record)
            nursery.cancel_scope.cancel()
        self.world.require(
            model.end == journal.acknowledged_lsn,
            f"the members' records end at {model.end}, the owner says {journal.acknowledged_lsn}",
        )
        return model

    async def _compare(self, journal: Journal, model: LogModel, path: str) -> None:
        wanted = model.content_at(path, model.end)
        try:
            got: bytes | None = b"".join([piece async for piece in journal.read(path)])
        except JournalError as error:
            got = None
            self.world.require(wanted is None, f"{path} cannot be read: {error}")
        self.world.require(got == wanted, f"{path} has other bytes than the log gives")


async def _hold(
    address: str,
    dial: partial[object],
    chance: random.Random,
    *,
    task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED,
) -> None:
    try:
        async with open_client(address, dial=dial, deadlines=DEADLINES, chance=chance) as client:  # type: ignore[arg-type]
            task_status.started(client)
            await trio.sleep_forever()
    except SosError:
        task_status.started(None)
