"""What an append costs the server does not depend on how many objects the appends are spread over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import trio

from sos_client.wire import messages as m
from tests.fakes.scripted_client import ScriptedClient, append, data
from tests.system.server_process import ServerProcess, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CLIENTS: Final = 64
OBJECTS: Final = 10_000
PIECE: Final = os.urandom(4096)
ROUNDS: Final = 3
RATIO_MAX: Final = 1.6


def processor_seconds(server: ServerProcess) -> float:
    """What the server has used so far, in all its threads."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Writer:
    """A client that appends one piece to each of its objects in turn, each append with a beginning and an end."""

    def __init__(self, client: ScriptedClient, names: Sequence[str]) -> None:
        self._client = client
        self._sizes = dict.fromkeys(names, 0)

    async def run(self, appends: int) -> None:
        names = list(self._sizes)
        for turn in range(appends):
            name = names[turn % len(names)]
            size = self._sizes[name]
            await self._client.send(append(name, size), data(size, PIECE), m.End())
            while not isinstance(await self._client.receive(), m.Ended):
                pass
            self._sizes[name] = size + len(PIECE)


async def cost(server: ServerProcess, writers: Sequence[Writer], appends: int) -> float:
    """Seconds of processor time for each append."""
    before = processor_seconds(server)
    async with trio.open_nursery() as nursery:
        for writer in writers:
            nursery.start_soon(writer.run, appends // len(writers))
    return (processor_seconds(server) - before) / appends


@pytest.mark.slow
async def test_ten_thousand_objects_cost_no_more_than_one_a_client(tmp_path: Path, tell: Callable[[str], None]) -> None:
    with serving(tmp_path) as server:
        clients = [await server.entered() for _ in range(CLIENTS)]
        one = [Writer(client, [f"one-{n}"]) for n, client in enumerate(clients)]
        many = [Writer(client, [f"o{o}" for o in range(n, OBJECTS, CLIENTS)]) for n, client in enumerate(clients)]
        await cost(server, many, OBJECTS)  # they are made
        await cost(server, one, OBJECTS)
        costs = [(await cost(server, one, OBJECTS), await cost(server, many, OBJECTS)) for _ in range(ROUNDS)]
        # The least of each: a round in which full log files are copied in the background costs more, with either.
        ratio = min(with_many for _, with_many in costs) / min(with_one for with_one, _ in costs)
        shown = ", ".join(f"{a * 1e6:.0f} and {b * 1e6:.0f}" for a, b in costs)
        tell(f"microseconds of processor time for each append, one object a client and {OBJECTS} in turn: {shown}")
        assert ratio < RATIO_MAX
