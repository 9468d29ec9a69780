"""Time: slow peers, idle peers, long work, orderly ends. On a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.errors import JournalCode
from journal.gateway.gateway import STOP_SECONDS
from journal.gateway.watch import SWEEP_SECONDS
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.limits import WAITING_SECONDS
from tests.fakes.memory_volume import MemoryWrite
from tests.journal.gateway.conftest import HELLO, Peer, Service

if TYPE_CHECKING:
    from journal.volume import Buffer

Clock = trio.testing.MockClock


@pytest.fixture
def watched(service: Service, nursery: trio.Nursery) -> Service:
    nursery.start_soon(service.gateway.run)
    return service


async def _ended_with(peer: Peer, code: JournalCode) -> float:
    began = trio.current_time()
    answer = await peer.receive()
    while isinstance(answer, m.WaitingAnswer):
        answer = await peer.receive()
    assert isinstance(answer, m.RefusalAnswer)
    assert answer.code == code
    await peer.closed()
    return trio.current_time() - began


async def test_no_hello_no_connection(watched: Service, autojump_clock: Clock) -> None:
    peer = watched.connect()
    waited = await _ended_with(peer, JournalCode.TOO_SLOW)
    assert limits.FRAME_SECONDS_MAX <= waited <= limits.FRAME_SECONDS_MAX + 3


async def test_a_hello_a_byte_at_a_time_is_too_slow(
    watched: Service, nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    peer = watched.connect()

    async def trickle() -> None:
        for byte in encode(HELLO):
            await peer.stream.send_all(bytes([byte]))
            await trio.sleep(5)

    nursery.start_soon(trickle)
    assert await _ended_with(peer, JournalCode.TOO_SLOW) <= limits.FRAME_SECONDS_MAX + 3
    nursery.cancel_scope.cancel()


async def test_half_a_frame_is_too_slow(watched: Service, autojump_clock: Clock) -> None:
    peer = await watched.opened()
    await peer.stream.send_all(encode(m.PingRequest(number=1))[:-1])
    assert await _ended_with(peer, JournalCode.TOO_SLOW) <= limits.FRAME_SECONDS_MAX + 3


async def test_idle_connections_are_closed_after_a_long_while(watched: Service, autojump_clock: Clock) -> None:
    peer = await watched.opened()
    await trio.sleep(limits.IDLE_SECONDS_MAX - 10)
    assert isinstance(await peer.ask(m.PingRequest(number=1)), m.PongAnswer)
    assert await _ended_with(peer, JournalCode.TOO_SLOW) >= limits.IDLE_SECONDS_MAX - 3


async def test_a_write_may_pause_for_as_long_as_a_batch(watched: Service, autojump_clock: Clock) -> None:
    peer = await watched.opened()
    await peer.send(
        m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp()), m.FileData(offset=0, payload=b"x")
    )
    await trio.sleep(limits.WRITE_IDLE_SECONDS_MAX - 10)
    assert isinstance(await peer.ask(m.FileData(offset=1, payload=b"y"), m.WriteCommitRequest(size=2)), m.StatusAnswer)


async def test_an_abandoned_write_ends(watched: Service, autojump_clock: Clock) -> None:
    peer = await watched.opened()
    await peer.send(
        m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp()), m.FileData(offset=0, payload=b"x")
    )
    await _ended_with(peer, JournalCode.TOO_SLOW)
    assert watched.volume.tree.keys() == {""}


async def test_long_work_is_announced_until_its_answer(watched: Service, autojump_clock: Clock) -> None:
    async def slowly() -> None:
        await trio.sleep(23)

    watched.volume.before_answer = slowly
    peer = await watched.opened()
    await peer.send(m.PutRequest(path="a", overwrite=False, stamp=peer.stamp(), payload=b""))
    seen: list[m.Answer] = []
    while not isinstance(seen[-1] if seen else None, m.StatusAnswer):
        seen.append(await peer.receive())
    waiting = [answer for answer in seen if isinstance(answer, m.WaitingAnswer)]
    assert 23 / (WAITING_SECONDS + SWEEP_SECONDS) - 1 <= len(waiting) <= 23 / WAITING_SECONDS
    assert all(answer.epoch == 1 for answer in waiting)
    assert [answer.waited_ms for answer in waiting] == sorted(answer.waited_ms for answer in waiting)


async def test_a_streamed_file_that_is_slowly_worked_off_is_announced_all_the_time(
    watched: Service, monkeypatch: pytest.MonkeyPatch, autojump_clock: Clock
) -> None:
    """Its commit has been sent, and waits behind megabytes in the buffers of TCP: each of them is something new."""

    async def slowly(self: MemoryWrite, data: Buffer) -> None:
        await trio.sleep(SWEEP_SECONDS * 1.1)
        await write(self, data)

    write = MemoryWrite.write
    monkeypatch.setattr(MemoryWrite, "write", slowly)
    peer = await watched.opened()
    pieces = [m.FileData(offset=offset, payload=b"x") for offset in range(30)]
    await peer.send(m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp()), *pieces)
    await peer.send(m.WriteCommitRequest(size=len(pieces)))
    assert isinstance(await _answer_without_silence(peer), m.StatusAnswer)


async def test_a_frame_that_comes_slowly_is_announced_as_it_comes(watched: Service, autojump_clock: Clock) -> None:
    """Over a slow line the last of a request is long on its way when its sender already waits for the answer."""
    peer = await watched.opened()
    put = encode(m.PutRequest(path="a", overwrite=False, stamp=peer.stamp(), payload=b"slow"))

    async def trickle() -> None:
        for byte in put:
            await peer.stream.send_all(bytes([byte]))
            await trio.sleep(10 / len(put))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trickle)
        assert isinstance(await _answer_without_silence(peer), m.StatusAnswer)


async def _answer_without_silence(peer: Peer) -> m.Answer:
    """What a client hears that gives the connection up after the silence that the protocol names."""
    while True:
        with trio.fail_after(limits.SILENCE_SECONDS_MAX):
            answer = await peer.receive()
        if not isinstance(answer, m.WaitingAnswer):
            return answer


async def test_nobody_is_told_to_wait_who_waits_for_nothing(watched: Service, autojump_clock: Clock) -> None:
    peer = await watched.opened()
    await trio.sleep(limits.IDLE_SECONDS_MAX / 2)
    assert isinstance(await peer.ask(m.PingRequest(number=1)), m.PongAnswer)
    await peer.send(
        m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp()), m.FileData(offset=0, payload=b"x")
    )
    await trio.sleep(limits.IDLE_SECONDS_MAX / 2)
    assert isinstance(await peer.ask(m.WriteCommitRequest(size=1)), m.StatusAnswer)


async def test_a_peer_that_does_not_read_is_let_go(watched: Service, autojump_clock: Clock) -> None:
    """Its answers fill its buffers; the connection ends, and nobody else notices."""
    from sos_client.net.plain_stream import PlainStream

    del PlainStream
    here, there = trio.testing.lockstep_stream_pair()
    ended = trio.Event()

    async def talk() -> None:
        await watched.gateway.talk(there, peer="deaf")
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(talk)
        await here.send_all(encode(HELLO))
        other = await watched.opened()
        assert isinstance(await other.ask(m.PingRequest(number=1)), m.PongAnswer)
        with trio.fail_after(limits.FRAME_SECONDS_MAX + 5):
            await ended.wait()
    assert watched.gateway.connections == 1


async def test_stop_ends_idle_connections_and_finishes_work(
    watched: Service, nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    async def slowly() -> None:
        await trio.sleep(STOP_SECONDS / 2)

    watched.volume.before_answer = slowly
    idle, busy = await watched.opened(), await watched.opened()
    await busy.send(m.PutRequest(path="a", overwrite=False, stamp=busy.stamp(), payload=b"done"))
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(watched.gateway.stop)
    await _ended_with(idle, JournalCode.SHUTTING_DOWN)
    answers = [await busy.receive()]
    while isinstance(answers[-1], m.WaitingAnswer):
        answers.append(await busy.receive())
    assert isinstance(answers[-1], m.StatusAnswer)
    await _ended_with(busy, JournalCode.SHUTTING_DOWN)
    late = watched.connect()
    await _ended_with(late, JournalCode.SHUTTING_DOWN)


async def test_stop_does_not_wait_for_ever(watched: Service, autojump_clock: Clock) -> None:
    watched.volume.before_answer = trio.sleep_forever
    busy = await watched.opened()
    await busy.send(m.PutRequest(path="a", overwrite=False, stamp=busy.stamp(), payload=b"done"))
    await trio.testing.wait_all_tasks_blocked()
    began = trio.current_time()
    await watched.gateway.stop()
    assert trio.current_time() - began <= STOP_SECONDS + 1
    await busy.ended.wait()
