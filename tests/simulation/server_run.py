"""One run of the server half: a server, its clients, and what goes wrong, all drawn from one seed.

A run has a few rounds. In each the clients work while faults come; then everything is cut off, the power goes, the
server starts again, and whatever is there is held against the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from sos_client.wire.errors import ConnectionLostError, DeadlineError, ErrorCode, RefusedError
from tests.fakes.simulated_disk import DiskFaults
from tests.fakes.simulated_drive import Survival
from tests.fakes.simulated_network import NetworkFaults
from tests.simulation.process import SimulatedHost
from tests.simulation.report import RunReport, report_on
from tests.simulation.server_actors import (
    Actor,
    append_against_rivals,
    append_impatiently,
    append_much,
    forge,
    own_by_claim,
    read_around,
    write_alone,
)
from tests.simulation.server_model import ServerModel
from tests.simulation.server_process import serve
from tests.simulation.server_rot import Flip, flip_in_an_object, flip_in_the_log
from tests.simulation.world import PLAIN_RATE, World, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sos_client.client import SosClient
    from tests.simulation.server_actors import Work

SERVER: Final = "server"
ADDRESS: Final = "server:7400"
SHARED_SYNC_ERROR_RATE: Final = 0.3
RECOVERY_SECONDS: Final = 60.0
"""A healed server serves again within this, in virtual time."""


WORKS: Final[tuple[Work, ...]] = (
    *(append_against_rivals, append_against_rivals, own_by_claim, own_by_claim),
    *(write_alone, append_impatiently, append_much, append_much, read_around, forge),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What goes wrong in a run. Weights are of the single events, rates of single calls."""

    name: str
    rounds: int = 2
    round_seconds: float = 2.0
    event_seconds: float = 0.25
    """From one fault to the next, on average."""
    events: dict[str, int]
    disk_errors: dict[str, float] = field(default_factory=dict)
    cut_rate: float = 0.0
    ghost_rate: float = 0.0
    stall_rate: float = 0.0
    capacity_bytes: int = 1 << 40
    slow_seconds: float = 0.5

    @property
    def calm(self) -> bool:
        """Whether everybody is answered soon."""
        return not self.events


CRASHES: Final = {"kill": 3, "power cut": 5, "stop": 1, "client crash": 2}
NETWORK: Final = {"cut": 5, "lose replies": 4, "partition": 2, "one-way partition": 3, "client crash": 1}
PROFILES: Final = (
    Profile(name="crashes", rounds=3, events=CRASHES, stall_rate=0.02),
    Profile(name="network", events=NETWORK, cut_rate=0.004, ghost_rate=0.1),
    Profile(
        name="disk errors",
        rounds=3,
        events={"power cut": 3, "kill": 1, "fail a sync": 6, "fail an object's sync": 6, "believe the page cache": 8},
        disk_errors={"sync": 0.003, "write": 0.002, "sync_directory": 0.01, "read": 0.001},
        stall_rate=0.005,
    ),
    Profile(name="rot", rounds=3, events={"rot": 8, "kill": 2, "power cut": 2, "stop": 2, "client crash": 1}),
    Profile(name="full disk", events={"fill": 4, "power cut": 2, "kill": 1}, capacity_bytes=32 << 20),
    Profile(
        name="everything",
        events={**CRASHES, **NETWORK, "fail a sync": 2, "fill": 1, "clock jump": 1},
        disk_errors={"sync": 0.001, "sync_directory": 0.003},
        cut_rate=0.002,
        ghost_rate=0.05,
        stall_rate=0.002,
        capacity_bytes=64 << 20,
    ),
    Profile(name="calm", events={}, round_seconds=3.0, slow_seconds=0.02),
)


def profile_of(seed: int) -> Profile:
    """What goes wrong in a run."""
    return PROFILES[seed % len(PROFILES)]


def simulate_server(seed: int, *, keep_trace: bool = False) -> RunReport:
    """Run one seed to its end, or to the first broken promise."""
    profile = profile_of(seed)
    world = World(
        seed,
        network_faults=NetworkFaults(
            cut_rate=profile.cut_rate, ghost_rate=profile.ghost_rate, slow_seconds=profile.slow_seconds
        ),
        plain_rate=PLAIN_RATE,
        keep_trace=keep_trace,
    )
    return report_on(world, profile.name, _ServerRun(world, profile).run)


