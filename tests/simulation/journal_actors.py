"""The clients of the journal half: drivers that write and read files through the services, with operation ids."""

from __future__ import annotations

import contextlib
import copy
from collections import deque
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode, JournalError
from journal.gateway.client.client import ClientSettings, open_volume
from sos_client.nurseries import together
from sos_client.retry import RetryPolicy
from sos_client.wire.errors import ProtocolError
from tests.simulation.journal_process import SERVICE_PORT, VOLUME

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from journal.gateway.client.client import RemoteVolume
    from sos_client.wire.errors import SosError
    from tests.simulation.journal_model import History, Operation
    from tests.simulation.world import World

PATHS: Final = ("f/a", "f/b", "g/a", "g/h/a", *(f"n/{number}" for number in range(6)))
CLIENT_SECONDS: Final = 6.0
EXPECTED: Final = frozenset(
    {
        *(JournalCode.NOT_FOUND, JournalCode.ALREADY_EXISTS, JournalCode.NOT_DIRECTORY, JournalCode.IS_DIRECTORY),
        *(JournalCode.OUTCOME_UNKNOWN, JournalCode.UNAVAILABLE, JournalCode.CHANGED, JournalCode.NO_SPACE),
        *(JournalCode.EXPIRED, JournalCode.DENIED, JournalCode.AUTH),
    }
)
REPEATED_MAX: Final = 200
RUNS_THAT_SHARE: Final = 1 / 3
"""In the others no client's tasks share a connection."""
IMPATIENT_RATE: Final = 0.1
IMPATIENT_SECONDS: Final = 0.1
"""In half of the runs that share, a task gives up so often, within this time, what it has begun: Spark kills some."""
ONLOOKER_SECONDS: Final = 0.1
"""Between two looks at most."""


def client_settings(world: World, name: str, chance: random.Random, *, shared: bool = False) -> ClientSettings:
    """A client asks again after an answer that cannot be the one to its request; no service here may give one."""

    def require_a_true_answer(error: SosError) -> None:
        world.require(not isinstance(error, ProtocolError), f"{name} saw a broken protocol: {error}")

    return ClientSettings(
        seconds=CLIENT_SECONDS,
        retry=RetryPolicy(pause_seconds_max=0.5),
        chance=chance,
        on_trouble=require_a_true_answer,
        shared=shared,
    )


