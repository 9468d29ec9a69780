"""What connections may make the service hold: one budget, and who takes more than others loses his own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio
import trio.testing

from journal.errors import JournalCode
from journal.gateway.held_memory import HELD_BYTES_MAX, HELD_BYTES_MIN, HeldMemory
from journal.gateway.wire import messages as m
from sos_client.wire.frames import frame_header

if TYPE_CHECKING:
    from tests.journal.gateway.conftest import Peer, Service

KIB = 1024


@dataclass(eq=False)
class _Connection:
    name: str
    given_up: list[str] = field(default_factory=list)

    def give_up_memory(self) -> None:
        self.given_up.append(self.name)


def test_who_holds_most_loses_what_has_not_grown_for_longest() -> None:
    memory, lost = HeldMemory(bytes_max=100 * KIB), list[str]()
    greedy = [_Connection(f"greedy {number}", lost) for number in range(6)]
    modest = _Connection("modest", lost)
    memory.hold(modest, "modest", 30 * KIB)
    for connection in greedy[:4]:
        memory.hold(connection, "greedy", 16 * KIB)
    memory.hold(greedy[0], "greedy", 20 * KIB)
    assert (memory.bytes, lost) == (98 * KIB, [])
    memory.hold(greedy[4], "greedy", 10 * KIB)
    assert (memory.bytes, lost) == (92 * KIB, ["greedy 1"])
    memory.hold(modest, "modest", 40 * KIB)
    assert (memory.bytes, lost) == (86 * KIB, ["greedy 1", "greedy 2"])
    for connection in (*greedy, modest):
        memory.hold(connection, "modest" if connection is modest else "greedy", HELD_BYTES_MIN - 1)
    assert memory.bytes == 0


def _partial(size: int) -> bytes:
    return frame_header(m.FileMessageType.DATA, 2 * KIB * KIB - 1) + bytes(size)


async def _ended(peers: list[Peer]) -> int:
    await trio.testing.wait_all_tasks_blocked()
    return sum(peer.ended.is_set() for peer in peers)


async def test_frames_that_do_not_end_and_silent_uploads_are_given_up(service: Service) -> None:
    count = HELD_BYTES_MAX // (1024 * KIB) + 20
    peers = []
    for number in range(count):
        peer = await service.opened()
        opening = m.WriteOpenRequest(path=f"u/{number}", overwrite=False, stamp=peer.stamp())
        await peer.send(opening, m.FileData(offset=0, payload=bytes(1024 * KIB)))
        peers.append(peer)
    assert 20 <= await _ended(peers) <= 24
    answer = await peers[0].receive()
    assert isinstance(answer, m.RefusalAnswer)
    assert answer.code == JournalCode.LIMIT
    left = [peer for peer in peers if not peer.ended.is_set()]
    for peer in left:
        await peer.stream.send_all(_partial(900 * KIB))
    assert len(left) - await _ended(left) <= HELD_BYTES_MAX // (1924 * KIB) + 1
    small = await service.opened()
    put = m.PutRequest(path="small", overwrite=False, stamp=small.stamp(), payload=b"x" * 1000)
    assert isinstance(await small.ask(put), m.StatusAnswer)
