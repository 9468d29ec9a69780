"""Memory stays within what docs/operations.md says, with many connections that stream, idle or do neither properly."""

from __future__ import annotations

import resource
import selectors
import socket
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
import trio

from sos_client.wire import messages as m
from sos_client.wire.checksum import crc32c
from sos_client.wire.codec import encode
from tests.benchmarks.stand_in import NAMESPACE, make_root
from tests.fakes.scripted_client import append, data
from tests.system.server_process import ServerProcess, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB: Final = 1 << 20
HELLO: Final = encode(m.Hello(version=1, token=None, client="test", instance=bytes(16)))
USE: Final = encode(m.Use(namespace="ns", create=True))


def allow_files(count: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"this machine allows {hard} open files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def configured(tmp_path: Path, limits: str) -> list[str]:
    config = tmp_path / "sos.toml"
    config.write_text(f"[limits]\n{limits}\n")
    return ["--config", str(config)]


def connections(server: ServerProcess, count: int, first: bytes, stack: ExitStack) -> list[socket.socket]:
    opened = []
    for _ in range(count):
        connected = stack.enter_context(server.connect())
        connected.sendall(first)
        opened.append(connected)
    return opened


async def fill(server: ServerProcess, name: str, size: int) -> None:
    client = await server.entered()
    await client.send(append(name))
    await client.expect(m.Appending)
    piece = bytes(MIB)
    for offset in range(0, size, MIB):
        await client.send(data(offset, piece))
        if offset % (16 * MIB) == 0:
            await client.acknowledged(offset + MIB)
    await client.send(m.End())
    while not isinstance(await client.receive(), m.Ended):
        pass


async def served_at_once(server: ServerProcess, *, seconds_max: float) -> None:
    """A client that comes now is served, and quickly."""
    began = time.monotonic()
    client = await server.entered("beside")
    await client.send(append(f"o{time.monotonic_ns()}"), data(0, b"x"), m.End())
    while not isinstance(await client.receive(), m.Ended):
        pass
    await client.stream.aclose()
    assert time.monotonic() - began < seconds_max


async def accepted(server: ServerProcess) -> bool:
    """Whether there is room for one more connection."""
    with suppress(AssertionError, trio.BrokenResourceError, EOFError):
        client = await server.entered("beside")
        await client.stream.aclose()
        return True
    return False


@pytest.mark.slow
@pytest.mark.alone
async def test_ten_thousand_idle_connections_cost_little_and_hold_nobody_up(tmp_path: Path) -> None:
    allow_files(12_000)
    flags = configured(tmp_path, "connections_max = 11000\nconnections_per_peer_max = 11000")
    with serving(tmp_path, *flags) as server, ExitStack() as stack:
        await served_at_once(server, seconds_max=30)
        before = server.rss_bytes()
        idle = connections(server, 10_000, HELLO, stack)
        for connected in idle:
            assert connected.recv(100)
        assert server.rss_bytes() - before < 10_000 * 24 * 1024
        await served_at_once(server, seconds_max=10)


@pytest.mark.slow
async def test_ten_thousand_silent_connections_are_bounded_by_the_limits(tmp_path: Path) -> None:
    allow_files(12_000)
    flags = configured(tmp_path, "connections_max = 1000\nconnections_per_peer_max = 900\nhandshake_seconds = 3")
    with serving(tmp_path, *flags) as server, ExitStack() as stack:
        client = await server.entered("beside")
        before = server.rss_bytes()
        connections(server, 10_000, b"", stack)
        await client.ask(m.Ping(n=1), m.Pong)
        assert server.rss_bytes() - before < 40 * MIB
        deadline = time.monotonic() + 600  # whoever still waits in the listen backlog has its own three seconds
        while not await accepted(server):
            assert time.monotonic() < deadline
            await trio.sleep(0.2)
        await served_at_once(server, seconds_max=10)


@pytest.mark.slow
@pytest.mark.alone
async def test_a_thousand_readers_share_their_memory(tmp_path: Path) -> None:
    allow_files(4000)
    with serving(tmp_path) as server, ExitStack() as stack:
        await fill(server, "large", 64 * MIB)
        before = server.rss_bytes()
        get = encode(m.Get(object="large", offset=0, length=None, follow=False))
        readers = connections(server, 1000, HELLO + USE + get, stack)
        for number in range(20):
            time.sleep(0.1)  # noqa: ASYNC251
            for reader in readers[number::10]:
                reader.recv(32 * 1024)
            assert server.rss_bytes() - before < 190 * MIB
        await served_at_once(server, seconds_max=20)


def frames_of(payload: bytes) -> Iterator[bytearray]:
    """DATA without end; what is not sent yet of a frame stays in the buffer."""
    offset, crc = 0, crc32c(payload)
    while True:
        frame = bytearray(encode(m.Data(offset, crc, payload)))
        offset += len(payload)
        while frame:
            yield frame


def send_some(key: selectors.SelectorKey) -> None:
    frame = next(key.data)
    assert isinstance(key.fileobj, socket.socket)
    with suppress(BlockingIOError):
        del frame[: key.fileobj.send(frame)]


@pytest.mark.slow
@pytest.mark.alone
async def test_a_thousand_appenders_share_their_memory(tmp_path: Path) -> None:
    allow_files(4000)
    with serving(tmp_path) as server, ExitStack() as stack:
        await served_at_once(server, seconds_max=30)
        before = server.rss_bytes()
        payload = bytes(64 * 1024)
        writable = stack.enter_context(selectors.DefaultSelector())
        for number in range(1000):
            writer = stack.enter_context(server.connect())
            writer.sendall(HELLO + USE + encode(append(f"log-{number}")))
            writer.setblocking(False)
            writable.register(writer, selectors.EVENT_WRITE, frames_of(payload))
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline:
            for key, _ in writable.select(0.1):
                send_some(key)
            assert server.rss_bytes() - before < 256 * MIB
        await served_at_once(server, seconds_max=30)


@pytest.mark.slow
async def test_a_large_object_needs_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        peaks = []
        for name, size in (("small", 16 * MIB), ("large", 640 * MIB)):
            await fill(server, name, size)
            peak = 0
            client = await server.entered()
            await client.send(m.Get(object=name, offset=0, length=None, follow=False))
            while not isinstance(await client.receive(), m.GetEnd):
                peak = max(peak, server.rss_bytes())
            peaks.append(peak)
        assert peaks[1] - peaks[0] < 96 * MIB


async def peak_of_use(directory: Path, size: int) -> int:
    """Memory of a server that holds one object of this size, its last 8 MiB being read, then 8 MiB appended."""
    await trio.to_thread.run_sync(partial(make_root, directory / "root", objects=1, object_bytes=size))
    with serving(directory) as server:
        client = await server.entered(NAMESPACE)
        await client.send(m.Get(object="o0", offset=size - 8 * MIB, length=None, follow=False))
        while not isinstance(await client.receive(), m.GetEnd):
            pass
        peak = server.rss_bytes()
        await client.send(append("o0", size))
        await client.expect(m.Appending)
        for offset in range(size, size + 8 * MIB, MIB):
            await client.send(data(offset, bytes(MIB)))
            await client.acknowledged(offset + MIB)
            peak = max(peak, server.rss_bytes())
        return peak


async def test_ten_gibibytes_need_no_more_memory_than_ten_mebibytes(tmp_path: Path) -> None:
    """The large object is a sparse file; the server does not know."""
    small = await peak_of_use(tmp_path / "small", 10 * MIB)
    large = await peak_of_use(tmp_path / "large", 10 * 1024 * MIB)
    assert large - small < 16 * MIB
