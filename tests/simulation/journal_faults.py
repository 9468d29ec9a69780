"""What goes wrong in a run of the journal half, one event after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from tests.fakes.simulated_drive import Survival
from tests.simulation import journal_operators as operators
from tests.simulation.journal_actors import CLIENT_SECONDS
from tests.simulation.journal_rights import LESS
from tests.simulation.journal_stage import DRIVERS
from tests.simulation.server_rot import flip_in_the_log, flip_in_the_newest_header
from tests.simulation.world import until

if TYPE_CHECKING:
    from tests.simulation.journal_rights import JournalRights
    from tests.simulation.journal_stage import JournalStage
    from tests.simulation.process import SimulatedHost

JUMPS_SECONDS: Final = (-86400.0, -3600.0, -1.0, 1.0, 3600.0, 30 * 86400.0)
"""How far somebody sets a clock."""
ROOM_BYTES_MAX: Final = 120_000
"""What a full disk still has; a server keeps 64 KiB of it for itself."""
SPOTS: Final = 100
"""Flipped bits in a local copy of some kilobytes, so that hardly a file in it has none."""


class JournalFaults:
    """Plays events on a stage."""

    def __init__(self, stage: JournalStage, nursery: trio.Nursery) -> None:
        self.stage = stage
        self.world = stage.world
        self.chance = stage.chance
        self.servers = stage.servers
        self._nursery = nursery
        self._last_owner = ""

    async def go_on(self) -> None:
        """One event after the other, until cancelled."""
        profile = self.stage.scenario.profile
        names, weights = list(profile.events), list(profile.events.values())
        while True:
            await trio.sleep(self.chance.expovariate(1 / profile.event_seconds))
            await self.chance.choice(list(self.servers.values())).between_awaits()
            (event,) = self.chance.choices(names, weights)
            self.world.note("event", event)
            await self._play(event)

    async def _play(self, event: str) -> None:
        network, chance = self.world.network, self.chance
        server = chance.choice(list(self.servers.values()))
        service = chance.choice(list(self.stage.services.values()))
        match event:
            case "kill server" | "power cut":
                await self._restart(server, power_cut=event == "power cut")
            case "kill service" | "start service":
                # A service that starts takes the volume over, from a living owner, too.
                await self._restart(service, power_cut=chance.random() < 0.3)
            case "take over":
                await self._take_over()
            case "stop service":
                service.stop_wanted.set()
                with trio.move_on_after(12):
                    await service.wait_end()
                await self._restart(service, power_cut=False)
            case "cut" | "lose replies":
                if network.connections:
                    call = network.cut if event == "cut" else network.lose_replies
                    call(chance.choice(network.connections))
            case "partition" | "one-way partition":
                await self._part(service, server, both_ways=event == "partition")
            case "driver crash":
                chance.choice(self.stage.drivers).crash()
            case "fail a sync":
                server.faults.fail_at("sync", nth=chance.randrange(1, 8))
            case "clock jump":
                self.world.note("clock jump", str(jump := chance.choice(JUMPS_SECONDS)))
                self.world.clock_skew_seconds += jump
            case "harm the local copy":
                await self._rot_local_copy(service)
            case "sleep":
                await self._sleep(service)
            case "fill a disk":
                await self._fill(server)
            case _:
                await self._play_on_members(event, service, server)

    async def _play_on_members(self, event: str, service: SimulatedHost, server: SimulatedHost) -> None:
        match event:
            case "too few members":
                await self._take_away_two()
            case "leave one behind":
                await self._leave_one_behind(service)
            case "blackout":
                await self._black_out(service)
            case "take turns":
                await self._take_turns(service)
            case "lose a member":
                await self._lose_a_member()
            case "leave in doubt":
                await self._leave_in_doubt()
            case "stay away":
                await self._stay_away(server)
            case "stray fence":
                await operators.claim_and_go_away(self.stage, server.name)
            case "repair":
                await operators.repair(self.stage)
            case "accept log damage":
                await self._accept_log_damage(service)
            case "lose a claim":
                await self._lose_a_claim(service)
            case "take a right away":
                await self._take_a_right_away()
            case "replace a member" | "add a member" | "remove a member":
                if await operators.change(self.stage, event) and self.chance.random() < 0.7:
                    await self._restart(service, power_cut=False)  # which waits for who will never give back
            case _:
                raise AssertionError(event)

    async def _restart(self, host: SimulatedHost, *, power_cut: bool) -> None:
        if host.refused_to_start is not None and host.name in self.servers:
            return
        await host.kill(power_cut=power_cut)
        if host.name in self.stage.services and self.chance.random() < 0.3:
            self._harm_local_copy(host)
        await trio.sleep(self.chance.uniform(0, 1))
        if not host.running:
            host.start(self._nursery)

    async def _take_over(self) -> None:
        """Whoever did not take it over last does so, from an owner that knows nothing of it."""
        others = [name for name in self.stage.services if name != self._last_owner]
        self._last_owner = self.chance.choice(others)
        host = self.stage.services[self._last_owner]
        await host.kill(power_cut=False)
        if not host.running:
            host.start(self._nursery)

    async def _rot_local_copy(self, service: SimulatedHost) -> None:
        """The next owner finds the local copy of this one, with as many flipped bits as files."""
        await service.kill(power_cut=False)
        service.drive.flip_bits_for_readers(SPOTS)
        if not service.running:
            service.start(self._nursery)

    async def _part(self, service: SimulatedHost, server: SimulatedHost, *, both_ways: bool) -> None:
        network, pair = self.world.network, [service.name, server.name]
        self.chance.shuffle(pair)
        network.partition(pair[0], pair[1])
        if both_ways:
            network.partition(pair[1], pair[0])
        await trio.sleep(self.chance.uniform(0, 4))
        network.heal()

    async def _sleep(self, service: SimulatedHost) -> None:
        """A process that is stopped, or a machine that is suspended, and knows nothing of it when it goes on."""
        self.world.network.fall_asleep(service.name)
        await trio.sleep(self.chance.choice([1.0, 5.0, 15.0]))
        self.world.network.wake_up(service.name)

    async def _fill(self, server: SimulatedHost) -> None:
        """Somebody else's file takes what was free, and is deleted later."""
        used = sum(len(inode.cached) for _, inode in server.drive.files())
        server.drive.capacity_bytes = used + self.chance.randrange(ROOM_BYTES_MAX)
        await trio.sleep(self.chance.uniform(0.5, 3))
        server.drive.capacity_bytes = 1 << 40

    async def _black_out(self, service: SimulatedHost) -> None:
        hosts = [*self.servers.values(), service]
        for host in hosts:
            await host.kill(power_cut=True, survival=Survival.NOTHING)
        for host in hosts:
            if not host.running and host.refused_to_start is None:
                host.start(self._nursery)

    async def _leave_one_behind(self, service: SimulatedHost) -> None:
        """Only one member hears the owner for a while; then the next owner has to do without that one."""
        *deaf, hearing = self.chance.sample(sorted(self.servers), 3)
        for name in deaf:
            self.world.network.partition(service.name, name)
        await trio.sleep(self.chance.uniform(0.1, 0.6))
        await self._change_owner(service, self.servers[hearing])

    async def _take_turns(self, service: SimulatedHost) -> None:
        """One is away and comes back, then another one; the next owner has only these two."""
        first, second, third = (self.servers[name] for name in self.chance.sample(sorted(self.servers), 3))
        for host in (first, second):
            await host.kill(power_cut=True)
            await trio.sleep(self.chance.uniform(0.3, 1.0))
            if not host.running:
                host.start(self._nursery)
            if host is first:
                await trio.sleep(self.chance.uniform(0.1, 1.0))
        await self._change_owner(service, third)

    async def _change_owner(self, service: SimulatedHost, without: SimulatedHost) -> None:
        """The service starts again, without its local copy, while one member is away; that one comes back later."""
        await service.kill(power_cut=True)
        service.drive.wipe()
        without.held_down = True
        await without.kill(power_cut=True)
        self.world.network.heal()
        if not service.running:
            service.start(self._nursery)
        await trio.sleep(self.chance.uniform(0.5, 2.0))
        without.held_down = False
        self.stage.start_servers(self._nursery)

    def _harm_local_copy(self, host: SimulatedHost) -> None:
        """A service's directory is a cache: whatever is in it, nobody may notice."""
        if self.chance.random() < 0.3:
            host.drive.wipe()
        host.drive.flip_bits_for_readers(self.chance.randrange(8))

    async def _take_away_two(self) -> None:
        """Below the quorum, for a while: writes wait, or end with an outcome that nobody knows."""
        away = self.chance.sample(sorted(self.servers), 2)
        for name in away:
            await self.servers[name].kill(power_cut=self.chance.random() < 0.5)
            self.servers[name].held_down = True
        await trio.sleep(self.chance.uniform(1, 1.5 * CLIENT_SECONDS))
        for name in away:
            self.servers[name].held_down = False
        self.stage.start_servers(self._nursery)

    async def _lose_a_member(self) -> None:
        """A new disk in one server, or a bit that flips on it, running or not."""
        host = await self._choose_a_loss()
        if host is None:
            return
        kind = self.chance.choice(["wipe", "rot", "rot while it runs"])
        if kind == "rot while it runs":
            self.world.note("rot", f"{host.name} {host.drive.flip_random_bit()}")
            return
        await host.kill(power_cut=True)
        if kind == "wipe":
            self.world.note("wipe", host.name)
            host.drive.wipe()
        else:
            self.world.note("rot", f"{host.name} {host.drive.flip_random_bit()}")
        if not host.running:
            host.start(self._nursery)

    async def _accept_log_damage(self, service: SimulatedHost) -> None:
        """A part of one member's log rots, and an operator lets it start without; then others go, for a while.

        It is one that is lost. Whether the next owner has to do without another one, too, and finds one that was behind
        beside it, is chance.
        """
        host = await self._choose_a_loss()
        if host is None:
            return
        others = [self.servers[name] for name in self.servers if name not in self.stage.lost]
        behind, away = self.chance.sample(others, 2)
        if self.chance.random() < 0.5:
            self.world.network.partition(service.name, behind.name)
            await trio.sleep(self.chance.uniform(0.1, 0.6))
        await self._accept_damage_of(host)
        if self.chance.random() < 0.6:
            await self._change_owner(service, away)
        self.world.network.heal()

    async def _lose_a_claim(self, old: SimulatedHost) -> None:
        """What is gone of a member's log has the claim of the newest owner; the one before has not heard of it yet."""
        host = await self._choose_a_loss()
        others = [self.servers[name] for name in self.stage.scenario.members if name not in self.stage.lost]
        if host is None or len(others) < 2:
            return
        with_new, with_old = (one.name for one in self.chance.sample(others, 2))
        new = self.chance.choice([one for one in self.stage.services.values() if one is not old])
        await self._restart(old, power_cut=False)
        await trio.sleep(1)
        await host.kill(power_cut=False)
        if not host.running:
            host.start(self._nursery)
        await trio.sleep(0.4)
        self._keep_apart((old.name, host.name), (old.name, with_new), (new.name, with_old))
        before = self.world.counts["took over"]
        await self._restart(new, power_cut=False)

        async def taken_over() -> bool:
            return self.world.counts["took over"] > before

        await until(taken_over, seconds=2, every=0.02)
        await trio.sleep(self.chance.uniform(0.02, 0.3))  # before the claim is copied from the log to the catalog
        await self._accept_damage_of(host)
        self.world.network.heal()
        self._keep_apart((old.name, with_new), (new.name, host.name), (new.name, with_old))
        await trio.sleep(self.chance.uniform(0.5, 2))
        self.world.network.heal()

    def _keep_apart(self, *pairs: tuple[str, str]) -> None:
        for one, other in pairs:
            self.world.network.partition(one, other)
            self.world.network.partition(other, one)

    async def _accept_damage_of(self, host: SimulatedHost) -> None:
        """Its log rots while it is down, and it is told to start without what cannot be read."""
        await host.kill(power_cut=self.chance.random() < 0.5)
        for _ in range(self.chance.randrange(4)):
            flip_in_the_log(host.drive, self.chance)
        flip_in_the_newest_header(host.drive, self.chance)
        await trio.sleep(0.1)
        host.held_down = False
        if not host.running:
            host.start(self._nursery)
        await trio.sleep(0.3)
        if host.refused_to_start is not None and not host.running:
            self.world.note("accepted damage", f"{host.name} {host.refused_to_start}")
            host.accepts_log_damage = True
            await host.kill(power_cut=False)
            host.start(self._nursery)
            await trio.sleep(0.2)

    async def _take_a_right_away(self) -> None:
        """One client may do less for a while, or nothing; each service hears of it when its own SIGHUP comes.

        Half of the time too few members hear of what is written then, so that changes wait. Answers may be lost before.
        """
        rights, client = self.stage.rights, self.chance.choice(DRIVERS)
        assert rights is not None, "clients need tokens in this profile"
        if self.chance.random() < 0.5:
            for server in self.chance.sample(sorted(self.servers), 2):
                for service in self.stage.services:
                    self.world.network.partition(service, server)
            await trio.sleep(self.chance.uniform(0.05, 0.3))
        for connection in list(self.world.network.connections):
            if client in connection.hosts and self.chance.random() < 0.4:
                self.world.network.lose_replies(connection)
        rights.leave(client, self.chance.choice(LESS))
        await self._hang_up(rights)
        await trio.sleep(self.chance.choice([0.0, 0.05, 0.5, 2.0]))
        self.world.network.heal()
        await trio.sleep(self.chance.choice([0.0, 0.05, 0.3]))
        rights.give_back(client)
        await self._hang_up(rights)

    async def _hang_up(self, rights: JournalRights) -> None:
        for service in self.chance.sample(sorted(self.stage.services), len(self.stage.services)):
            await self.stage.services[service].between_awaits()
            self.world.note("sighup", service)
            rights.hang_up(service)

    async def _leave_in_doubt(self) -> None:
        """A claim that nobody follows up takes one member, and another one goes until the end: too few are left."""
        host = None if self.stage.lost else await self._choose_a_loss()
        if host is None:
            return
        claimed = self.chance.choice([name for name in self.servers if name != host.name])
        await operators.claim_and_go_away(self.stage, claimed)
        await trio.sleep(self.chance.uniform(0, 2))  # the owner hears of the claim before that, or after
        host.held_down = True
        await host.kill(power_cut=self.chance.random() < 0.5)

    async def _stay_away(self, host: SimulatedHost) -> None:
        """Until somebody else stays away instead: whoever it is in the end has not got what was written last."""
        for other in self.servers.values():
            other.held_down = False
        self.stage.start_servers(self._nursery)
        await trio.sleep(1)
        host.held_down = True
        await host.kill(power_cut=self.chance.random() < 0.5)

    async def _choose_a_loss(self) -> SimulatedHost | None:
        """A member that may be lost from now on. Never more than the promise allows; None if that is reached."""
        membership = await operators.read_membership(self.stage)
        if membership is None:
            return None
        members = operators.names_of(membership.configuration)
        bearable = [name for name in members if operators.may_lose(self.stage, membership, name)]
        if not bearable:
            return None
        host = self.servers[self.chance.choice(bearable)]
        self.stage.lost.add(host.name)
        return host
