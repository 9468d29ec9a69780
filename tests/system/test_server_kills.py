"""kill -9 at random moments under 64 appending clients: every acknowledged byte is there, and no byte nobody sent.

The clients are real ones and resume by themselves. That SIGKILL leaves the page cache alone is what the power-cut tests
are for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
import trio

from sos_client.attempts import Deadlines
from sos_client.client import SosClient, open_client
from sos_client.wire.checksum import crc32c
from tests.system.server_process import ServerProcess, serving

if TYPE_CHECKING:
    from pathlib import Path

    from sos_client.append_stream import AppendStream

CLIENTS: Final = 64
NAMESPACE: Final = "kills"
ROUNDS_PER_OBJECT: Final = 25
PATTERN: Final = random.Random(7).randbytes(1 << 20)
PATIENT: Final = Deadlines(connect_seconds=20, answer_seconds=20, retry_seconds=60)


def content(number: int, start: int, end: int) -> bytes:
    """What the writer of object ``number`` sends between two offsets; it differs everywhere and between objects."""
    at = (start + number * 7919) % len(PATTERN)
    copies = (at + end - start) // len(PATTERN) + 1
    return (PATTERN * copies)[at : at + end - start]


@dataclass(slots=True)
class Writer:
    """One object being appended to, all through the kills, and how much of it was checked."""

    name: str
    number: int
    stream: AppendStream | None = None
    sent: int = 0
    checked: int = 0

    async def run(self, client: SosClient, chance: random.Random, stop: trio.Event) -> None:
        async with client.append(NAMESPACE, self.name, size=0) as self.stream:
            while not stop.is_set():
                length = chance.randint(1, 3000)
                payload = content(self.number, self.sent, self.sent + length)
                self.sent += length
                await self.stream.send(payload)
                await trio.sleep(chance.uniform(0, 0.02))

    @property
    def acknowledged(self) -> int:
        return self.stream.synced if self.stream is not None else 0


async def check(client: SosClient, writers: list[Writer], acknowledged: list[int]) -> None:
    """What the server has is a prefix of what was sent, at least as long as what had been acknowledged."""
    for writer, promised in zip(writers, acknowledged, strict=True):
        if not promised:
            continue  # not even the object's name was acknowledged
        info = await client.stat(NAMESPACE, writer.name)
        assert promised <= info.size <= writer.sent, writer.name
        stored = await client.get(NAMESPACE, writer.name, writer.checked, info.size - writer.checked)
        assert stored == content(writer.number, writer.checked, info.size), writer.name
        assert info.crc == crc32c(content(writer.number, 0, info.size)), writer.name
        writer.checked = promised


async def kill_in_rounds(server: ServerProcess, client: SosClient, chance: random.Random, rounds: int) -> None:
    """Some rounds on one set of objects: kill, look at what was promised, start, check, go on."""
    stop = trio.Event()
    prefix = f"o{chance.randrange(1 << 30)}"
    writers = [Writer(f"{prefix}-{number}", number) for number in range(CLIENTS)]
    async with trio.open_nursery() as nursery:
        for writer in writers:
            nursery.start_soon(writer.run, client, random.Random(chance.random()), stop)
        for _ in range(rounds):
            await trio.sleep(chance.uniform(0.02, 0.3))
            server.kill()
            acknowledged = [writer.acknowledged for writer in writers]
            await trio.to_thread.run_sync(server.start)
            await check(client, writers, acknowledged)
        stop.set()
    for writer in writers:
        assert writer.acknowledged == writer.sent
        info = await client.stat(NAMESPACE, writer.name)
        assert (info.size, info.crc) == (writer.sent, crc32c(content(writer.number, 0, writer.sent)))
        await client.seal(NAMESPACE, writer.name, size=writer.sent)
        await client.delete(NAMESPACE, writer.name)


async def kill_rounds(tmp_path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    with serving(tmp_path) as server:
        async with open_client(server.address, deadlines=PATIENT) as client:
            await client.use(NAMESPACE, create=True)
            for start in range(0, rounds, ROUNDS_PER_OBJECT):
                await kill_in_rounds(server, client, chance, min(ROUNDS_PER_OBJECT, rounds - start))
        assert server.terminate() == 0


def test_the_pattern_is_seamless() -> None:
    whole = content(3, 0, 3_000_000)
    for start, end in [(0, 1), (1_000_000, 1_100_000), (1_024_817, 1_024_819), (2_999_999, 3_000_000), (5, 5)]:
        assert content(3, start, end) == whole[start:end]
    assert content(4, 0, 100) != whole[:100]


async def test_kills(tmp_path: Path) -> None:
    await kill_rounds(tmp_path, rounds=5, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1500)
async def test_many_kills(tmp_path: Path) -> None:
    await kill_rounds(tmp_path, rounds=20, seed=2)


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_a_thousand_kills(tmp_path: Path) -> None:
    await kill_rounds(tmp_path, rounds=1000, seed=3)
