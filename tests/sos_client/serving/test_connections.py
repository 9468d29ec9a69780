"""Sockets: the plain stream, the listener with its limits and TLS, the pace, the log."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
import trustme
from cryptography.hazmat.primitives import serialization

from sos_client.net.addresses import Address
from sos_client.net.plain_stream import PlainStream
from sos_client.serving.containment import SharedStateError
from sos_client.serving.event_log import EventLog
from sos_client.serving.listener import PRESSED_SECONDS, Accepted, Converse, Listener, ListenerLimits
from sos_client.serving.pace import Pace, PaceLimits
from sos_client.serving.tls import ServerTls, TlsFiles
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

HERE = Address(host="127.0.0.1", port=0)


def silent_log() -> EventLog:
    return EventLog(write=lambda _: None)


def stream_pair() -> tuple[PlainStream, PlainStream]:
    left, right = socket.socketpair()
    return PlainStream(left), PlainStream(right)


async def test_plain_stream_keeps_the_stream_contract() -> None:
    left, right = stream_pair()
    await left.send_all(b"abc")
    assert await right.receive_some(2) == b"ab"
    assert await right.receive_some() == b"c"
    with pytest.raises(ValueError, match="at least 1"):
        await right.receive_some(0)
    await left.aclose()
    assert await right.receive_some() == b""
    with pytest.raises(trio.ClosedResourceError):
        await left.receive_some()
    with pytest.raises(trio.ClosedResourceError):
        await left.send_all(b"x")
    with pytest.raises(trio.BrokenResourceError):
        await right.send_all(b"x")


async def test_a_large_send_waits_for_its_reader() -> None:
    left, right = stream_pair()
    data = bytes(range(256)) * 20_000
    received = bytearray()

    async def receive() -> None:
        while view := await right.receive_view():
            received.extend(view)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await left.send_all(data)
        assert left.bytes_moved == len(data)
        await left.aclose()
    assert received == data


async def test_closing_wakes_the_receiver() -> None:
    left, _right = stream_pair()

    async def receive() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await left.receive_view()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        await left.aclose()


@asynccontextmanager
async def listening(
    converse: Converse,
    *,
    tls: ServerTls | None = None,
    limits: ListenerLimits | None = None,
    log: EventLog | None = None,
) -> AsyncIterator[Listener]:
    listener = Listener(
        HERE,
        limits=limits or ListenerLimits(connections_max=3, connections_per_peer_max=3, handshake_seconds=5),
        tls=tls,
        log=log or silent_log(),
        too_many=lambda what: f"too many {what}".encode(),
        not_tls=lambda reason: reason.encode(),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, converse)
        yield listener
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(300):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.001)


async def echo(accepted: Accepted) -> None:
    while data := await accepted.stream.receive_some():
        await accepted.stream.send_all(data)


async def connect(listener: Listener) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", listener.address.port)


@pytest.mark.parametrize(("in_all", "per_peer", "what"), [(2, 9, "connections"), (9, 2, "connections from one host")])
async def test_connection_limits(in_all: int, per_peer: int, what: str) -> None:
    limits = ListenerLimits(connections_max=in_all, connections_per_peer_max=per_peer, handshake_seconds=5)
    async with listening(echo, limits=limits) as listener:
        first, second = await connect(listener), await connect(listener)
        for stream in (first, second):
            await stream.send_all(b"hello")
            assert await stream.receive_some() == b"hello"
        third = await connect(listener)
        assert await third.receive_some() == f"too many {what}".encode()
        assert await third.receive_some() == b""
        assert listener.refused_connections == 1
        await first.aclose()
        await until(lambda: listener.connections == 1)
        fourth = await connect(listener)
        await fourth.send_all(b"again")
        assert await fourth.receive_some() == b"again"


async def test_an_unforeseen_mistake_ends_one_connection_loudly() -> None:
    async def stumble(accepted: Accepted) -> None:
        if await accepted.stream.receive_some() == b"stumble":
            raise RuntimeError("a mistake of ours")
        await accepted.stream.send_all(b"well")

    lines: list[str] = []
    async with listening(stumble, log=EventLog(write=lines.append)) as listener:
        bystander, stream = await connect(listener), await connect(listener)
        await stream.send_all(b"stumble")
        assert await stream.receive_some() == b""
        await bystander.send_all(b"walk")
        assert await bystander.receive_some() == b"well"
        assert listener.failed_connections == 1
    (line,) = map(json.loads, lines)
    assert (line["level"], line["event"]) == ("error", "connection failed")
    assert "RuntimeError: a mistake of ours" in line["trace"]


async def test_what_all_share_may_be_wrong_ends_all() -> None:
    async def doubt(_: Accepted) -> None:
        raise SharedStateError("nobody knows")

    with pytest.RaisesGroup(pytest.RaisesExc(SharedStateError, match="nobody knows"), flatten_subgroups=True):
        async with listening(doubt) as listener:
            await connect(listener)
            await trio.sleep(60)


async def greeting_echo(accepted: Accepted) -> None:
    while data := await accepted.stream.receive_some():
        accepted.greeted()
        await accepted.stream.send_all(data)


STRANGERS = [
    ListenerLimits(connections_max=3, connections_per_peer_max=9, handshake_seconds=60),
    ListenerLimits(connections_max=9, connections_per_peer_max=3, handshake_seconds=60),
    ListenerLimits(connections_max=9, connections_per_peer_max=9, handshake_seconds=60, strangers_max=2),
    ListenerLimits(connections_max=9, connections_per_peer_max=9, handshake_seconds=60, strangers_per_peer_max=2),
]


@pytest.mark.parametrize("limits", STRANGERS, ids=["all", "all of a host", "strangers", "strangers of a host"])
async def test_strangers_give_way_to_those_who_come_and_never_the_others(limits: ListenerLimits) -> None:
    async with listening(greeting_echo, limits=limits) as listener:
        known = await connect(listener)
        await known.send_all(b"hello")
        assert await known.receive_some() == b"hello"
        silent = [await connect(listener) for _ in range(2)]
        await until(lambda: listener.connections == 3)
        early = await connect(listener)
        assert b"too many" in await early.receive_some(), "the silent ones have not had their time"
        await trio.sleep(PRESSED_SECONDS)
        comes = await connect(listener)
        await comes.send_all(b"hello")
        assert await comes.receive_some() == b"hello"
        assert await silent[0].receive_some() == b"", "the oldest"
        await known.send_all(b"again")
        assert await known.receive_some() == b"again"
        assert listener.connections == 3
        await silent[1].send_all(b"late")
        assert await silent[1].receive_some() == b"late"
    assert listener.connections == 0


async def test_on_a_tls_port_nobody_is_turned_away_in_plain_text(tmp_path: Path) -> None:
    limits = ListenerLimits(connections_max=1, connections_per_peer_max=1, handshake_seconds=5)
    async with listening(echo, tls=ServerTls(tls_files(tmp_path, trustme.CA())), limits=limits) as listener:
        first, second = await connect(listener), await connect(listener)
        assert await second.receive_some() == b""
        assert listener.refused_connections == 1
        await first.aclose()


async def test_stop_lets_conversations_end() -> None:
    async with listening(echo) as listener:
        stream = await connect(listener)
        await stream.send_all(b"1")
        assert await stream.receive_some() == b"1"
        listener.stop()
        await trio.testing.wait_all_tasks_blocked(0.01)
        await stream.send_all(b"2")
        assert await stream.receive_some() == b"2"
        with pytest.raises(OSError, match="connect"):
            await connect(listener)


def tls_files(tmp_path: Path, authority: trustme.CA, *, ask_client: bool = False) -> TlsFiles:
    issued = authority.issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "server.crt")
    issued.private_key_pem.write_to_path(tmp_path / "server.key")
    authority.cert_pem.write_to_path(tmp_path / "authority.crt")
    return TlsFiles(
        certificate=tmp_path / "server.crt",
        key=tmp_path / "server.key",
        client_authority=tmp_path / "authority.crt" if ask_client else None,
    )


def client_context(authority: trustme.CA, *, with_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if with_certificate:
        authority.issue_cert("client@example.org").configure_cert(context)
    return context


async def tls_echo(listener: Listener, context: ssl.SSLContext) -> bytes:
    stream = trio.SSLStream(await connect(listener), context, server_hostname="localhost")
    await stream.send_all(b"secret")
    return bytes(await stream.receive_some())


async def test_tls_and_its_reload(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    tls = ServerTls(tls_files(tmp_path, old))
    async with listening(echo, tls=tls) as listener:
        assert await tls_echo(listener, client_context(old)) == b"secret"
        (tmp_path / "server.key").write_text("no key")
        with pytest.raises(SettingsError, match=r"server\.key"):
            tls.reload()
        assert await tls_echo(listener, client_context(old)) == b"secret"
        tls_files(tmp_path, new)
        tls.reload()
        assert await tls_echo(listener, client_context(new)) == b"secret"
        with pytest.raises(trio.BrokenResourceError):
            await tls_echo(listener, client_context(old))


def test_a_key_with_a_pass_phrase_is_refused_and_nobody_asked_for_it(tmp_path: Path) -> None:
    files = tls_files(tmp_path, trustme.CA())
    key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
    secret = serialization.BestAvailableEncryption(b"secret")
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, secret)
    )
    with pytest.raises(SettingsError, match="the key has a pass phrase"):
        ServerTls(files)


async def test_client_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = ServerTls(tls_files(tmp_path, authority, ask_client=True))
    async with listening(echo, tls=tls) as listener:
        assert await tls_echo(listener, client_context(authority, with_certificate=True)) == b"secret"
        with pytest.raises((trio.BrokenResourceError, ssl.SSLError)):
            await tls_echo(listener, client_context(authority))


async def test_a_plain_peer_on_a_tls_port_is_told_so(tmp_path: Path) -> None:
    async with listening(echo, tls=ServerTls(tls_files(tmp_path, trustme.CA()))) as listener:
        stream = await connect(listener)
        await stream.send_all(b"\x00\x00\x00\x30")
        assert b"speaks TLS" in await stream.receive_some()


async def test_a_silent_peer_on_a_tls_port_is_left(tmp_path: Path) -> None:
    limits = ListenerLimits(connections_max=3, connections_per_peer_max=3, handshake_seconds=0.05)
    async with listening(echo, tls=ServerTls(tls_files(tmp_path, trustme.CA())), limits=limits) as listener:
        stream = await connect(listener)
        with trio.fail_after(300):
            assert await stream.receive_some() == b""


@pytest.mark.parametrize("first_bytes", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half a hello"])
async def test_a_peer_in_the_middle_of_its_handshake_does_not_hold_up_a_stop(
    tmp_path: Path, first_bytes: bytes
) -> None:
    limits = ListenerLimits(connections_max=3, connections_per_peer_max=3, handshake_seconds=3600)
    async with listening(echo, tls=ServerTls(tls_files(tmp_path, trustme.CA())), limits=limits) as listener:
        stream = await connect(listener)
        await stream.send_all(first_bytes)
        await until(lambda: listener.connections == 1)
        listener.stop()
        with trio.fail_after(300):
            assert await stream.receive_some() == b""
        await stream.aclose()
        await until(lambda: listener.connections == 0)


def test_the_pace_asks_only_who_owes() -> None:
    moved = 0
    pace = Pace(PaceLimits(window_seconds=10, bytes_per_second_min=5), lambda: moved)
    assert not pace.too_slow(0, owing=False)
    assert not pace.too_slow(100, owing=False)
    assert not pace.too_slow(101, owing=True)
    moved += 49
    assert not pace.too_slow(110, owing=True)
    assert pace.too_slow(111, owing=True)
    moved += 50
    assert not pace.too_slow(121, owing=True)
    assert not pace.too_slow(122, owing=False)
    assert not pace.too_slow(140, owing=True)
    assert not pace.too_slow(149, owing=True)
    assert pace.too_slow(150, owing=True)
