"""A volume of 1 GiB in 50,000 files whose service's machine is lost: the next one serves from index and tail alone."""

from __future__ import annotations

import random
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
import trio

from journal.image.index_snapshot import parse_snapshot_name
from journal.owner.opening import open_journal
from journal.records.settings import JournalSettings, Surroundings
from journal.takeover.volume_creation import create_volume
from sos_client.client import open_client
from tests.system.server_process import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from journal.owner.journal import Journal

FILES = 50_000
FILE_BYTES = (1 << 30) // FILES
WRITERS = 64


class Counting(trio.abc.Stream):
    """A TCP connection that counts what it receives."""

    def __init__(self, inner: trio.SocketStream, received: list[int]) -> None:
        self._inner = inner
        self._received = received

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._inner.receive_some(max_bytes)
        self._received.append(len(data))
        return data

    async def aclose(self) -> None:
        await self._inner.aclose()


def content(number: int) -> bytes:
    return random.Random(number).randbytes(64) * (FILE_BYTES // 64)


async def write_files(journal: Journal) -> None:
    async def write(first: int) -> None:
        for number in range(first, FILES, WRITERS):
            await journal.put(f"state/{number % 200}/{number}", content(number))

    async with trio.open_nursery() as nursery:
        for first in range(WRITERS):
            nursery.start_soon(write, first)


async def read_file(journal: Journal, number: int) -> bytes:
    return b"".join([piece async for piece in journal.read(f"state/{number % 200}/{number}")])


async def index_bytes(address: str) -> int:
    """The size of the newest index snapshot on a server."""
    async with open_client(address) as client:
        sizes = [info.size async for info in client.list_all("big") if parse_snapshot_name(info.name)]
    return sizes[-1]


@pytest.mark.slow
@pytest.mark.alone
async def test_a_new_machine_serves_from_index_and_tail(tmp_path: Path) -> None:
    received: list[int] = []

    async def dial(address: str) -> trio.abc.Stream:
        host, _, port = address.rpartition(":")
        return Counting(await trio.open_tcp_stream(host, int(port)), received)

    async with AsyncExitStack() as stack:
        servers = []
        for name in "abc":
            (tmp_path / name).mkdir()
            servers.append(ServerProcess(tmp_path / name))
            servers[-1].start()
            stack.callback(servers[-1].kill)
        addresses = [server.address for server in servers]
        await create_volume("big", addresses)
        async with open_journal("big", servers=addresses, directory=tmp_path / "first machine") as journal:
            await write_files(journal)
        received.clear()
        began = time.monotonic()
        opening = open_journal(
            "big", servers=addresses, directory=tmp_path / "second machine", surroundings=Surroundings(dial=dial)
        )
        async with opening as journal:
            await journal.put("answered", b"at once")
            seconds = time.monotonic() - began
            fetched = sum(received)
            index, tail = await index_bytes(addresses[0]), JournalSettings().segment_bytes_max
            assert fetched < 3 * (index + tail), f"{fetched:,} bytes fetched, the index has {index:,}"
            assert seconds < 20, "on a quiet machine of two cores it takes less than 2"
            chance = random.Random(7)
            for number in (0, FILES - 1, *chance.sample(range(FILES), 200)):
                assert await read_file(journal, number) == content(number)
        print(f"{seconds:.2f} s to the first answer, {fetched / 1e6:.0f} MB fetched")  # noqa: T201
