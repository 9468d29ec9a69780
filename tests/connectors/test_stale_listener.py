"""A listener whose volume another one has taken over, and that does not know it yet, answers nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from connectors.ingest.ingest_log import IngestLog
from connectors.wire.frames import OkFrame
from journal.errors import JournalCode, UnavailableError
from tests.connectors.house import HELLO, accepted, ack, listening, message, notify
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    import pytest
    from trio.testing import MockClock


async def test_where_a_stream_is_is_told_by_who_can_still_write(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(MemoryVolume("v")) as house:
        peer = await house.opened(1)
        await peer.say(message(10))
        await peer.hears(ack(1, (1, 10)))

        async def cut_off(*_: object, **__: object) -> None:
            raise UnavailableError(JournalCode.UNAVAILABLE, "too few members answer")

        with monkeypatch.context() as away:
            away.setattr(house.volume, "append", cut_off)
            other = await house.connect(HELLO)
            await other.hears(OkFrame(initial_credits=house.sources.settings.credits))
            await other.say(notify(1))
            with trio.move_on_after(20):
                while True:
                    assert await other.next() == ack(0)  # a sign of life
        while (answer := await other.next()) == ack(0):
            pass
        assert answer == accepted(1, 10)
        ingest = house.sources.ingest
        assert isinstance(ingest, IngestLog)
        assert ingest.next_sequence == 1
