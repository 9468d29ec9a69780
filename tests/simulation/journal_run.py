"""One run of the journal half: servers, services that all want the volume, drivers, operators, and what goes wrong.

At the end everything is stopped, copies of the drives are looked at with members missing, a new owner takes the volume
over, reads the whole log back, and every answer that anybody ever got is held against it (`journal_audit`).
"""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from typing import Final

import trio

from journal.image import operation_window
from tests.fakes.simulated_disk import DiskFaults
from tests.fakes.simulated_network import NetworkFaults
from tests.simulation.growing_files import Grower, few_extents
from tests.simulation.journal_actors import Driver, Onlooker
from tests.simulation.journal_audit import audit
from tests.simulation.journal_faults import JournalFaults
from tests.simulation.journal_process import create_on_quiet_network
from tests.simulation.journal_scenario import Scenario, draw_scenario
from tests.simulation.journal_stage import DRIVERS, JournalStage
from tests.simulation.planting import replaced
from tests.simulation.report import RunReport, report_on
from tests.simulation.world import PLAIN_RATE, World

WRITE_SECONDS_MAX: Final = 60.0
"""An owner waits ten seconds for members that a claim has taken, or may have; a takeover and its pauses come after."""
ANSWERS_FEW: Final = 25
"""As many answers as three drivers get in less than the time in which they may ask again."""
small_window: Final = replaced(operation_window, "KEPT_BYTES_MAX", ANSWERS_FEW * 640)


def simulate_journal(seed: int, *, keep_trace: bool = False) -> RunReport:
    """Run one seed to its end, or to the first broken promise."""
    world = World(seed, plain_rate=PLAIN_RATE, keep_trace=keep_trace)
    scenario = draw_scenario(seed, world.chance("scenario"))
    profile = scenario.profile
    world.network.faults = NetworkFaults(cut_rate=profile.cut_rate, ghost_rate=profile.ghost_rate, slow_rate=0.005)
    with ExitStack() as limits:
        for small, wanted in ((small_window, profile.few_answers), (few_extents, profile.growers)):
            if wanted:
                limits.enter_context(small())
        return report_on(world, scenario.name, _JournalRun(world, scenario).run)


class _JournalRun:
    def __init__(self, world: World, scenario: Scenario) -> None:
        self.world = world
        self.scenario = scenario
        self.stage = JournalStage(world, scenario)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            with self.world.network.until_it_falls_over():
                await self._play(nursery)
            nursery.cancel_scope.cancel()

    async def _play(self, nursery: trio.Nursery) -> None:
        stage, profile = self.stage, self.scenario.profile
        for host in stage.servers.values():
            host.start(nursery)
        await self._create()
        for host in stage.services.values():
            host.start(nursery)
        async with AsyncExitStack() as stack:
            volume = await stack.enter_async_context(stage.archive.opened()) if self.scenario.forgets else None
            self._arm()
            with trio.move_on_after(profile.seconds):
                async with trio.open_nursery() as working:
                    if volume is not None:
                        working.start_soon(stage.archive.live, volume)
                    for number, name in enumerate(DRIVERS):
                        self._start(working, Grower if number < profile.growers else Driver, name)
                    self._start(working, Onlooker, "onlooker")
                    working.start_soon(self._keep_up, nursery)
                    await JournalFaults(stage, nursery).go_on()
            self._mend()
            if self.scenario.goes_on:
                await self._require_a_write(nursery)
            await self._stop()
        await audit(stage, nursery)

    def _start(self, working: trio.Nursery, kind: type[Driver], name: str) -> None:
        stage = self.stage
        driver = kind(self.world, stage.history, name, list(stage.services), token=stage.token_of(name))
        stage.drivers.append(driver)
        working.start_soon(driver.live)

    async def _create(self) -> None:
        await create_on_quiet_network(
            self.world,
            self.scenario.members,
            acknowledgements=self.scenario.acknowledgements,
            settings=self.stage.plan.settings,
        )

    async def _keep_up(self, nursery: trio.Nursery) -> None:
        """Start again what has ended by itself, as a supervisor does."""
        while True:
            await trio.sleep(0.4)
            self.stage.start_servers(nursery)
            for host in self.stage.services.values():
                if host.running and host.refused_to_start is not None:
                    self.stage.check_services()

    def _arm(self) -> None:
        profile = self.scenario.profile
        for host in self.stage.servers.values():
            host.faults.error_rates = dict(profile.disk_errors)
            host.faults.stall_rate, host.faults.stall_seconds = profile.stall_rate, 0.5

    def _mend(self) -> None:
        """Nothing goes wrong from now on. What is damaged stays so."""
        network = self.world.network
        network.heal()
        network.faults = NetworkFaults(slow_rate=0.0)
        for name in self.stage.services:
            network.wake_up(name)

    async def _require_a_write(self, nursery: trio.Nursery) -> None:
        """Nobody who runs is started again, so that an owner that waits for ever is seen; what was lost stays lost."""
        stage, name = self.stage, "latecomer"
        driver = Driver(self.world, stage.history, name, list(stage.services), token=stage.token_of(name))
        stage.drivers.append(driver)
        for host in self.stage.servers.values():
            host.faults = DiskFaults()
            host.drive.capacity_bytes = 1 << 40
            host.held_down = host.held_down and self.scenario.profile.stays_hurt
            if self.scenario.profile.disk_errors and host.running:
                await host.kill(power_cut=False)  # which a server says that it needs after its disk failed twice
        self.stage.start_servers(nursery)
        for host in self.stage.services.values():
            if not host.running:
                host.start(nursery)
        with trio.move_on_after(WRITE_SECONDS_MAX) as scope:
            await driver.write_once()
        self.world.require(
            not scope.cancelled_caught,
            f"nothing goes wrong any more, enough members are whole, no write succeeds within {WRITE_SECONDS_MAX} s",
        )
        self.world.note("went on", "a write after the last event")

    async def _stop(self) -> None:
        """Everything is stopped, so that what is not durable is gone."""
        network = self.world.network
        for driver in self.stage.drivers:
            network.kill_host(driver.name, power_cut=True)
        for host in self.stage.services.values():
            await host.kill(power_cut=True)
        self.stage.check_services()
        for host in self.stage.servers.values():
            host.faults, host.held_down = DiskFaults(), False
            host.drive.capacity_bytes = 1 << 40
            if host.refused_to_start is None:
                await host.kill(power_cut=True)
