"""Who and what there is in a run of the journal half: servers, services, clients, history, who has lost its data."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from tests.simulation.journal_archive import HOST, Archive
from tests.simulation.journal_model import History
from tests.simulation.journal_process import ServingPlan, address_of, journal_settings, serve_volume
from tests.simulation.journal_rights import JournalRights
from tests.simulation.process import SimulatedHost
from tests.simulation.server_process import serve

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import trio

    from tests.fakes.simulated_disk import SimulatedDisk
    from tests.simulation.journal_scenario import Scenario
    from tests.simulation.world import World

    ServePlan = Callable[[ServingPlan, SimulatedHost, SimulatedDisk], Awaitable[None]]

SERVICES = ("x", "y")
DRIVERS = ("driver-0", "driver-1", "driver-2")
CLIENTS = (*DRIVERS, "onlooker", "latecomer", HOST)


class Client(Protocol):
    """A process that uses the volume."""

    @property
    def name(self) -> str: ...

    def crash(self) -> None:
        """It dies here."""


class JournalStage:
    """One run's hosts. Chance here is that of the faults."""

    def __init__(self, world: World, scenario: Scenario, serve_plan: ServePlan = serve_volume) -> None:
        self.world = world
        self.scenario = scenario
        self.chance = world.chance("faults")
        self.history = History()
        self.rights = JournalRights(CLIENTS) if scenario.profile.takes_rights else None
        self.plan = ServingPlan(
            servers=tuple(address_of(name) for name in scenario.hosts),
            settings=journal_settings(
                segment_bytes_max=scenario.profile.segment_bytes_max,
                unacknowledged_bytes_max=scenario.profile.unacknowledged_bytes_max,
                retention_seconds=scenario.retention_seconds,
                retention_bytes=scenario.retention_bytes,
            ),
            rights=self.rights,
            standby=SERVICES[1] if scenario.standby else "",
        )
        self.servers = {name: SimulatedHost(world, name, serve) for name in scenario.hosts}
        self.services = {
            name: SimulatedHost(world, name, partial(serve_plan, self.plan))
            for name in SERVICES[: scenario.profile.services]
        }
        self.archive = Archive(world, scenario.hosts, self.services, token=self.token_of(HOST))
        self.lost: set[str] = set()
        """Servers that may not have any more what they once had: never more members than the promise allows."""
        self.drivers: list[Client] = []

    def token_of(self, client: str) -> bytes | None:
        """None: nobody needs one."""
        return None if self.rights is None else self.rights.tokens[client]

    def start_servers(self, nursery: trio.Nursery) -> None:
        """Start again what has ended by itself, as a supervisor does."""
        for host in self.servers.values():
            damaged = host.refused_to_start is not None
            if not host.running and not damaged and not host.held_down:
                host.start(nursery)
            self.world.require(
                not damaged or host.name in self.lost, f"server {host.name} would not start: {host.refused_to_start}"
            )

    def check_services(self) -> None:
        for host in self.services.values():
            self.world.require(host.refused_to_start is None, f"service {host.name} gave up: {host.refused_to_start}")
