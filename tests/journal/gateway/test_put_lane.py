"""PUTs on a real socket, which are served in callbacks, between everything else that a client may ask there."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, NoReturn

import pytest
import trio
import trio.testing

from journal.errors import JournalCode, journal_error
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.encoding import encode
from sos_client.net.plain_stream import PlainStream
from sos_client.serving.access import Right, append_token, new_token
from sos_client.serving.containment import SharedStateError
from sos_client.wire.errors import MisuseError
from tests.journal.gateway.conftest import HELLO, INSTANCE, OPEN, Peer, Room, Service

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def opened(service: Service, nursery: trio.Nursery, *greeting: m.Request) -> Peer:
    """A connection over a pair of sockets, on which the greeting has been answered."""
    nursery.start_soon(service.gateway.run)
    await trio.testing.wait_all_tasks_blocked()
    here, there = socket.socketpair()
    ended = trio.Event()

    async def talk() -> None:
        stream = PlainStream(there)
        await service.gateway.talk(stream, peer="socket")
        stream.close()
        ended.set()

    nursery.start_soon(talk)
    peer = Peer(trio.SocketStream(trio.socket.from_stdlib_socket(here)), ended)
    for request in greeting or (HELLO, OPEN):
        assert isinstance(await peer.ask(request), m.WelcomeAnswer | m.OpenedAnswer)
    return peer


def hold(service: Service) -> list[Callable[[], None]]:
    """From now on PUTs are answered when the test calls what comes into this list."""
    service.volume.held = []
    return service.volume.held


def put(
    peer: Peer, path: str, payload: bytes = b"content", *, overwrite: bool = False, epoch_seen: int = 0
) -> m.PutRequest:
    return m.PutRequest(path=path, overwrite=overwrite, stamp=peer.stamp(epoch_seen=epoch_seen), payload=payload)


async def test_puts_are_answered_and_refused(service: Service, nursery: trio.Nursery) -> None:
    peer = await opened(service, nursery)
    request = put(peer, "q/1")
    first = await peer.ask(request)
    assert isinstance(first, m.StatusAnswer)
    assert (first.status.path, first.status.size) == ("q/1", 7)
    assert await peer.ask(request) == first
    assert service.volume.runs == 1
    assert (await peer.refused(put(peer, "q/1"))).code == JournalCode.ALREADY_EXISTS
    assert (await peer.refused(put(peer, "q/1", epoch_seen=9))).code == JournalCode.NOT_OWNER
    assert (await peer.refused(put(peer, "q//1"))).code == JournalCode.BAD_PATH
    assert service.metrics.refusals[JournalCode.ALREADY_EXISTS] == 1
    assert sum(service.metrics.seconds[m.FileMessageType.PUT].counts) >= 5


async def test_a_put_that_finds_no_room_among_the_answers_is_not_begun(service: Service, nursery: trio.Nursery) -> None:
    peer = await opened(service, nursery)
    request, room = put(peer, "q/1"), Room()
    service.volume.admit = room.admit
    room.crowded = True
    assert (await peer.refused(request)).code == JournalCode.UNAVAILABLE
    assert service.volume.runs == 0
    room.crowded = False
    assert isinstance(await peer.ask(request), m.StatusAnswer)
    assert room.admitted == {INSTANCE: b""}, "without tokens all are of one owner"


async def test_requests_that_come_together_are_answered_in_order(service: Service, nursery: trio.Nursery) -> None:
    peer = await opened(service, nursery)
    first, second = put(peer, "a", b"1"), put(peer, "b", b"22")
    stat = m.StatRequest(path="a", epoch_seen=0)
    await peer.send(first, stat, second, first, m.PingRequest(number=7), second)
    answers = [await peer.receive() for _ in range(6)]
    sizes = [answer.status.size if isinstance(answer, m.StatusAnswer) else answer for answer in answers]
    assert sizes[:4] == [1, 1, 2, 1]
    assert isinstance(sizes[4], m.PongAnswer)
    assert sizes[5] == 2


async def test_requests_behind_one_that_waits_are_answered_after_it(service: Service, nursery: trio.Nursery) -> None:
    held = hold(service)
    peer = await opened(service, nursery)
    await peer.send(put(peer, "a", b"1"), put(peer, "b", b"22"))
    await peer.send(put(peer, "c", b"333"))
    for size in (1, 2, 3):
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(held) == 1
        held.pop()()
        answer = await peer.receive()
        assert isinstance(answer, m.StatusAnswer)
        assert answer.status.size == size


async def test_a_large_put_comes_in_pieces(service: Service, nursery: trio.Nursery) -> None:
    peer = await opened(service, nursery)
    payload = bytes(range(256)) * 4096
    answer = await peer.ask(put(peer, "large", payload))
    assert isinstance(answer, m.StatusAnswer)
    assert answer.status.size == limits.PIECE_BYTES_MAX
    assert service.volume.tree["large"].content == payload


async def test_a_streamed_write_between_puts(service: Service, nursery: trio.Nursery) -> None:
    peer = await opened(service, nursery)
    assert isinstance(await peer.ask(put(peer, "a")), m.StatusAnswer)
    await peer.send(
        m.WriteOpenRequest(path="large", overwrite=False, stamp=peer.stamp()),
        m.FileData(offset=0, payload=b"x" * 100_000),
        m.WriteCommitRequest(size=100_000),
        put(peer, "b", b"after"),
    )
    for size in (100_000, 5):
        answer = await peer.receive()
        assert isinstance(answer, m.StatusAnswer)
        assert answer.status.size == size


async def test_changed_bytes_end_the_connection(service: Service, nursery: trio.Nursery) -> None:
    peer = await opened(service, nursery)
    frame = bytearray(encode(put(peer, "a")))
    frame[-1] ^= 1
    await peer.stream.send_all(frame)
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert refusal.code == JournalCode.PROTOCOL
    await peer.closed()
    assert "a" not in service.volume.tree


async def test_a_put_before_open_is_refused(service: Service, nursery: trio.Nursery) -> None:
    peer = await opened(service, nursery, HELLO)
    assert (await peer.refused(put(peer, "a"))).code == JournalCode.BAD_REQUEST


async def test_a_token_that_may_only_read(nursery: trio.Nursery, tmp_path: Path) -> None:
    text, grant = new_token(name="reader", namespaces=("*",), rights=frozenset({Right.READ}), expires=None)
    append_token(tmp_path / "tokens", grant)
    service = Service(nursery, tmp_path / "tokens")
    hello = m.HelloRequest(version=1, token=bytes.fromhex(text), client="test", instance=HELLO.instance)
    peer = await opened(service, nursery, hello, OPEN)
    assert (await peer.refused(put(peer, "a"))).code == JournalCode.DENIED
    assert sum("denied" in line for line in service.lines) == 1


async def test_the_service_stops_while_a_put_waits(service: Service, nursery: trio.Nursery) -> None:
    held = hold(service)
    peer = await opened(service, nursery)
    await peer.send(put(peer, "a"))
    await trio.testing.wait_all_tasks_blocked(0.01)
    nursery.start_soon(service.gateway.stop)
    await trio.testing.wait_all_tasks_blocked(0.01)
    held.pop()()
    assert isinstance(await peer.receive(), m.StatusAnswer)
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert refusal.code == JournalCode.SHUTTING_DOWN
    await peer.closed()


async def test_a_late_answer_for_a_connection_that_is_gone(service: Service, nursery: trio.Nursery) -> None:
    held = hold(service)
    peer = await opened(service, nursery)
    await peer.send(put(peer, "a"))
    await trio.testing.wait_all_tasks_blocked(0.01)
    (session,) = service.gateway._sessions
    session.give_up(None)
    await peer.ended.wait()
    held.pop()()
    assert service.volume.runs == 1


async def test_a_peer_that_leaves_while_its_put_waits(service: Service, nursery: trio.Nursery) -> None:
    held = hold(service)
    peer = await opened(service, nursery)
    await peer.send(put(peer, "a"))
    await trio.testing.wait_all_tasks_blocked(0.01)
    await peer.stream.aclose()
    await trio.testing.wait_all_tasks_blocked(0.01)
    held.pop()()
    with trio.fail_after(60):
        await peer.ended.wait()


async def test_an_error_instead_of_the_answer(service: Service, nursery: trio.Nursery) -> None:
    held = hold(service)
    peer = await opened(service, nursery)
    request = put(peer, "a")
    await peer.send(request)
    await trio.testing.wait_all_tasks_blocked(0.01)
    service.volume.answers.outcomes[request.stamp.operation] = journal_error(JournalCode.OUTCOME_UNKNOWN, "who knows")
    held.pop()()
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert refusal.code == JournalCode.OUTCOME_UNKNOWN


async def test_it_is_said_that_a_put_is_still_worked_on(service: Service, nursery: trio.Nursery) -> None:
    held = hold(service)
    peer = await opened(service, nursery)
    await peer.send(put(peer, "a"))
    await trio.testing.wait_all_tasks_blocked(0.01)
    (session,) = service.gateway._sessions
    await session.say_waiting(5.0)
    assert await peer.receive() == m.WaitingAnswer(epoch=1, waited_ms=5000)
    held.pop()()
    assert isinstance(await peer.receive(), m.StatusAnswer)


async def test_an_unforeseen_mistake_in_an_answer_is_this_sessions(service: Service, nursery: trio.Nursery) -> None:
    bystander = await opened(service, nursery)
    held = hold(service)
    here, there = socket.socketpair()
    peer = Peer(trio.SocketStream(trio.socket.from_stdlib_socket(here)), trio.Event())

    async def talk() -> None:
        with pytest.raises(MisuseError):
            await service.gateway.talk(PlainStream(there), peer="socket")
        peer.ended.set()

    nursery.start_soon(talk)
    for request in (HELLO, OPEN):
        assert isinstance(await peer.ask(request), m.WelcomeAnswer | m.OpenedAnswer)
    epoch, service.volume.epoch = service.volume.epoch, 1 << 70  # which no STATUS can carry
    await peer.send(put(peer, "a"))
    await trio.testing.wait_all_tasks_blocked(0.01)
    service.volume.epoch = epoch
    held.pop()()
    await peer.ended.wait()
    assert isinstance(await bystander.ask(m.PingRequest(number=1)), m.PongAnswer)


@pytest.mark.parametrize(("kind", "first"), [("put", "the end"), ("mkdirs", "the end"), ("mkdirs", "the frame")])
async def test_what_comes_in_the_moment_in_which_a_session_ends_is_not_begun(
    service: Service, nursery: trio.Nursery, kind: str, first: str
) -> None:
    """Its peer is told that it ended, and nothing else: then nothing may be done, as what is told says."""
    peer = await opened(service, nursery)
    (session,) = service.gateway._sessions
    assert session._lane is not None
    request = put(peer, "a") if kind == "put" else m.MkdirsRequest(path="a", stamp=peer.stamp())
    assert isinstance(peer.stream, trio.SocketStream)
    os.write(peer.stream.socket.fileno(), encode(request))
    if first == "the frame":  # a PUT would be worked on then
        session._lane._on_readable()
    session.give_up(journal_error(JournalCode.AUTH, "no longer"))
    session._lane._on_readable()
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert refusal.code == JournalCode.AUTH
    assert service.volume.runs == 0


async def test_a_mistake_in_a_change_of_the_volume_ends_all(service: Service) -> None:
    why = pytest.RaisesExc(SharedStateError, match="PUT was worked on.*a mistake of ours")
    with pytest.RaisesGroup(why, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            peer = await opened(service, nursery)
            service.volume.put_soon = raises  # type: ignore[method-assign]
            await peer.send(put(peer, "a"))
            await trio.sleep(60)


def raises(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("a mistake of ours")
