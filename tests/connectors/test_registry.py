"""Several listeners of one source: each stream at one of them, and none of its messages lost or doubled by a move."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import trio
import trio.lowlevel
import trio.testing

from connectors.ingest.persistent_changes import PAUSE_SECONDS
from connectors.registry import registry_log, stream_registry
from connectors.registry.claims import FIRST_LINE, StreamClaims, check_first_line, free_line, hold_line, join_line
from connectors.registry.registry_log import DIRECTORY, RegistryLog
from connectors.registry.stream_registry import StreamRegistry
from connectors.wire.frames import EosFrame
from journal.errors import JournalCode, JournalError, journal_error
from journal.volume import OperationId
from tests.connectors.house import HELLO, OTHER, accepted, ack, listening, message, notify, refused
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from collections.abc import Iterator


# ── the state ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def claims(*lines: str) -> StreamClaims:
    state = StreamClaims()
    state.apply(lines)
    return state


def test_who_comes_first_has_the_stream() -> None:
    state = claims(join_line("a", 1), join_line("b", 1), hold_line("a", 1, 7), hold_line("b", 1, 7))
    assert state.owners == {7: "a"}
    state.apply([free_line("b", 1, 7, 99), free_line("a", 1, 7, 12), hold_line("b", 1, 7)])
    assert (state.owners, state.points) == ({7: "b"}, {7: 12})
    assert state.streams_of("b") == [7]
    assert state.streams_of("a") == []


def test_who_was_followed_says_nothing_more() -> None:
    state = claims(join_line("a", 1), hold_line("a", 1, 7), join_line("a", 2), join_line("a", 1))
    state.apply([free_line("a", 1, 7, 3), hold_line("a", 1, 8), hold_line("c", 1, 9)])
    assert (state.owners, state.points) == ({7: "a"}, {})
    state.apply([free_line("a", 2, 7, 5)])
    assert (state.owners, state.points) == ({}, {7: 5})


def test_a_point_does_not_go_back() -> None:
    state = claims(join_line("a", 1), hold_line("a", 1, 7), free_line("a", 1, 7, 5), hold_line("a", 1, 7))
    state.apply([free_line("a", 1, 7, -1)])
    assert state.points == {7: 5}


def test_a_snapshot_makes_the_state_again() -> None:
    state = claims(
        join_line("a", 3), join_line("b", 1), hold_line("a", 3, 7), hold_line("b", 1, 8), free_line("b", 1, 8, 4)
    )
    assert claims(*state.snapshot()) == state


@pytest.mark.parametrize("line", ["", "hold a 1", "hold a x 7", "own 1", "full now"])
def test_what_is_no_line_is_damage(line: str) -> None:
    with pytest.raises(JournalError, match="has the line"):
        claims(line)
    with pytest.raises(JournalError, match="after its end"):
        claims("full", "join a 1")


def test_another_version_is_not_read() -> None:
    check_first_line(FIRST_LINE)
    with pytest.raises(JournalError, match="newer"):
        check_first_line("sos-stream-registry 2")


# ── the log ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def operations(client: int) -> Iterator[OperationId]:
    sequence = 0
    while True:
        sequence += 1
        yield OperationId(client=client.to_bytes(16, "big"), sequence=sequence)


def log_of(volume: MemoryVolume, client: int) -> RegistryLog:
    source = operations(client)
    return RegistryLog(volume, lambda: next(source))


async def test_of_two_who_add_at_once_one_reads_first_what_the_other_has_added() -> None:
    volume = MemoryVolume("r")
    first, second = log_of(volume, 1), log_of(volume, 2)
    await first.refresh()
    await second.refresh()
    assert await first.add([join_line("a", 1)])
    assert not await second.add([join_line("b", 1)])
    assert second.claims.epochs == {}
    await second.refresh()
    assert await second.add([join_line("b", 1)])
    await first.refresh()
    assert first.claims == second.claims == claims(join_line("a", 1), join_line("b", 1))


async def test_a_long_file_is_followed_by_another_with_the_same_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_log, "FILE_BLOCKS_MAX", 5)
    volume = MemoryVolume("r")
    first, second = log_of(volume, 1), log_of(volume, 2)
    await first.refresh()
    await second.refresh()
    for epoch in range(1, 30):
        assert await first.add([join_line("a", epoch)])
        if first.long:
            await first.end_file()
            assert not await second.add([join_line("b", epoch)])
            await first.refresh()
            await second.refresh()
            assert second.claims == first.claims
    files = [entry.path for entry in (await volume.list(DIRECTORY)).entries]
    assert 1 <= len(files) <= 2
    assert files[-1] > f"{DIRECTORY}/{3:020d}"
    third = log_of(volume, 3)
    await third.refresh()
    assert third.claims.epochs == {"a": 29}


# ── a listener's part ─────────────────────────────────────────────────────────────────────────────────────────────────


class CutOffVolume(MemoryVolume):
    """Cannot be reached for a while."""

    away = False

    async def list(self, path: str, *, after: str = "", limit: int = 1000):  # type: ignore[no-untyped-def]
        if self.away:
            raise journal_error(JournalCode.UNAVAILABLE, "nobody answers")
        return await super().list(path, after=after, limit=limit)


async def asked(registry: StreamRegistry, stream_id: int) -> int | None:
    told, answer = trio.open_memory_channel[int | None](1)
    registry.hold(stream_id, told.send_nowait)
    with trio.fail_after(300):
        return await answer.receive()


async def test_random_moves_of_three_listeners_keep_streams_apart() -> None:
    """Each has what it was told, and no other; what one gave up with is what the next one begins with."""
    volume, chance = MemoryVolume("r"), random.Random(5)
    points = dict.fromkeys(range(6), -1)
    has: dict[int, int] = {}
    async with trio.open_nursery() as nursery:
        registries = [StreamRegistry(volume, listener=f"v{n}", epoch=1, points={}) for n in range(3)]
        for registry in registries:
            nursery.start_soon(registry.run)

        async def play(n: int) -> None:
            for _ in range(60):
                stream_id = chance.randrange(6)
                if has.get(stream_id) == n:
                    points[stream_id] += chance.randrange(3)
                    del has[stream_id]  # from here on another one may have it
                    registries[n].free(stream_id, points[stream_id])
                else:
                    point = await asked(registries[n], stream_id)
                    if point is not None:
                        assert stream_id not in has
                        assert point == points[stream_id]
                        has[stream_id] = n
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as players:
            for n in range(3):
                players.start_soon(play, n)
        nursery.cancel_scope.cancel()


async def test_who_waits_for_the_registry_is_told(autojump_clock: trio.testing.MockClock) -> None:
    volume = CutOffVolume("r")
    volume.away = True
    registry = StreamRegistry(volume, listener="v", epoch=1, points={})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(registry.run)
        await trio.sleep(10)
        assert registry.waits_for == "the stream registry: nobody answers"
        volume.away = False
        await trio.sleep(PAUSE_SECONDS)
        assert await asked(registry, 1) == -1
        assert (registry.waits_for, registry.held) == ("", 1)
        nursery.cancel_scope.cancel()


async def test_what_waits_for_a_registry_that_is_away_is_bounded(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_registry, "WISHES_BYTES_MAX", 20 * stream_registry.WISH_BYTES)
    volume = CutOffVolume("r")
    registry = StreamRegistry(volume, listener="v", epoch=1, points={})
    told: list[tuple[int, int | None]] = []

    def hold(stream_id: int) -> None:
        registry.hold(stream_id, lambda point: told.append((stream_id, point)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(registry.run)
        assert await asked(registry, 1) == -1
        volume.away = True
        for first in range(100, 1000, 10):  # connections that come, ask and go, with other streams each time
            for stream_id in range(first, first + 10):
                hold(stream_id)
            await trio.sleep(1)
            for stream_id in range(first, first + 10):
                registry.free(stream_id, 5)
        assert registry.waiting <= 10  # those that the log was asked for when it went away
        registry.free(1, 7)
        registry.free(1, 8)
        hold(1)
        told.clear()
        for stream_id in range(2000, 2050):
            hold(stream_id)
        assert registry.waiting <= 30
        assert told == [(stream_id, None) for stream_id in range(2019, 2050)]
        told.clear()
        volume.away = False
        await trio.sleep(30)
        assert sorted(told) == [(1, 8), *((stream_id, -1) for stream_id in range(2000, 2019))]
        assert (registry.held, registry.waiting) == (20, 0)
        nursery.cancel_scope.cancel()


async def test_an_owner_that_was_followed_ends() -> None:
    volume = MemoryVolume("r")
    async with trio.open_nursery() as nursery:
        old = StreamRegistry(volume, listener="v", epoch=1, points={})
        nursery.start_soon(old.run)
        assert await asked(old, 1) == -1
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        new = StreamRegistry(volume, listener="v", epoch=2, points={1: 17})
        nursery.start_soon(new.run)
        assert await asked(new, 1) == 17  # what the volume has; it was given up when the new one came
        nursery.cancel_scope.cancel()
    late = StreamRegistry(volume, listener="v", epoch=1, points={})
    with pytest.raises(JournalError, match="another owner now"):
        await late.run()


# ── listeners ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_stream_is_open_at_one_of_two_listeners_and_moves_with_its_point() -> None:
    shared = MemoryVolume("r")
    one, two = MemoryVolume("one"), MemoryVolume("two")
    async with listening(one, shared=shared) as first, listening(two, shared=shared) as second:
        here, there = await first.opened(1), await second.opened(hello=OTHER)
        await there.say(notify(1))
        await there.hears(refused())
        await here.say(message(5), message(6), EosFrame(stream_id=1))
        await here.hears(ack(0, (1, 6)), ack(2, (1, 6)))
        await there.hears(ack(1))  # the credit of the refused one
        await there.say(notify(1))
        await there.hears(accepted(1, 6), ack(1, (1, 6)))
        await there.say(message(6), message(7))
        await there.hears(ack(2, (1, 7)))
        assert await first.rows() == [(0, 1, 5, b"x"), (1, 1, 6, b"x")]
        assert await second.rows() == [(0, 1, 7, b"x")]
        await there.stream.aclose()  # without an end: it is lost
        await trio.testing.wait_all_tasks_blocked(0.05)
        await here.say(notify(1))
        await here.hears(accepted(1, 7), ack(1, (1, 7)))
    async with listening(one, shared=shared) as first:  # what came elsewhere is in its own volume, too
        assert first.sources.ingest is not None
        assert first.sources.ingest.durable.points == {1: 7}


async def test_streams_of_a_listener_that_died_are_free_when_its_volume_has_an_owner() -> None:
    shared = MemoryVolume("r")
    one, two = MemoryVolume("one"), MemoryVolume("two")
    async with listening(two, shared=shared) as second:
        there = await second.opened(hello=OTHER)
        async with listening(one, shared=shared) as first:
            here = await first.opened(1)
            await here.say(message(5))
            await here.hears(ack(1, (1, 5)))
        await there.say(notify(1))
        await there.hears(refused(), ack(1))
        one.epoch += 1
        async with listening(one, shared=shared) as first:
            await first.opened(2)  # so it has joined
            await there.say(notify(1))
            await there.hears(accepted(1, 5))


async def test_the_same_instance_takes_its_streams_with_it_within_a_listener() -> None:
    shared = MemoryVolume("r")
    async with listening(MemoryVolume("one"), shared=shared) as first:
        lost = await first.opened(1, 2)
        await lost.say(message(4))
        await lost.hears(ack(1, (1, 4)))
        again = await first.opened(hello=HELLO)
        await again.say(notify(1))
        await again.hears(accepted(1, 4), ack(1))
        await trio.testing.wait_all_tasks_blocked(0.05)
        log = log_of(shared, 9)
        await log.refresh()
        assert log.claims.owners == {1: "one"}  # the other one of the lost connection is free
