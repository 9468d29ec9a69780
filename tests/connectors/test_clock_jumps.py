"""A clock that somebody sets forward makes no message old: what was just received is kept as long as was said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from connectors.ingest import ingest_log, places
from connectors.ingest.ingest_log import IngestLog
from connectors.ingest.persistent_changes import PersistentChanges
from connectors.ingest.reader_position import reader_text
from connectors.ingest.retention import MessageRetention
from connectors.listener.upkeep import Upkeep
from connectors.wire.codec import encode
from connectors.wire.frames import MessageFrame, NotifyFrame
from sos_client.serving.event_log import EventLog
from tests.journal.cluster import create, memory_cluster, open_on, wall_clock

if TYPE_CHECKING:
    import pytest
    from trio.testing import MockClock

    from connectors.ingest.intake import IntakeShare


class Nobody:
    """Who sent, and does not want to know more."""

    def durable(self, share: IntakeShare) -> None:
        pass


async def test_a_jump_of_the_wall_clock_deletes_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_log, "LOG_FILE_BLOCKS_MAX", 2)
    ahead_seconds = 0.0

    def clock() -> float:
        return wall_clock() + ahead_seconds

    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers, wall_clock=clock) as journal, trio.open_nursery() as nursery:
            log = IngestLog(journal, wall_ms=lambda: int(clock() * 1000))
            await log.open()
            nursery.start_soon(log.run)
            for number in range(10):
                if number == 0:
                    log.accepted.introduce(1, "s")
                    log.intake.share_of(Nobody()).introduced[1] = "s"
                    log.intake.add(encode(NotifyFrame(stream_id=1, stream_name="s", point_of_reference=0)), rows=0)
                log.intake.share_of(Nobody()).points[1] = number
                log.intake.add(encode(MessageFrame(1, number, 0, b"", b"x")), rows=1)
                log.wake()
                await log.settled()
            operation = PersistentChanges().next_operation()
            await journal.put(places.reader_file("q"), reader_text(10), operation=operation)
            retention = MessageRetention(seconds=60)
            quiet = EventLog(write=lambda _: None)
            upkeep = Upkeep(journal, log, retention, now_ms=journal.now_ms, log=quiet, drain=lambda _: None)
            before = len(log.files)
            assert before > 3
            ahead_seconds = 30 * 86_400.0
            await trio.sleep(20)
            await upkeep.look()
            assert len(log.files) == before
            ahead_seconds = 0.0
            await trio.sleep(120)
            await upkeep.look()
            assert len(log.files) < before
            nursery.cancel_scope.cancel()
