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
from journal.gateway.client.client import open_volume
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_answer
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.limits import FRAME_BYTES_MAX
from journal.image.operation_window import KEPT_BYTES_MAX
from journal.volume import OperationId, PathClaim
from sos_client.serving.access import Right, append_token, new_token
from sos_client.wire.frames import FrameSplitter, frame_header
from tests.system.service_process import VOLUME, ServiceProcess, running_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from journal.gateway.client.client import RemoteVolume

MIB: Final = 1 << 20
ABOVE_IDLE_BYTES_MAX: Final = 256 * MIB
CONNECTIONS: Final = 250


def _opened(service: ServiceProcess, token: bytes | None = None) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
    hello = m.HelloRequest(version=1, token=token, client="test", instance=os.urandom(16))
    connection.sendall(encode(hello))
    assert connection.recv(MIB)
    connection.sendall(encode(m.OpenRequest(volume=VOLUME, epoch_seen=0)))
    assert connection.recv(MIB)
    return connection


def _fill(service: ServiceProcess, *, upload: bool, token: bytes | None = None) -> int:
    """The most that the service has while so many connections begin what they do not end."""
    most, piece = 0, encode(m.FileData(offset=0, payload=bytes(MIB)))
    with ExitStack() as stack:
        for number in range(CONNECTIONS):
            connection = stack.enter_context(_opened(service, token))
            begun = frame_header(m.FileMessageType.PUT, 2 * MIB - 1) + bytes(MIB * 3 // 2)
            if upload:
                stamp = m.Stamp(operation=OperationId(os.urandom(16), 1), claim=None, epoch_seen=0)
                opening = m.WriteOpenRequest(path=f"u/{number}", overwrite=False, stamp=stamp)
                begun = encode(opening) + piece + frame_header(m.FileMessageType.DATA, MIB) + bytes(MIB // 2)
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


def _ask_and_not_listen(service: ServiceProcess, request: bytes) -> int:
    """The most that the service has while so many connections do not read what they asked for."""
    most = 0
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(_opened(service)).sendall(request)
            most = max(most, service.rss_bytes())
        time.sleep(1)
        return max(most, service.rss_bytes())


async def test_answers_that_nobody_reads_are_bounded(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, servers=1) as cluster,
        open_volume([cluster.service.address], VOLUME) as volume,
    ):
        file = await volume.open_write("large", overwrite=False, operation=volume.new_operation())
        for _ in range(16):
            await file.write(bytes(MIB))
        await file.commit()
        request = m.ReadRequest(path="large", offset=0, length=None, modified_ms=None, epoch_seen=0)
        idle = cluster.service.rss_bytes()
        most = await trio.to_thread.run_sync(lambda: _ask_and_not_listen(cluster.service, encode(request)))
        assert most - idle < ABOVE_IDLE_BYTES_MAX, f"{(most - idle) // MIB} MiB"
        assert sum([len(piece) async for piece in volume.read("large")]) == 16 * MIB


def _invent_clients(service: ServiceProcess, token: bytes, path: str) -> m.RefusalAnswer:
    """Changes that leave nothing but an answer, each of another client, until no more are taken."""
    with _opened(service, token) as connection:
        splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX)
        while True:
            stamps = [m.Stamp(operation=OperationId(os.urandom(16), 1), claim=None, epoch_seen=0) for _ in range(100)]
            connection.sendall(
                b"".join(encode(m.DeleteRequest(path=path, recursive=False, stamp=one)) for one in stamps)
            )
            for _ in stamps:
                while (frame := splitter.next_frame()) is None:
                    splitter.feed(connection.recv(MIB))
                answer = decode_answer(*frame)
                if isinstance(answer, m.RefusalAnswer) and answer.code == JournalCode.UNAVAILABLE:
                    return answer


