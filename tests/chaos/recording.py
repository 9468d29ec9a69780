"""A client that changes and reads files as fast as it is answered, and writes down what it asked for and was told."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalError
from journal.gateway.client.client import open_volume
from tests.histories.checker import DONE, NOTHING, Call, digest_of

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Sequence

    from journal.gateway.client.client import RemoteVolume

PATHS: Final = tuple(f"{directory}/{number}" for directory in ("a", "b") for number in range(6))


PAUSE_SECONDS_MAX: Final = 0.05
"""Between two calls of a client: the log of a round is read again for each set of members that is taken away."""


class Recorder:
    """One client process's view. `calls` is shared: a call is in it from its answer on, or when its client ends."""

    def __init__(self, name: str, chance: random.Random, calls: list[Call]) -> None:
        self.name = name
        self.chance = chance
        self.calls = calls

    async def run(self, addresses: Sequence[str], volume: str) -> None:
        """Until cancelled."""
        async with open_volume(addresses, volume, client_name=self.name) as remote:
            while True:
                await self._do_something(remote)
                await trio.sleep(self.chance.uniform(0, PAUSE_SECONDS_MAX))

    async def _do_something(self, remote: RemoteVolume) -> None:
        path, target = self.chance.sample(PATHS, 2)
        (kind,) = self.chance.choices(["put", "create", "delete", "rename", "read"], [4, 4, 2, 1, 6])
        operation = None if kind == "read" else remote.new_operation()
        content = self.chance.randbytes(self.chance.choice([8, 200, 3000])) if kind in ("put", "create") else b""
        awaited: Awaitable[object]
        match kind:
            case "read":
                awaited = _content(remote, path)
            case "delete":
                assert operation is not None
                awaited = remote.delete(path, recursive=False, operation=operation)
            case "rename":
                assert operation is not None
                awaited = remote.rename(path, target, overwrite=False, operation=operation)
            case _:
                assert operation is not None
                awaited = remote.put(path, content, overwrite=kind == "put", operation=operation)
        answer, answered, got = "no answer", float("inf"), None
        asked = time.monotonic()
        try:
            got = await awaited
            answer, answered = NOTHING if got is False else DONE, time.monotonic()
        except JournalError as error:
            answer, answered = error.code.name, time.monotonic()
        finally:
            found = got if kind == "read" else content if kind in ("put", "create") else None
            self.calls.append(
                Call(
                    client=self.name,
                    kind=kind,
                    path=path,
                    target=target if kind == "rename" else "",
                    asked=asked,
                    answered=answered,
                    answer=answer,
                    content=digest_of(found) if isinstance(found, bytes) else None,
                    operation=None if operation is None else (operation.client.hex(), operation.sequence),
                )
            )


async def _content(remote: RemoteVolume, path: str) -> bytes:
    async with aclosing(remote.read(path)) as pieces:
        return b"".join([piece async for piece in pieces])
