"""The service's memory stays within what docs/journal-service.md says, whatever clients begin and do not end."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest
import trio

from journal.errors import JournalCode, JournalError
from journal.gateway import messages as m
from journal.gateway.client import open_volume
from journal.gateway.encoding import encode
from journal.volume import OperationId
from sos_client.wire.frames import frame_header
from tests.system.service_process import VOLUME, ServiceProcess, running_cluster

if TYPE_CHECKING:
    from pathlib import Path

MIB: Final = 1 << 20
ABOVE_IDLE_BYTES_MAX: Final = 256 * MIB
CONNECTIONS: Final = 250
pytestmark = pytest.mark.timeout(300)


def _opened(service: ServiceProcess) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
    hello = m.Hello(version=1, token=None, client="test", instance=os.urandom(16))
    connection.sendall(encode(hello) + encode(m.Open(volume=VOLUME, epoch_seen=0)))
    assert connection.recv(MIB)
    return connection


def _fill(service: ServiceProcess, *, upload: bool) -> int:
    """The most that the service has while so many connections begin what they do not end."""
    most, piece = 0, encode(m.Data(offset=0, payload=bytes(MIB)))
    with ExitStack() as stack:
        for number in range(CONNECTIONS):
            connection = stack.enter_context(_opened(service))
            begun = frame_header(m.MessageType.PUT, 2 * MIB - 1) + bytes(MIB * 3 // 2)
            if upload:
                stamp = m.Stamp(operation=OperationId(os.urandom(16), 1), claim=None, epoch_seen=0)
                opening = m.WriteOpen(path=f"u/{number}", overwrite=False, stamp=stamp)
                begun = encode(opening) + piece + frame_header(m.MessageType.DATA, MIB) + bytes(MIB // 2)
            connection.sendall(begun)
            most = max(most, service.rss_bytes())
        time.sleep(1)
        return max(most, service.rss_bytes())


@pytest.mark.parametrize("upload", [False, True], ids=["frames that do not end", "silent uploads"])
async def test_what_is_begun_and_not_ended_is_bounded(tmp_path: Path, *, upload: bool) -> None:
    async with running_cluster(tmp_path, servers=1) as cluster:
        idle = cluster.service.rss_bytes()
        most = await trio.to_thread.run_sync(lambda: _fill(cluster.service, upload=upload))
        assert most - idle < ABOVE_IDLE_BYTES_MAX, f"{(most - idle) // MIB} MiB"
        async with open_volume([cluster.service.address], VOLUME) as volume:
            await volume.put("small", b"x", overwrite=False, operation=volume.new_operation())


@pytest.mark.parametrize("name", ["d", "\N{GRINNING FACE}" + "d" * 28], ids=["many", "wide"])
async def test_directories_are_bounded_also_after_a_restart(tmp_path: Path, name: str) -> None:
    async with running_cluster(tmp_path, servers=1) as cluster:
        idle = cluster.service.rss_bytes()
        deep = "/".join([name] * 120)
        async with open_volume([cluster.service.address], VOLUME) as volume:

            async def fill() -> None:
                for number in range(1_000_000):
                    await volume.mkdirs(f"q/{number}/{deep}", operation=volume.new_operation())

            with pytest.raises(JournalError, match="no room for more") as refused:
                await fill()
            assert refused.value.code is JournalCode.TOO_LARGE
            await volume.delete("q/0", recursive=True, operation=volume.new_operation())
        grown = cluster.service.rss_bytes() - idle
        await trio.to_thread.run_sync(cluster.service.terminate)
        await trio.to_thread.run_sync(cluster.service.start)
        restarted = cluster.service.rss_bytes() - idle
        assert max(grown, restarted) < ABOVE_IDLE_BYTES_MAX, (grown // MIB, restarted // MIB)
