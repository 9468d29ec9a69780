"""The contract of a volume, on the real journal over real servers: directly, and behind the file protocol."""

from __future__ import annotations

import itertools
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import trio

from journal.gateway.client.client import ClientSettings, open_volume
from journal.owner.opening import open_journal
from journal.takeover.volume_creation import create_volume
from sos_client.net.plain_stream import PlainStream
from tests.contracts.file_protocol_contract import FileProtocolContract
from tests.fakes.serve_memory_volume import gateway_over
from tests.system.server_process import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from journal.owner.journal import Journal
    from journal.volume import ServedVolume, Volume

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with ExitStack() as stack:
        roots = [tmp_path_factory.mktemp(f"server{number}") for number in range(3)]
        yield [stack.enter_context(serving(root)).address for root in roots]


@pytest.fixture
async def journal(servers: list[str], tmp_path: Path) -> AsyncIterator[Journal]:
    name = f"contract-{next(_numbers)}"
    await create_volume(name, servers)
    async with open_journal(name, servers=servers, directory=tmp_path) as journal:
        yield journal


class OneVolume:
    """For a gateway with one volume, whatever it is called."""

    def __init__(self, volume: ServedVolume) -> None:
        self._volume = volume

    async def settle(self, _name: str) -> None:
        pass

    def owned(self, _name: str) -> ServedVolume:
        return self._volume


@pytest.mark.slow
class TestJournal(FileProtocolContract):
    @pytest.fixture
    def volume(self, journal: Journal) -> Volume:
        return journal


@pytest.mark.slow
class TestJournalOverTheFileProtocol(FileProtocolContract):
    @pytest.fixture
    async def volume(self, journal: Journal, nursery: trio.Nursery) -> AsyncIterator[Volume]:
        gateway = gateway_over(OneVolume(journal))

        async def dial(address: str) -> trio.abc.Stream:
            here, there = trio.testing.memory_stream_pair()
            nursery.start_soon(lambda: gateway.talk(there, peer=address))
            return here

        async with open_volume(["memory"], "payments", dial=dial) as volume:
            yield volume


@pytest.mark.slow
class TestJournalOverSockets(FileProtocolContract):
    @pytest.fixture
    async def volume(self, journal: Journal, nursery: trio.Nursery) -> AsyncIterator[Volume]:
        gateway = gateway_over(OneVolume(journal))
        nursery.start_soon(gateway.run)
        await trio.testing.wait_all_tasks_blocked()

        async def dial(address: str) -> trio.abc.Stream:
            here, there = socket.socketpair()
            nursery.start_soon(lambda: gateway.talk(PlainStream(there), peer=address))
            return PlainStream(here)

        async with open_volume(["socket"], "payments", dial=dial) as volume:
            yield volume


@pytest.mark.slow
class TestJournalOverTheFileProtocolShared(FileProtocolContract):
    @pytest.fixture
    async def volume(self, journal: Journal, nursery: trio.Nursery) -> AsyncIterator[Volume]:
        gateway = gateway_over(OneVolume(journal))

        async def dial(address: str) -> trio.abc.Stream:
            here, there = trio.testing.memory_stream_pair()
            nursery.start_soon(lambda: gateway.talk(there, peer=address))
            return here

        async with open_volume(["memory"], "payments", dial=dial, settings=ClientSettings(shared=True)) as volume:
            yield volume


@pytest.mark.slow
class TestJournalOverSocketsShared(FileProtocolContract):
    @pytest.fixture
    async def volume(self, journal: Journal, nursery: trio.Nursery) -> AsyncIterator[Volume]:
        gateway = gateway_over(OneVolume(journal))
        nursery.start_soon(gateway.run)
        await trio.testing.wait_all_tasks_blocked()

        async def dial(address: str) -> trio.abc.Stream:
            here, there = socket.socketpair()
            nursery.start_soon(lambda: gateway.talk(PlainStream(there), peer=address))
            return PlainStream(here)

        async with open_volume(["socket"], "payments", dial=dial, settings=ClientSettings(shared=True)) as volume:
            yield volume
