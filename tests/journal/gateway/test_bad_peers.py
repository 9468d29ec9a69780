"""Peers that send anything at all, and peers that take more than their share."""

from __future__ import annotations

import contextlib
import random
import ssl
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
import trustme

from journal.gateway.client.client import open_volume
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_answer
from journal.gateway.wire.encoding import encode
from sos_client.net.addresses import Address
from sos_client.serving.event_log import EventLog
from sos_client.serving.listener import Listener, ListenerLimits
from sos_client.serving.tls import ServerTls, TlsFiles
from sos_client.wire.frames import FrameSplitter
from tests.fakes.memory_volume import MemoryVolume
from tests.fakes.memory_volumes import MemoryVolumes
from tests.fakes.serve_memory_volume import gateway_over, listener_at
from tests.journal.gateway.conftest import HELLO, OPEN, Service

if TYPE_CHECKING:
    from pathlib import Path


def _requests(peer_stamp: m.Stamp) -> list[m.Request]:
    return [
        m.PutRequest(path="a", overwrite=True, stamp=peer_stamp, payload=b"content"),
        m.WriteOpenRequest(path="b", overwrite=True, stamp=peer_stamp),
        m.FileData(offset=0, payload=b"data"),
        m.WriteCommitRequest(size=4),
        m.ReadRequest(path="a", offset=0, length=None, modified_ms=None, epoch_seen=0),
        m.ListRequest(path="", after="", limit=10, epoch_seen=0),
        m.PingRequest(number=1),
    ]


def _answers(data: bytes) -> list[m.Answer]:
    """What came, all of it well formed."""
    splitter = FrameSplitter(frame_bytes_max=limits.FRAME_BYTES_MAX)
    splitter.feed(data)
    answers = []
    while (frame := splitter.next_frame()) is not None:
        answers.append(decode_answer(*frame))
    assert not splitter.midway
    return answers


@pytest.mark.parametrize("seed", range(60))
async def test_changed_bytes_never_do_more_than_end_a_connection(service: Service, seed: int) -> None:
    chance = random.Random(seed)
    peer = service.connect()
    stamp = peer.stamp()
    conversation = bytearray(b"".join(encode(frame) for frame in [HELLO, OPEN, *_requests(stamp)]))
    for _ in range(chance.randrange(1, 4)):
        how, where = chance.randrange(3), chance.randrange(len(conversation))
        if how == 0:
            conversation[where] ^= 1 << chance.randrange(8)
        elif how == 1:
            del conversation[where : where + chance.randrange(1, 20)]
        else:
            conversation[where:where] = chance.randbytes(chance.randrange(1, 20))
    received = bytearray()

    async def collect() -> None:
        async for data in peer.stream:
            received.extend(data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect)
        with contextlib.suppress(trio.BrokenResourceError):
            await peer.stream.send_all(bytes(conversation))
            assert isinstance(peer.stream, trio.StapledStream)
            await peer.stream.send_eof()
        with trio.fail_after(60):
            await peer.ended.wait()
    _answers(bytes(received))
    assert service.gateway.connections == 0
    assert isinstance(await (await service.opened()).ask(m.PingRequest(number=1)), m.PongAnswer)


@pytest.mark.parametrize("seed", range(10))
async def test_noise_is_refused_in_few_bytes(service: Service, seed: int) -> None:
    peer = service.connect()
    with contextlib.suppress(trio.BrokenResourceError):
        await peer.stream.send_all(random.Random(seed).randbytes(100_000))
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    await peer.closed()


async def test_a_greedy_connection_does_not_starve_the_others(nursery: trio.Nursery) -> None:
    """One client asks without a pause; another one's single requests are answered in between."""
    gateway = gateway_over(MemoryVolumes(MemoryVolume()))
    listener = listener_at(Address(host="127.0.0.1", port=0))
    nursery.start_soon(listener.serve, gateway.converse)
    greedy = await trio.open_tcp_stream("127.0.0.1", listener.address.port)
    await greedy.send_all(encode(HELLO) + encode(OPEN))
    stat = encode(m.StatRequest(path="", epoch_seen=0)) * 500
    asked = answered = 0

    async def ask_without_end() -> None:
        nonlocal asked
        while True:
            await greedy.send_all(stat)
            asked += 500

    async def read_without_end() -> None:
        nonlocal answered
        while True:
            answered += len(await greedy.receive_some())

    nursery.start_soon(ask_without_end)
    nursery.start_soon(read_without_end)
    async with open_volume([str(listener.address)], "payments") as modest:
        slowest = 0.0
        for _ in range(50):
            began = trio.current_time()
            await modest.stat("")
            slowest = max(slowest, trio.current_time() - began)
    assert asked > 500
    assert answered > 0
    assert slowest < 1.0
    nursery.cancel_scope.cancel()


async def test_the_same_over_tls(nursery: trio.Nursery, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    gateway = gateway_over(MemoryVolumes(MemoryVolume()))
    listener = Listener(
        Address(host="127.0.0.1", port=0),
        limits=ListenerLimits(connections_max=10, connections_per_peer_max=10, handshake_seconds=5.0),
        tls=ServerTls(TlsFiles(certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")),
        log=EventLog(write=lambda _: None),
        too_many=lambda _: b"",
        not_tls=lambda _: b"",
    )
    nursery.start_soon(listener.serve, gateway.converse)
    data = random.Random(1).randbytes(3_000_000)
    async with open_volume([str(listener.address)], "payments", tls=context) as volume:
        await volume.put("small", b"small", overwrite=False, operation=volume.new_operation())
        write = await volume.open_write("large", overwrite=False, operation=volume.new_operation())
        await write.write(data)
        await write.commit()
        assert (await volume.read_file("large"))[1] == data
        assert (await volume.read_file("small"))[1] == b"small"
    nursery.cancel_scope.cancel()
