"""A full disk: NO_SPACE before anything acknowledged is at risk; reads go on, and appends when there is room again."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest
import trio

from sos_client.wire import messages as m
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode
from tests.fakes.scripted_client import ScriptedClient, append, data
from tests.system.server_process import ServerProcess, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DISK_BYTES: Final = 96 << 20
PIECE: Final = bytes(range(256)) * 1024


@contextmanager
def small_disk(place: Path, size: int = DISK_BYTES) -> Iterator[Path]:
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small tmpfs is not allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


async def append_until_refused(client: ScriptedClient, name: str) -> tuple[int, m.Error]:
    """How much of the object was acknowledged, and what ended that."""
    await client.send(append(name))
    acknowledged = offset = 0
    while isinstance(message := await client.receive(), m.Appending | m.Ack):
        if isinstance(message, m.Ack):
            acknowledged = message.synced
        if acknowledged == offset:
            assert offset < DISK_BYTES
            await client.send(data(offset, PIECE))
            offset += len(PIECE)
    await client.send(m.End())
    assert isinstance(message, m.Error)
    return acknowledged, message


async def checked(server: ServerProcess, name: str, size: int) -> None:
    """All of the object can be read, and is what was sent."""
    client = await server.entered()
    info = await client.ask(m.Stat(object=name), m.ObjectInfo)
    assert info.size >= size
    await client.send(m.Get(object=name, offset=0, length=None, follow=False))
    received = bytearray()
    while isinstance(message := await client.receive(), m.Data):
        received += message.payload
    assert received == (PIECE * (info.size // len(PIECE) + 1))[: info.size]
    assert info.crc == crc32c(received)


@pytest.mark.slow
async def test_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, serving(disk) as server:
        client = await server.entered()
        await client.send(append("before"), data(0, PIECE), m.End())
        while not isinstance(await client.receive(), m.Ended):
            pass
        acknowledged, error = await append_until_refused(client, "filler")
        assert error.code is ErrorCode.NO_SPACE
        assert acknowledged > DISK_BYTES // 16
        assert (await client.refused(append("another"))).code is ErrorCode.NO_SPACE
        await client.send(m.End())
        await checked(server, "filler", acknowledged)
        server.kill()
        server.start()
        await checked(server, "filler", acknowledged)
        await checked(server, "before", len(PIECE))

        client = await server.entered()
        size = (await client.ask(m.Stat(object="filler"), m.ObjectInfo)).size
        await client.ask(m.Seal(object="filler", size=size, epoch=0, holder=b""), m.Sealed)
        await client.ask(m.Delete(object="filler", epoch=0, holder=b""), m.Deleted)
        with trio.fail_after(600):
            while isinstance(await appended_one(server), m.Error):  # noqa: ASYNC110
                await trio.sleep(0.5)
        await checked(server, "before", len(PIECE))


async def appended_one(server: ServerProcess) -> m.Message | None:
    client = await server.entered()
    await client.send(append(f"after-{trio.current_time()}"), data(0, PIECE), m.End())
    while not isinstance(message := await client.receive(), m.Ended | m.Error):
        pass
    return message
