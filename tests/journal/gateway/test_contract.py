"""The contract of a volume, on the one in memory and on the same behind the file protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from journal.gateway.client.client import ClientSettings, open_volume
from sos_client.net.addresses import Address
from tests.contracts.file_protocol_contract import FileProtocolContract
from tests.fakes.memory_volume import MemoryVolume
from tests.fakes.memory_volumes import MemoryVolumes
from tests.fakes.serve_memory_volume import gateway_over, listener_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from journal.volume import Volume


class TestMemoryVolume(FileProtocolContract):
    @pytest.fixture
    def volume(self) -> Volume:
        return MemoryVolume()


class TestOverMemoryStreams(FileProtocolContract):
    @pytest.fixture
    async def volume(self, nursery: trio.Nursery) -> AsyncIterator[Volume]:
        gateway = gateway_over(MemoryVolumes(MemoryVolume()))

        async def dial(address: str) -> trio.abc.Stream:
            here, there = trio.testing.memory_stream_pair()
            nursery.start_soon(lambda: gateway.talk(there, peer=address))
            return here

        async with open_volume(["memory"], "payments", dial=dial) as volume:
            yield volume


class TestOverTcp(FileProtocolContract):
    @pytest.fixture
    async def volume(self, nursery: trio.Nursery) -> AsyncIterator[Volume]:
        gateway = gateway_over(MemoryVolumes(MemoryVolume()))
        listener = listener_at(Address(host="127.0.0.1", port=0))
        nursery.start_soon(gateway.run)
        nursery.start_soon(listener.serve, gateway.converse)
        async with open_volume([str(listener.address)], "payments") as volume:
            yield volume
        nursery.cancel_scope.cancel()


class TestOverMemoryStreamsShared(FileProtocolContract):
    @pytest.fixture
    async def volume(self, nursery: trio.Nursery) -> AsyncIterator[Volume]:
        gateway = gateway_over(MemoryVolumes(MemoryVolume()))

        async def dial(address: str) -> trio.abc.Stream:
            here, there = trio.testing.memory_stream_pair()
            nursery.start_soon(lambda: gateway.talk(there, peer=address))
            return here

        async with open_volume(["memory"], "payments", dial=dial, settings=ClientSettings(shared=True)) as volume:
            yield volume


class TestOverTcpShared(FileProtocolContract):
    @pytest.fixture
    async def volume(self, nursery: trio.Nursery) -> AsyncIterator[Volume]:
        gateway = gateway_over(MemoryVolumes(MemoryVolume()))
        listener = listener_at(Address(host="127.0.0.1", port=0))
        nursery.start_soon(gateway.run)
        nursery.start_soon(listener.serve, gateway.converse)
        async with open_volume([str(listener.address)], "payments", settings=ClientSettings(shared=True)) as volume:
            yield volume
        nursery.cancel_scope.cancel()