class Driver:
    """A client process."""

    def __init__(
        self, world: World, history: History, name: str, services: list[str], *, token: bytes | None = None
    ) -> None:
        self.world = world
        self.history = history
        self.name = name
        self.chance = world.chance(name)
        self.addresses = [f"{service}:{SERVICE_PORT}" for service in services]
        self.token = token
        self.scope = trio.CancelScope()
        some_share = world.chance("some share").random() < RUNS_THAT_SHARE
        self.tasks = world.chance(f"{name} shares").choice([1, 3, 3]) if some_share else 1
        """More than one share a connection, as the tasks of a JVM do."""
        is_impatient = self.tasks > 1 and world.chance("some give up").random() < 1 / 2
        self._impatience = world.chance(f"{name} gives up") if is_impatient else None
        self._done: deque[Callable[[RemoteVolume], Awaitable[object]]] = deque(maxlen=REPEATED_MAX)
        """What was done and acknowledged, to be sent once more: a network may deliver a request late, and twice."""

    async def live(self) -> None:
        """One thing after the other until cancelled; of several tasks, each."""
        self.chance.shuffle(self.addresses)
        with self.scope:
            async with self._opened() as volume:
                if self.tasks == 1:
                    await self._keep_busy(volume)
                self.world.counts["tasks shared a connection"] += self.tasks
                async with together() as nursery:
                    for number in range(self.tasks):
                        task = copy.copy(self)  # which sees what it sees, whatever the others have seen
                        task.name = f"{self.name}.{number}"
                        nursery.start_soon(task._keep_busy, volume)

    async def _keep_busy(self, volume: RemoteVolume) -> None:
        while True:
            with trio.move_on_after(self._patience_seconds()) as scope:
                await self._do_something(volume)
            if scope.cancelled_caught:
                self.world.counts["given up on a shared connection"] += 1
            await trio.sleep(self.chance.choice([0.0, 0.02, 0.3]) * self.chance.random())

    def _patience_seconds(self) -> float:
        if self._impatience is None or self._impatience.random() >= IMPATIENT_RATE:
            return inf
        return IMPATIENT_SECONDS * self._impatience.random()

    async def write_once(self) -> None:
        """Try until one file was written."""
        async with self._opened() as volume:
            while not self._done:
                await self._put(volume, PATHS[0])
                await trio.sleep(0.1)

    def crash(self) -> None:
        self.scope.cancel()
        self.world.network.kill_host(self.name, power_cut=self.chance.random() < 0.5)

    def _opened(self) -> AbstractAsyncContextManager[RemoteVolume]:
        settings = client_settings(self.world, self.name, self.chance, shared=self.tasks > 1)
        dial = partial(self.world.dial, source=self.name)
        return open_volume(
            self.addresses, VOLUME, token=self.token, client_name=self.name, dial=dial, settings=settings
        )

    async def _do_something(self, volume: RemoteVolume) -> None:
        path = self.chance.choice(PATHS)
        (work,) = self.chance.choices(
            [self._put, self._create, self._delete, self._rename, self._read, self._repeat], [4, 4, 2, 1, 6, 1]
        )
        await work(volume, path)

    async def _put(self, volume: RemoteVolume, path: str) -> None:
        await self._write(volume, path, overwrite=True)

    async def _create(self, volume: RemoteVolume, path: str) -> None:
        await self._write(volume, path, overwrite=False)

    async def _write(self, volume: RemoteVolume, path: str, *, overwrite: bool) -> None:
        operation = volume.new_operation()
        payload = self._payload()
        asked = self.history.ask(
            self.name,
            "put" if overwrite else "create",
            path,
            payload=payload,
            key=(operation.client, operation.sequence),
        )

        async def put(volume: RemoteVolume) -> object:
            return await volume.put(path, payload, overwrite=overwrite, operation=operation)

        await self._settle(asked, put(volume))
        if asked.answer is not None:
            self._done.append(put)

    def _payload(self) -> bytes:
        return self.chance.randbytes(self.chance.choice([8, 100, 700, 3000]))

    async def _delete(self, volume: RemoteVolume, path: str) -> None:
        operation = volume.new_operation()
        asked = self.history.ask(self.name, "delete", path, key=(operation.client, operation.sequence))
        await self._settle(asked, volume.delete(path, recursive=False, operation=operation))

    async def _rename(self, volume: RemoteVolume, path: str) -> None:
        target = self.chance.choice([other for other in PATHS if other != path])
        operation = volume.new_operation()
        asked = self.history.ask(self.name, "rename", path, target=target, key=(operation.client, operation.sequence))
        await self._settle(asked, volume.rename(path, target, overwrite=False, operation=operation))

    async def _repeat(self, volume: RemoteVolume, _path: str) -> None:
        """Under its old id, with its old content: whatever is answered, it must not be done again."""
        if self._done:
            again = self.chance.choice(self._done)
            with contextlib.suppress(JournalError):
                await again(volume)
                self.world.counts["repeated"] += 1

    async def _read(self, volume: RemoteVolume, path: str) -> None:
        asked = self.history.ask(self.name, "read", path)
        await self._settle(asked, _content(volume, path))

    async def _settle(self, asked: Operation, answer: Awaitable[object]) -> None:
        """Wait for the answer and note it. What no client should ever be told is a violation."""
        try:
            got = await answer
        except JournalError as error:
            self.world.require(
                error.code in EXPECTED, f"{self.name}: {asked.kind} {asked.path}: {error.code.name} {error}"
            )
            self.world.counts[f"answered {error.code.name}"] += 1
            self.history.answered(asked, None, error.code)
        else:
            self.world.note("answered", f"{self.name} {asked.kind} {asked.path}")
            self.history.answered(asked, got)


class Onlooker(Driver):
    """A client that only reads, mostly what somebody is changing at this moment, while the others wait for answers."""

    async def _do_something(self, volume: RemoteVolume) -> None:
        under_way = self.history.under_way()
        mostly = under_way if under_way and self.chance.random() < 0.9 else PATHS
        await self._read(volume, self.chance.choice(mostly))
        await trio.sleep(ONLOOKER_SECONDS * self.chance.random())


async def _content(volume: RemoteVolume, path: str) -> bytes:
    async with contextlib.aclosing(volume.read(path)) as pieces:
        return b"".join([piece async for piece in pieces])
