"""How long writes pause when something is lost: 64 clients, three servers, real processes.

    python -m tests.system.pauses

prints, for each loss, the longest time in which no client's change was acknowledged, and its goal.
"""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import trio

from journal.gateway.client.client import open_volume
from tests.system.service_process import VOLUME, Cluster, children_of, running_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

CLIENTS: Final = 64
BEFORE_SECONDS: Final = 1.0
AFTER_SECONDS: Final = 6.0
GOAL_SECONDS: Final = {
    "member killed": 0.5,
    "owner stops in order, standby": 0.5,
    "owner stops in order, two standbys": 0.5,
    "owner killed, supervised": 1.5,
    "owner killed, standby": 3.0,
    "owner killed, two standbys": 3.0,
    "owner asleep, standby": 3.0,
    "owner asleep, two standbys": 3.0,
}


@dataclass(slots=True)
class Load:
    """When changes were acknowledged."""

    times: list[float] = field(default_factory=list)

    def longest_pause(self, since: float, until: float) -> float:
        """Between two acknowledgements of any client."""
        times = [since, *(at for at in self.times if since <= at <= until), until]
        return max(later - earlier for earlier, later in itertools.pairwise(times))


@asynccontextmanager
async def loading(addresses: Sequence[str], clients: int) -> AsyncIterator[Load]:
    """Clients that put one file after the other, until the end of the block."""
    load = Load()

    async def write(number: int) -> None:
        async with open_volume(addresses, VOLUME) as volume:
            while True:
                await volume.put(f"f/{number}", bytes(1000), overwrite=True, operation=volume.new_operation())
                load.times.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for number in range(clients):
            nursery.start_soon(write, number)
        yield load
        nursery.cancel_scope.cancel()


async def pause_of(
    cluster: Cluster, lose: Callable[[], Awaitable[object]], *, clients: int = CLIENTS, seconds: float = AFTER_SECONDS
) -> float:
    """The longest pause of writes around `lose`."""
    async with loading(cluster.service_addresses, clients) as load:
        while len(load.times) < 4 * clients:  # noqa: ASYNC110 - the clients are not to know of it
            await trio.sleep(0.05)
        await trio.sleep(BEFORE_SECONDS)
        since = trio.current_time()
        await lose()
        await trio.sleep_until(since + seconds)
        return load.longest_pause(since, trio.current_time())


async def _kill_member(cluster: Cluster) -> None:
    cluster.servers[-1].kill()


async def _stop_owner(cluster: Cluster) -> None:
    cluster.service.send_signal(signal.SIGTERM)


async def _kill_owner(cluster: Cluster) -> None:
    cluster.service.kill()


async def _kill_child(cluster: Cluster) -> None:
    (child,) = children_of(cluster.service.pid)
    os.kill(child, signal.SIGKILL)


async def _suspend_owner(cluster: Cluster) -> None:
    cluster.service.send_signal(signal.SIGSTOP)


_LOSSES: Final[dict[str, tuple[Callable[[Cluster], Awaitable[None]], int]]] = {
    "member killed": (_kill_member, 0),
    "owner stops in order, standby": (_stop_owner, 1),
    "owner stops in order, two standbys": (_stop_owner, 2),
    "owner killed, supervised": (_kill_child, 0),
    "owner killed, standby": (_kill_owner, 1),
    "owner killed, two standbys": (_kill_owner, 2),
    "owner asleep, standby": (_suspend_owner, 1),
    "owner asleep, two standbys": (_suspend_owner, 2),
}
"""What is done, and how many services stand by."""


async def measure(loss: str, directory: Path, *, clients: int = CLIENTS) -> float:
    """Seconds without an acknowledged write."""
    lose, standbys = _LOSSES[loss]
    flags = ["--supervise"] if "supervised" in loss else []
    async with running_cluster(directory, services=1 + standbys, flags=flags) as cluster:
        for other in cluster.services[1:]:
            other.flags.append("--standby")
            await trio.to_thread.run_sync(other.start)
        return await pause_of(cluster, lambda: lose(cluster), clients=clients)


async def main() -> None:
    """The table."""
    for loss, goal in GOAL_SECONDS.items():
        with tempfile.TemporaryDirectory() as directory:
            seconds = await measure(loss, Path(directory))
        click.echo(f"{loss:32} {seconds:6.2f} s   goal {goal:.1f} s")


if __name__ == "__main__":
    trio.run(main)