class _ServerRun:
    def __init__(self, world: World, profile: Profile) -> None:
        self.world = world
        self.profile = profile
        self.model = ServerModel(world, calm=profile.calm)
        self.chance = world.chance("faults")
        self.server = SimulatedHost(world, SERVER, serve, capacity_bytes=profile.capacity_bytes)
        self.actors: list[Actor] = []
        self.flips: list[Flip] = []

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self.server.start(nursery)
            await self._wait_until_it_serves(nursery)
            for round_number in range(self.profile.rounds):
                await self._work(nursery, round_number)
                await self._end_round(nursery, last=round_number == self.profile.rounds - 1)
            nursery.cancel_scope.cancel()

    async def _work(self, nursery: trio.Nursery, round_number: int) -> None:
        """Clients and faults, for as long as a round takes."""
        self._arm()
        with trio.move_on_after(self.profile.round_seconds):
            async with trio.open_nursery() as clients:
                for number, work in enumerate(self._works()):
                    actor = Actor(self.world, self.model, f"client-{round_number}-{number}", ADDRESS)
                    self.actors.append(actor)
                    clients.start_soon(actor.live, work)
                clients.start_soon(self._keep_up, nursery)
                await self._break_things(nursery)

    def _works(self) -> Sequence[Work]:
        """In a calm run sometimes a few clients, or one: then nobody's bytes help another's on their way."""
        if not self.profile.calm:
            return WORKS
        return self.chance.sample(WORKS, self.chance.choice([1, 1, 2, len(WORKS)]))

    async def _keep_up(self, nursery: trio.Nursery) -> None:
        """Start the server again whenever it has ended by itself, as a supervisor does."""
        while True:
            await trio.sleep(0.3)
            if not self.server.running:
                self._check_refusal()
                self.server.start(nursery)

    async def _break_things(self, nursery: trio.Nursery) -> None:
        names, weights = list(self.profile.events), list(self.profile.events.values())
        if self.profile.calm:
            await trio.sleep_forever()
        while True:
            await trio.sleep(self.chance.expovariate(1 / self.profile.event_seconds))
            await self.server.between_awaits()
            (event,) = self.chance.choices(names, weights)
            self.world.note("event", event)
            await self._break(event, nursery)

    async def _break(self, event: str, nursery: trio.Nursery) -> None:
        network, chance = self.world.network, self.chance
        match event:
            case "kill" | "power cut":
                await self.server.kill(power_cut=event == "power cut")
                await trio.sleep(chance.uniform(0, 0.5))
                self._start(nursery)
            case "stop":
                self.server.stop_wanted.set()
                with trio.move_on_after(15):
                    await self.server.wait_end()
                self._start(nursery)
            case "client crash":
                chance.choice(self.actors).crash()
            case "cut" | "lose replies":
                if network.connections:
                    call = network.cut if event == "cut" else network.lose_replies
                    call(chance.choice(network.connections))
            case "partition" | "one-way partition":
                await self._part(one_way=event != "partition")
            case "fail a sync":
                operation = chance.choice(["sync", "sync", "sync", "sync_directory", "write", "allocate"])
                self.server.faults.fail_at(operation, nth=chance.randrange(1, 6))
            case "fail an object's sync":
                self.server.faults.fail_at("sync", nth=chance.randrange(1, 4), path_part="objects/")
            case "believe the page cache":
                await self._believe_the_page_cache(nursery)
            case "rot":
                self._rot()
            case "fill":
                await self._fill()
            case "clock jump":
                self.world.clock_skew_seconds += chance.choice([-3600.0, -1.0, 1.0, 3600.0])
            case _:
                raise AssertionError(event)

    async def _believe_the_page_cache(self, nursery: trio.Nursery) -> None:
        """A sync fails, the process dies, the next one reads what the disk never got; then the power goes."""
        faults = self.server.faults
        faults.fail_at("sync", path_part=self.chance.choice(["log/", "catalog/", "catalog/", "objects/"]))
        for _ in range(20):
            if faults.planned:
                await trio.sleep(0.05)
        for power_cut in (False, True):
            await self.server.kill(power_cut=power_cut, survival=Survival.NOTHING)
            await trio.sleep(0.05)
            self._start(nursery)
            await trio.sleep(self.chance.uniform(0, 0.6))

    async def _part(self, *, one_way: bool) -> None:
        pair = [self.chance.choice(self.actors).name, SERVER]
        self.chance.shuffle(pair)
        self.world.network.partition(pair[0], pair[1])
        if not one_way:
            self.world.network.partition(pair[1], pair[0])
        await trio.sleep(self.chance.uniform(0, 2))
        self.world.network.heal()

    def _rot(self) -> None:
        flip = self.chance.choice([flip_in_the_log, flip_in_the_log, flip_in_an_object])(self.server.drive, self.chance)
        if flip is not None:
            self.world.note("rot", f"{flip.path} {flip.offset}")
            self.model.rotted = True
            self.flips.append(flip)

    async def _fill(self) -> None:
        drive = self.server.drive
        drive.capacity_bytes -= max(0, drive.free_bytes - self.chance.choice([0, 10_000, 100_000, 1_000_000]))
        await trio.sleep(self.chance.uniform(0, 1.5))
        drive.capacity_bytes = self.profile.capacity_bytes

    def _arm(self) -> None:
        self.server.faults.error_rates = dict(self.profile.disk_errors)
        self.server.faults.shared_sync_error_rate = SHARED_SYNC_ERROR_RATE if self.profile.disk_errors else 0.0
        self.server.faults.stall_rate = self.profile.stall_rate

    def _disarm(self) -> None:
        faults = self.server.faults = DiskFaults()
        self.world.network.heal()
        self.world.network.faults = NetworkFaults(slow_seconds=self.profile.slow_seconds)
        self.server.drive.capacity_bytes = self.profile.capacity_bytes
        assert not faults.error_rates

    def _start(self, nursery: trio.Nursery) -> None:
        if not self.server.running:
            self._check_refusal()
            self.server.start(nursery)

    def _check_refusal(self) -> None:
        """A server may refuse to start because of rot in its log: the next one finds that repaired, as from a copy."""
        reason, self.server.refused_to_start = self.server.refused_to_start, None
        flips = [flip for flip in self.flips if flip.path.startswith("log/")] if reason is not None else []
        self.world.require(reason is None or bool(flips), f"the server would not start: {reason}")
        for flip in reversed(flips):  # two may have hit one block
            flip.undo()
            self.flips.remove(flip)

    async def _end_round(self, nursery: trio.Nursery, *, last: bool) -> None:
        """Power off, everything repaired, power on: now all that is there must be right."""
        armed = self.world.network.faults
        for actor in self.actors:
            self.world.network.kill_host(actor.name, power_cut=True)
        self.actors.clear()
        self._disarm()
        await self.server.kill(power_cut=True, survival=Survival.NOTHING if last else None)
        auditor = await self._wait_until_it_serves(nursery)
        async with auditor.client() as client:
            await _audit(auditor, client)
            if last:
                content = await auditor.append_some(client, ("auditor", "new"), b"")
                self.world.require(content is not None, "a healed server must take appends")
        self.world.network.faults = armed

    async def _wait_until_it_serves(self, nursery: trio.Nursery) -> Actor:
        """With nothing wrong at the time. Returns the client that was answered."""
        auditor = Actor(self.world, self.model, "auditor", ADDRESS)

        async def serves() -> bool:
            self._start(nursery)
            try:
                async with auditor.client() as client:
                    await client.ping()
            except (ConnectionLostError, DeadlineError):
                return False
            return True

        up = await until(serves, seconds=RECOVERY_SECONDS)
        self._check_refusal()
        self.world.require(up, f"the server does not answer {RECOVERY_SECONDS:g} seconds after everything is in order")
        return auditor


