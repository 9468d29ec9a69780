"""Power cuts under a real server and 64 appending clients: what was acknowledged is there, all else may be gone.

kill -9 leaves the page cache to the next process, so it can never show a missing fsync; here the shim takes it away.
"""

from __future__ import annotations

import os
import random
import subprocess
from typing import TYPE_CHECKING

import pytest
import trio

from sos_client.client import SosClient, open_client
from sos_client.wire.checksum import crc32c
from tests.system.power_cut.power_cut import PowerCut
from tests.system.server_process import ServerProcess
from tests.system.test_server_kills import CLIENTS, NAMESPACE, PATIENT, Writer, check, content

if TYPE_CHECKING:
    from pathlib import Path


async def power_cuts(tmp_path: Path, rounds: int, seed: int) -> int:
    """In turn: nothing survives that was not synced, and some of it does. Returns how many calls were undone."""
    chance = random.Random(seed)
    (tmp_path / "root").mkdir()
    power = PowerCut(tmp_path / "root", tmp_path)
    server = ServerProcess(tmp_path, environment=power.environment)
    server.start()
    writers = [Writer(f"o{number}", number) for number in range(CLIENTS)]
    stop = trio.Event()
    undone = 0
    try:
        async with open_client(server.address, deadlines=PATIENT) as client, trio.open_nursery() as nursery:
            await client.use(NAMESPACE, create=True)
            for writer in writers:
                nursery.start_soon(writer.run, client, random.Random(chance.random()), stop)
            for number in range(rounds):
                await under_load(writers)
                await trio.sleep(chance.uniform(0, 0.5))
                server.kill()
                acknowledged = [writer.acknowledged for writer in writers]
                undone += await trio.to_thread.run_sync(power.cut, chance if number % 2 else None)
                await trio.to_thread.run_sync(server.start)
                await check(client, writers, acknowledged)
            stop.set()
        async with open_client(server.address, deadlines=PATIENT) as client:
            await check_final(client, writers)
        assert server.terminate() == 0
    finally:
        server.kill()
    return undone


async def under_load(writers: list[Writer]) -> None:
    """Return when some writers have been acknowledged something since this was called."""
    before = [writer.acknowledged for writer in writers]
    with trio.fail_after(60):
        while sum(writer.acknowledged > was for writer, was in zip(writers, before, strict=True)) < CLIENTS // 4:  # noqa: ASYNC110
            await trio.sleep(0.01)


async def check_final(client: SosClient, writers: list[Writer]) -> None:
    for writer in writers:
        info = await client.stat(NAMESPACE, writer.name)
        assert (info.size, info.crc) == (writer.sent, crc32c(content(writer.number, 0, writer.sent)))


def test_a_root_that_somebody_else_had_just_made_is_there_after_a_power_cut(tmp_path: Path) -> None:
    """Its name counts for as much as what the server puts below it."""
    (tmp_path / "disk").mkdir()
    power = PowerCut(tmp_path / "disk", tmp_path)
    server = ServerProcess(tmp_path / "disk", environment=power.environment)
    server.log_path = tmp_path / "server.log"
    subprocess.run(["mkdir", str(server.root)], env={**os.environ, **power.environment}, check=True)
    server.start()
    server.kill()
    identity = (server.root / "identity").read_bytes()
    power.cut()
    assert (server.root / "identity").read_bytes() == identity


async def test_power_cuts_under_load(tmp_path: Path) -> None:
    await power_cuts(tmp_path, rounds=4, seed=1)


@pytest.mark.slow
async def test_many_power_cuts_under_load(tmp_path: Path) -> None:
    undone = await power_cuts(tmp_path, rounds=12, seed=2)
    assert undone > 0, "no cut fell between a write and its sync: the shim sees nothing"


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_hundreds_of_power_cuts_under_load(tmp_path: Path) -> None:
    for seed in range(20):
        (tmp_path / f"{seed}").mkdir()
        await power_cuts(tmp_path / f"{seed}", rounds=25, seed=seed)