@pytest.mark.parametrize("path", ["p", "a/" + "/".join(["p" * 255] * 15)], ids=["nothing to delete", "long refusals"])
async def test_who_invents_clients_is_bounded_and_keeps_nobody_out(tmp_path: Path, path: str) -> None:
    tokens = []
    for name in ("one", "another"):
        text, grant = new_token(name=name, namespaces=("*",), rights=frozenset(Right), expires=None)
        append_token(tmp_path / "tokens.toml", grant)
        tokens.append(bytes.fromhex(text))
    flags = ("--tokens", str(tmp_path / "tokens.toml"))
    async with (
        running_cluster(tmp_path, servers=1, flags=flags) as cluster,
        open_volume([cluster.service.address], VOLUME, token=tokens[1]) as volume,
    ):
        await volume.claim("a", PathClaim(start_time=1, application="a"), operation=volume.new_operation())
        idle = cluster.service.rss_bytes()
        refusal = await trio.to_thread.run_sync(_invent_clients, cluster.service, tokens[0], path)
        assert "so many answers" in refusal.message
        assert cluster.service.rss_bytes() - idle < 2 * KEPT_BYTES_MAX
        with trio.fail_after(300):
            await volume.put("b", b"x", overwrite=False, operation=volume.new_operation())


def _begin_and_invent(service: ServiceProcess, token: bytes) -> int:
    """The most that the service has while one token holds answers, frames, uploads and what nobody reads."""
    _invent_clients(service, token, "a/" + "/".join(["p" * 255] * 15))
    return max(_fill(service, upload=upload, token=token) for upload in (True, False))


async def test_all_that_one_token_may_make_it_keep_is_bounded_together(tmp_path: Path) -> None:
    """A tree that is full and was loaded by a restart, answers, and what is begun and not ended."""
    text, grant = new_token(name="one", namespaces=("*",), rights=frozenset(Right), expires=None)
    append_token(tmp_path / "tokens.toml", grant)
    token, flags = bytes.fromhex(text), ("--tokens", str(tmp_path / "tokens.toml"))
    async with running_cluster(tmp_path, servers=1, flags=flags) as cluster:
        idle = cluster.service.rss_bytes()
        async with open_volume([cluster.service.address], VOLUME, token=token) as volume:
            await volume.claim("a", PathClaim(start_time=1, application="a"), operation=volume.new_operation())
            with pytest.raises(JournalError, match="no room for more"):
                await _fill_with_directories(volume, "d")
        await trio.to_thread.run_sync(cluster.service.terminate)
        await trio.to_thread.run_sync(cluster.service.start)
        most = await trio.to_thread.run_sync(_begin_and_invent, cluster.service, token)
        assert most - idle < ABOVE_IDLE_BYTES_MAX, f"{(most - idle) // MIB} MiB"


async def _fill_with_directories(volume: RemoteVolume, name: str) -> None:
    deep = "/".join([name] * 120)
    for number in range(1_000_000):
        await volume.mkdirs(f"q/{number}/{deep}", operation=volume.new_operation())


@pytest.mark.parametrize("name", ["d", "\N{GRINNING FACE}" + "d" * 28], ids=["many", "wide"])
async def test_directories_are_bounded_also_after_a_restart(tmp_path: Path, name: str) -> None:
    async with running_cluster(tmp_path, servers=1) as cluster:
        idle = cluster.service.rss_bytes()
        async with open_volume([cluster.service.address], VOLUME) as volume:
            with pytest.raises(JournalError, match="no room for more") as refused:
                await _fill_with_directories(volume, name)
            assert refused.value.code is JournalCode.TOO_LARGE
            await volume.delete("q/0", recursive=True, operation=volume.new_operation())
        grown = cluster.service.rss_bytes() - idle
        await trio.to_thread.run_sync(cluster.service.terminate)
        await trio.to_thread.run_sync(cluster.service.start)
        restarted = cluster.service.rss_bytes() - idle
        assert max(grown, restarted) < ABOVE_IDLE_BYTES_MAX, (grown // MIB, restarted // MIB)