async def _audit(auditor: Actor, client: SosClient) -> None:
    """Hold all that the server has against the model."""
    await client.use("auditor", create=True)
    model = auditor.model
    namespaces = sorted({key[0] for key in model.objects} | set(model.claims))
    for namespace in namespaces:
        try:
            using = await client.use(namespace)
        except RefusedError as error:
            auditor.world.require(error.code is ErrorCode.NOT_FOUND, f"USE {namespace}: {error}")
            auditor.world.require(namespace not in model.claims, f"namespace {namespace} had a claim, it is gone")
            for key in model.objects:
                if key[0] == namespace:
                    model.absent(key, model.mark(key))
            continue
        model.claim_seen(namespace, model.claim(namespace), using.epoch, using.holder)
        listed = {info.name: info async for info in client.list_all(namespace)}
        for key in sorted(key for key in model.objects if key[0] == namespace):
            info = listed.pop(key[1], None)
            if info is None:
                model.absent(key, model.mark(key))
            else:
                try:
                    content = await client.get(*key)
                except RefusedError as error:
                    rotted = error.code is ErrorCode.DAMAGED and model.rotted
                    auditor.world.require(rotted, f"GET {'/'.join(key)}: {error}")
                    model.info(key, model.mark(key), info)
                    continue
                model.check_object(key, info, content)
                auditor.world.counts["objects audited"] += 1
        auditor.world.require(not listed, f"{namespace} has objects that nobody made: {sorted(listed)}")
