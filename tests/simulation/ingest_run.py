"""One run of the ingest part: servers, listeners that want one volume, programs, rivals, readers, and what goes wrong.

At the end everything is stopped, a listener takes the volume over on an empty disk, and what it has, and what it says
of each stream, is held against everything that was sent and acknowledged (`ingest_model`).
"""

from __future__ import annotations

from typing import Final

import trio

from connectors.ingest import ingest_log
from journal.errors import JournalError
from tests.fakes.simulated_disk import DiskFaults
from tests.fakes.simulated_network import NetworkFaults
from tests.simulation.ingest_model import Ledger, Row
from tests.simulation.ingest_process import serve_listener
from tests.simulation.ingest_producers import CONTESTED, Program, Reader, Rival
from tests.simulation.journal_faults import JournalFaults
from tests.simulation.journal_process import create_on_quiet_network
from tests.simulation.journal_scenario import PROFILES, Profile, Scenario
from tests.simulation.journal_stage import JournalStage
from tests.simulation.planting import replaced, together
from tests.simulation.report import RunReport, report_on
from tests.simulation.world import PLAIN_RATE, World

SETTLE_SECONDS_MAX: Final = 90.0
"""An owner waits ten seconds for members that a claim has taken; a takeover and its pauses come after, twice."""
STOP_SECONDS_MAX: Final = 20.0
small_files: Final = together(
    replaced(ingest_log, "LOG_FILE_BYTES_MAX", 6_000),
    replaced(ingest_log, "LOG_FILE_BLOCKS_MAX", 6),
    replaced(ingest_log, "STREAMS_EVERY", 2),
    replaced(ingest_log, "INTAKE_BYTES_MAX", 3_000),
)
"""A short run begins many of them."""
_WITH: Final = {"driver crash": 3}
INGEST_PROFILES: Final = tuple(
    Profile(
        name=f"ingest, {profile.name}",
        events={**profile.events, **_WITH},
        seconds=min(profile.seconds, 6.0),
        event_seconds=profile.event_seconds,
        disk_errors=profile.disk_errors,
        cut_rate=profile.cut_rate,
        ghost_rate=profile.ghost_rate,
        stall_rate=profile.stall_rate,
        services=profile.services,
        three_of_two=profile.three_of_two,
    )
    for profile in PROFILES
    if profile.name in {"owners", "servers", "network", "a lost member", "everything"}
)
QUIET: Final = Profile(name="ingest, programs only", events=_WITH, event_seconds=0.5)
SHAPES: Final = ((3, 2), (3, 2), (3, 2), (1, 1))


def simulate_ingest(seed: int, *, keep_trace: bool = False) -> RunReport:
    """Run one seed to its end, or to the first broken promise."""
    world = World(seed, plain_rate=PLAIN_RATE, keep_trace=keep_trace)
    scenario = _draw_scenario(seed, world)
    profile = scenario.profile
    world.network.faults = NetworkFaults(cut_rate=profile.cut_rate, ghost_rate=profile.ghost_rate, slow_rate=0.005)
    with small_files():
        return report_on(world, scenario.name, _IngestRun(world, scenario).run)


def _draw_scenario(seed: int, world: World) -> Scenario:
    chance = world.chance("scenario")
    profiles = (*INGEST_PROFILES, QUIET)
    profile = profiles[seed % len(profiles)]
    count, acknowledgements = (3, 2) if profile.three_of_two else chance.choice(SHAPES)
    return Scenario(
        profile=profile,
        members=tuple("abcde"[:count]),
        acknowledgements=acknowledgements,
        retention_seconds=0,
        retention_bytes=0,
        standby=profile.services > 1 and chance.random() < 0.4,
        goes_on=True,
    )


