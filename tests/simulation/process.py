"""A simulated host with a drive, and the process on it that can be killed at any await and started again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from tests.fakes.simulated_disk import DiskFaults, ProcessDied, SimulatedDisk
from tests.fakes.simulated_drive import SimulatedDrive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.fakes.simulated_drive import Survival
    from tests.simulation.world import World

STEPS_MAX = 12


class SimulatedHost:
    """A drive, a name on the network, and at most one process.

    `main` gets the process's disk. A process that ends by an OSError is taken to have died of its disk and can be
    started again; any other exception of a process that was not killed is a violation.
    """

    def __init__(
        self,
        world: World,
        name: str,
        main: Callable[[SimulatedHost, SimulatedDisk], Awaitable[None]],
        *,
        capacity_bytes: int = 1 << 40,
    ) -> None:
        self.world = world
        self.name = name
        self.chance = world.chance(name)
        self.drive = SimulatedDrive(world.chance(f"{name} drive"), capacity_bytes=capacity_bytes)
        self.faults = DiskFaults()
        self.running = False
        self.refused_to_start: str | None = None
        """Why the process would not start: it says that it found damage."""
        self.accepts_log_damage = False
        """An operator has told it to start although a part of its log is gone."""
        self.held_down = False
        """Nobody is to start it again for now."""
        self.stop_wanted = trio.Event()
        self._main = main
        self._scope = trio.CancelScope()
        self._killed = False
        self._ended = trio.Event()

    def start(self, nursery: trio.Nursery) -> None:
        """Start the process in a nursery of the world."""
        assert not self.running
        self.world.note("start", self.name)
        self.world.network.restart_host(self.name)
        self.running, self._killed = True, False
        self.refused_to_start = None
        self.stop_wanted = trio.Event()
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        nursery.start_soon(self._run)

    async def kill(self, *, power_cut: bool, survival: Survival | None = None) -> None:
        """End the process where it stands. With `power_cut` its host goes, too: what was not synced is at risk."""
        self.world.note("power cut" if power_cut else "kill", self.name)
        self._killed = True
        if power_cut:
            self.drive.lose_power(survival)
        else:
            self.drive.kill_processes()
        self.world.network.kill_host(self.name, power_cut=power_cut)
        self._scope.cancel()
        if self.running:
            await self._ended.wait()

    async def wait_end(self) -> None:
        """Wait until the process has ended by itself."""
        if self.running:
            await self._ended.wait()

    async def between_awaits(self) -> None:
        """Let the others make a few steps, so that a kill hits any await and not only those that take time."""
        for _ in range(self.chance.randrange(STEPS_MAX)):
            await trio.lowlevel.checkpoint()

    async def _run(self) -> None:
        disk = SimulatedDisk(self.drive, faults=self.faults, observe=self._note)
        try:
            with self._scope:
                await self._main(self, disk)
        except BaseException as error:
            if not self._killed and not _is_of_the_disk(error):
                raise
            self.world.note("process ended", f"{self.name} {type(error).__name__}")
            self._fall_over()
        finally:
            self.running = False
            self._ended.set()

    def _fall_over(self) -> None:
        if not self._killed:
            self.drive.kill_processes()
            self.world.network.kill_host(self.name, power_cut=False)

    def _note(self, operation: str, path: str) -> None:
        self.world.note(operation, f"{self.name} {path}")


def _is_of_the_disk(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_of_the_disk(inner) for inner in error.exceptions)
    return isinstance(error, OSError | ProcessDied | trio.Cancelled)