class _IngestRun:
    def __init__(self, world: World, scenario: Scenario) -> None:
        self.world = world
        self.stage = JournalStage(world, scenario, serve_listener)
        self.ledger = Ledger(world)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            with self.world.network.until_it_falls_over():
                await self._play(nursery)
            nursery.cancel_scope.cancel()

    async def _play(self, nursery: trio.Nursery) -> None:
        stage = self.stage
        for host in stage.servers.values():
            host.start(nursery)
        await self._create()
        for host in stage.services.values():
            host.start(nursery)
        self._arm()
        with trio.move_on_after(stage.scenario.profile.seconds):
            async with trio.open_nursery() as working:
                self._people(working)
                working.start_soon(self._keep_up, nursery)
                await JournalFaults(stage, nursery).go_on()
        await self._mend(nursery)
        await self._require_an_acknowledgement()
        await self._stop()
        await self._audit(nursery)

    def _people(self, working: trio.Nursery) -> None:
        listeners = list(self.stage.services)
        programs = [Program(self.world, self.ledger, f"program-{n}", listeners, number=n) for n in (1, 2)]
        rivals = [Rival(self.world, self.ledger, f"rival-{n}", listeners) for n in (1, 2, 3)]
        self.stage.drivers += [*programs, *rivals]
        reader = Reader(self.world, self.ledger, "reader", listeners)
        for live in [*(one.live for one in programs), *(one.live for one in rivals), reader.live]:
            working.start_soon(live)

    async def _create(self) -> None:
        await create_on_quiet_network(
            self.world,
            self.stage.scenario.members,
            acknowledgements=self.stage.scenario.acknowledgements,
            settings=self.stage.plan.settings,
        )

    async def _keep_up(self, nursery: trio.Nursery) -> None:
        """Start again what has ended by itself, as a supervisor does."""
        while True:
            await trio.sleep(0.4)
            self.stage.start_servers(nursery)
            self.stage.check_services()

    def _arm(self) -> None:
        profile = self.stage.scenario.profile
        for host in self.stage.servers.values():
            host.faults.error_rates = dict(profile.disk_errors)
            host.faults.stall_rate, host.faults.stall_seconds = profile.stall_rate, 0.5

    async def _mend(self, nursery: trio.Nursery) -> None:
        """Nothing goes wrong from now on. What is damaged stays so."""
        network = self.world.network
        network.heal()
        network.faults = NetworkFaults(slow_rate=0.0)
        for name in self.stage.services:
            network.wake_up(name)
        for host in self.stage.servers.values():
            host.faults, host.held_down = DiskFaults(), False
            if self.stage.scenario.profile.disk_errors and host.running:
                await host.kill(power_cut=False)  # which a server says that it needs after its disk failed twice
        self.stage.start_servers(nursery)
        for host in self.stage.services.values():
            if host.stop_wanted.is_set():  # in the middle of it; a supervisor starts it again
                with trio.move_on_after(STOP_SECONDS_MAX):
                    await host.wait_end()
            if not host.running:
                host.start(nursery)

    async def _require_an_acknowledgement(self) -> None:
        rival = Rival(self.world, self.ledger, "latecomer", list(self.stage.services))
        with trio.move_on_after(SETTLE_SECONDS_MAX) as scope:
            while not rival.acknowledged:
                await rival.try_once(seconds=10.0)
                await trio.sleep(0.1)
        self.world.require(
            not scope.cancelled_caught,
            f"nothing goes wrong any more, but nothing is acknowledged within {SETTLE_SECONDS_MAX:g} s",
        )
        self.world.note("went on", "an acknowledgement after the last event")

    async def _stop(self) -> None:
        """Everything is stopped, so that what is not durable is gone."""
        for name in [*(driver.name for driver in self.stage.drivers), "latecomer"]:
            self.world.network.kill_host(name, power_cut=True)
        for host in (*self.stage.services.values(), *self.stage.servers.values()):
            if host.refused_to_start is None:
                await host.kill(power_cut=True)
        self.stage.check_services()

    async def _audit(self, nursery: trio.Nursery) -> None:
        self.stage.start_servers(nursery)
        listener = next(iter(self.stage.services.values()))
        listener.drive.wipe()
        listener.start(nursery)
        reader = Reader(self.world, self.ledger, "auditor", [listener.name])
        rows: list[tuple[int, int, int, bytes]] | None = None
        with trio.move_on_after(SETTLE_SECONDS_MAX):
            while rows is None:
                try:
                    rows = await reader.read_all()
                except JournalError:
                    await trio.sleep(0.2)
        self.stage.check_services()
        self.world.require(rows is not None, "the volume cannot be read any more")
        self.ledger.judge([Row(*row) for row in rows or []])
        asking = Rival(self.world, self.ledger, "asking", [listener.name])
        with trio.move_on_after(SETTLE_SECONDS_MAX):
            while not all(stream in asking.given for stream in CONTESTED):
                await asking.try_once(seconds=5.0)
                await trio.sleep(0.1)
        self.world.require(len(asking.given) == len(CONTESTED), "streams that nobody has are not given to who asks")
