"""Space: what Spark writes and deletes is forgotten after retention, on every member, without losing what is live."""

from __future__ import annotations

import dataclasses
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio

from journal.copies.volume_reader import open_reader
from journal.errors import JournalCode, JournalError, RefusedByVolumeError
from journal.image.image import PINS_MAX
from journal.kept_past import Retention
from journal.owner.housekeeping import Housekeeping
from journal.owner.opening import open_journal
from journal.records.moments import AtLsn, AtTime
from journal.records.record import Lsn
from journal.records.settings import JournalSettings
from journal.takeover.volume_creation import create_volume
from journal.volume import PathClaim
from sos_client.serving.event_log import EventLog
from tests.journal.cluster import (
    VOLUME,
    MemoryCluster,
    addresses,
    content,
    create,
    memory_cluster,
    new_disk,
    open_on,
    surroundings,
    wall_clock,
)

if TYPE_CHECKING:
    from trio.testing import MockClock

    from journal.owner.journal import Journal

RETAINED = 3 << 20
SETTINGS = JournalSettings(segment_bytes_max=256 << 10, retention=Retention(bytes=RETAINED))


def _tomorrow() -> float:
    return wall_clock() + 86_400


def stored_bytes(servers: MemoryCluster, name: str) -> int:
    return sum(len(stored.content) for stored in servers.objects(name).values())


@pytest.mark.slow
async def test_space_is_bounded_under_sparks_pattern(autojump_clock: MockClock) -> None:
    """Batches are written and purged after 100; state files live long; a few files live for ever."""
    async with memory_cluster("abc") as servers:
        await create(servers)
        chance, live = random.Random(7), {}
        async with open_on(servers, disk=new_disk(), settings=SETTINGS) as journal:
            for batch in range(10_000):
                for kind in ("offsets", "commits"):
                    live[f"{kind}/{batch}"] = chance.randbytes(700)
                live[f"state/{batch % 40}"] = chance.randbytes(3000)
                if batch % 300 == 0:
                    live[f"metadata/{batch}"] = chance.randbytes(500)
                for path in (f"offsets/{batch}", f"commits/{batch}", f"state/{batch % 40}"):
                    await journal.put(path, live[path], overwrite=True)
                if batch % 300 == 0:
                    await journal.put(f"metadata/{batch}", live[f"metadata/{batch}"])
                if batch >= 100:
                    for kind in ("offsets", "commits"):
                        assert await journal.delete(f"{kind}/{batch - 100}")
                        del live[f"{kind}/{batch - 100}"]
                await trio.sleep(1)  # Spark's trigger: old answers are forgotten as time goes by
                if batch % 100 == 99:
                    allowed = 2 * (sum(map(len, live.values())) + RETAINED)
                    assert all(stored_bytes(servers, name) <= allowed for name in "abc"), f"after batch {batch}"
            assert journal.log.progress.trim > 0
            for path, data in live.items():
                assert await content(journal, path) == data
        # What is left is enough for somebody who has nothing.
        async with open_on(servers, disk=new_disk(2), settings=SETTINGS) as journal:
            for path, data in live.items():
                assert await content(journal, path) == data


async def test_a_member_that_was_away_while_the_log_was_trimmed_comes_back(autojump_clock: MockClock) -> None:
    async with memory_cluster("abc") as servers:
        await create(servers)
        async with open_on(servers, settings=SETTINGS) as journal:
            await journal.put("keep", b"for ever")
            await servers.down("c")
            for number in range(1000):
                await journal.put("state", bytes(10_000) + bytes([number % 256]), overwrite=True)
                await trio.sleep(1)
            assert journal.log.progress.trim > 0
            await servers.up("c")
            await trio.sleep(20)
            assert [status.problem for status in journal.replicas.status()] == [None, None, None]
            assert all(status.standing.value == "in sync" for status in journal.replicas.status())
            await servers.down("a")
            await journal.put("last", b"words")
        await servers.up("a")
        await servers.down("b")
        async with open_on(servers, settings=SETTINGS) as journal:
            assert await content(journal, "keep") == b"for ever"
            assert await content(journal, "last") == b"words"


async def test_a_pin_keeps_the_past_until_it_is_released(autojump_clock: MockClock) -> None:
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers, settings=SETTINGS) as journal:

            async def overwrite(count: int) -> None:
                for number in range(count):
                    await journal.put("state", bytes(10_000) + bytes([number % 256]), overwrite=True)
                    await trio.sleep(1)

            await journal.put("first", b"1")
            lsn = journal.acknowledged_lsn
            await journal.pin("fork", lsn=lsn, seconds=3600)
            await overwrite(900)
            assert journal.log.progress.trim <= lsn
            await journal.pin("fork", lsn=lsn, seconds=0)
            for _ in range(20):
                await overwrite(50)
            assert journal.log.progress.trim > lsn
            with pytest.raises(JournalError) as caught:
                await journal.pin("fork", lsn=lsn, seconds=1)
            assert caught.value.code is JournalCode.OUT_OF_RETENTION


@pytest.mark.parametrize("step", ["_resolved", "_delete_on", "_relocate"])
async def test_a_pin_that_comes_while_the_past_is_cleaned_away(
    step: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, or what it keeps stays readable: whatever retention had decided before."""
    original, moments, answers = getattr(Housekeeping, step), dict[int, bytes](), list[int | None]()

    async with memory_cluster("abc") as servers:
        await create(servers)
        async with open_on(servers, settings=SETTINGS) as journal:

            async def pin_meanwhile(*arguments: Any) -> Any:
                if journal.log.progress.trim and not answers:
                    reader = await open_reader(VOLUME, journal.replicas.sources())
                    oldest = min(lsn for lsn in moments if lsn >= reader.oldest_lsn)
                    answers.append(None)
                    with suppress(RefusedByVolumeError):
                        await journal.pin("fork", lsn=oldest, seconds=3600)
                        answers[0] = oldest
                return await original(*arguments)

            monkeypatch.setattr(Housekeeping, step, pin_meanwhile)
            for number in range(900):
                await journal.put("state", data := bytes(10_000) + bytes([number % 256]), overwrite=True)
                moments[journal.acknowledged_lsn] = data
                await trio.sleep(1)
            (pinned,) = answers
            assert pinned is not None or step == "_delete_on"
            if pinned is not None:
                reader = await open_reader(VOLUME, journal.replicas.sources())
                image = await reader.image(AtLsn(lsn=Lsn(pinned)))
                assert b"".join([piece async for piece in reader.read_file(image, "state")]) == moments[pinned]


async def test_time_alone_lets_the_past_go(autojump_clock: MockClock) -> None:
    settings = JournalSettings(retention=Retention(seconds=600))
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers, settings=settings) as journal:
            for number in range(100):
                await journal.put("state", bytes([number]) * 1000, overwrite=True)
                await trio.sleep(60)
            assert journal.log.end - journal.log.progress.trim < 60_000
            assert await content(journal, "state") == bytes([99]) * 1000


async def test_what_was_deleted_last_goes_although_nothing_is_written_after_it(autojump_clock: MockClock) -> None:
    """So that a volume can be cleared whose members are full: nobody can write much there."""
    settings = JournalSettings(segment_bytes_max=64 << 10, retention=Retention(seconds=600))
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=settings) as journal:
            await journal.put("kept", b"1")
            for number in range(50):
                await journal.put(f"big/{number}", bytes([number]) * 10_000)
            assert stored_bytes(servers, "a") > 500_000
            await journal.delete("big", recursive=True)
            await trio.sleep(1200)
            assert stored_bytes(servers, "a") < 100_000
            await trio.sleep(20_000)
            assert stored_bytes(servers, "a") < 100_000
            assert len(journal.log.links) < 100  # of 130 that were begun
            assert await content(journal, "kept") == b"1"


async def test_retention_goes_on_however_often_owners_change(autojump_clock: MockClock) -> None:
    """No owner lives as long as the past is kept."""
    settings = JournalSettings(segment_bytes_max=32 << 10, retention=Retention(seconds=3600))
    async with memory_cluster() as servers:
        await create(servers)
        for generation in range(20):
            async with open_on(servers, settings=settings) as journal:
                for number in range(60):
                    await journal.put("state", bytes([generation, number]) * 2000, overwrite=True)
                    await trio.sleep(10)
        async with open_on(servers, settings=settings) as journal:
            assert journal.log.progress.trim > 0
            assert stored_bytes(servers, "a") < 16 * 60 * 4000  # of 20 owners' writes
            assert await content(journal, "state") == bytes([19, 59]) * 2000


async def test_a_clock_that_jumps_makes_nothing_old(autojump_clock: MockClock) -> None:
    """Not while one owner serves, not between two of them; and times of files are right when the clock is."""
    settings = JournalSettings(segment_bytes_max=64 << 10, retention=Retention(seconds=7 * 86_400))
    ahead = 0.0

    def clock() -> float:
        return wall_clock() + ahead

    async with memory_cluster() as servers:
        await create(servers)

        async def overwrite(journal: Journal, count: int) -> None:
            for number in range(count):
                await journal.put("state", bytes(10_000) + bytes([number]), overwrite=True)
                await trio.sleep(1)

        async with open_on(servers, settings=settings, wall_clock=clock) as journal:
            await journal.put("first", b"1")
            moment = journal.acknowledged_lsn
            await overwrite(journal, 50)
            pinned = journal.acknowledged_lsn
            await journal.pin("fork", lsn=pinned, seconds=3600)
            ahead = 30 * 86_400.0
            await overwrite(journal, 100)
            ahead = 0.0
            await overwrite(journal, 100)
            status = await journal.put("now", b"")
            assert abs(status.modified_ms - 1000 * wall_clock()) < 10_000
            assert journal.log.progress.trim == 0
        ahead = 30 * 86_400.0
        async with open_on(servers, settings=settings, wall_clock=clock) as journal:
            await overwrite(journal, 100)
            assert "fork" in journal.pending.pins
            assert journal.log.progress.trim == 0
        ahead = 0.0
        async with open_on(servers, settings=settings, wall_clock=clock) as journal:
            await overwrite(journal, 100)
            assert journal.log.progress.trim == 0
            reader = await open_reader(VOLUME, journal.replicas.sources())
            image = await reader.image(AtLsn(lsn=Lsn(moment)))
            assert b"".join([piece async for piece in reader.read_file(image, "first")]) == b"1"


async def test_a_machine_that_has_slept_gives_right_times_at_once(autojump_clock: MockClock) -> None:
    """Nobody has to start the service again; what the volume keeps by age or by a pin has not aged meanwhile."""
    settings = JournalSettings(segment_bytes_max=64 << 10, retention=Retention(seconds=3600))
    slept = 0.0

    def clock() -> float:
        return wall_clock() + slept

    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=settings, wall_clock=clock, asleep_clock=lambda: slept) as journal:
            await journal.put("first", b"1")
            moment = journal.acknowledged_lsn
            await journal.pin("fork", lsn=moment, seconds=600)
            slept = 8 * 3600.0
            await journal.claim("q", PathClaim(start_time=int(1000 * clock()), application="began after the sleep"))
            status = await journal.put("second", b"2")
            assert abs(status.modified_ms - 1000 * clock()) < 1000
            await journal.pin("another", lsn=moment, seconds=60)
            assert set(journal.pending.pins) == {"fork", "another"}
            for number in range(60):
                await journal.put("state", bytes(10_000) + bytes([number]), overwrite=True)
                await trio.sleep(5)
            assert journal.log.progress.trim == 0
            reader = await open_reader(VOLUME, journal.replicas.sources())
            image = await reader.image(AtTime(time_ms=int(1000 * (clock() - 3600))))
            assert image.tree.find("first") is not None
            assert image.tree.find("second") is None


async def test_a_clock_that_was_set_right_is_followed_within_twice_the_difference(autojump_clock: MockClock) -> None:
    """It was an hour behind when the service began, as of a machine whose clock is set only when it has a network."""
    settings = JournalSettings(retention=Retention(seconds=7 * 86_400))
    behind = 3600.0

    def clock() -> float:
        return wall_clock() - behind

    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers, settings=settings, wall_clock=clock) as journal:
            await journal.put("state", b"1")
            behind = 0.0
            for _ in range(2 * 60 + 10):
                status = await journal.put("state", b"2", overwrite=True)
                await trio.sleep(60)
            assert abs(status.modified_ms + 60_000 - 1000 * wall_clock()) < 1000


@pytest.mark.parametrize("right", ["abc", "bc"])
async def test_an_owner_that_begins_with_a_clock_ahead_of_most_servers_gives_right_times(
    right: str, autojump_clock: MockClock
) -> None:
    """A volume that is created so has right times from the beginning, too. The owner says what it has seen."""
    lines: list[str] = []
    async with memory_cluster() as servers:
        servers.set_clocks(_tomorrow)
        for name in right:
            servers.servers[name].service.wall_clock = wall_clock
        around = surroundings(servers, "service", wall_clock=_tomorrow)
        around = dataclasses.replace(around, log=EventLog(write=lines.append))
        await create_volume(VOLUME, addresses(servers), surroundings=around)
        async with open_journal(VOLUME, servers=addresses(servers), surroundings=around) as journal:
            await trio.sleep(60)
            status = await journal.put("now", b"")
            assert abs(status.modified_ms - 1000 * wall_clock()) < 60_000
        assert sum("clock is ahead of most servers'" in line for line in lines) == 1
        async with open_on(servers) as journal:
            await trio.sleep(60)
            status = await journal.put("now", b"", overwrite=True)
            assert abs(status.modified_ms - 1000 * wall_clock()) < 60_000


async def test_nothing_is_older_than_it_is_while_times_are_ahead(autojump_clock: MockClock) -> None:
    """Times stand nearly still then, and ages are not told from them."""
    settings = JournalSettings(segment_bytes_max=64 << 10, retention=Retention(seconds=3600))
    async with memory_cluster("a") as servers:
        await create(servers)
        servers.set_clocks(_tomorrow)
        async with open_on(servers, wall_clock=_tomorrow) as journal:
            await journal.put("state", b"from the future")
        servers.set_clocks(wall_clock)
        async with open_on(servers, settings=settings) as journal:
            await journal.put("state", bytes(100), overwrite=True)
            await trio.sleep(800)
            await journal.put("young", bytes(100))
            moment, since = journal.acknowledged_lsn, trio.current_time()
            while trio.current_time() - since < 3500:
                await journal.put("state", bytes(20_000), overwrite=True)
                await trio.sleep(60)
            reader = await open_reader(VOLUME, journal.replicas.sources())
            assert (await reader.image(AtLsn(lsn=Lsn(moment)))).tree.find("young") is not None


@pytest.mark.parametrize("slept", [0.0, 3600.0])
async def test_as_many_pins_as_there_may_be_and_one_more(slept: float, autojump_clock: MockClock) -> None:
    """They end by lived time, of which records' times may be behind: a pin that is taken fits the image as it is."""
    asleep = 0.0
    async with memory_cluster("a") as servers:
        await create(servers)
        servers.set_clocks(_tomorrow)
        async with open_on(servers, wall_clock=_tomorrow) as journal:
            await journal.put("state", b"from the future")
        servers.set_clocks(wall_clock)

        def clock() -> float:
            return wall_clock() + asleep

        async with open_on(servers, wall_clock=clock, asleep_clock=lambda: asleep) as journal:
            for number in range(PINS_MAX):
                await journal.pin(f"pin {number}", lsn=journal.acknowledged_lsn, seconds=100)
            await trio.sleep(150)
            asleep = slept
            with suppress(RefusedByVolumeError):
                await journal.pin("one more", lsn=journal.acknowledged_lsn, seconds=100)
            await journal.put("goes on", b"1")
            await trio.sleep(150)
            await journal.pin("one more", lsn=journal.acknowledged_lsn, seconds=100)
            assert "one more" in journal.pending.pins


async def test_a_volume_ages_while_its_clock_waits_for_the_wall_clock(autojump_clock: MockClock) -> None:
    settings = JournalSettings(retention=Retention(seconds=600))
    async with memory_cluster("a") as servers:
        await create(servers)
        servers.set_clocks(_tomorrow)
        async with open_on(servers, settings=settings, wall_clock=_tomorrow) as journal:
            await journal.put("state", b"from the future", overwrite=True)
        servers.set_clocks(wall_clock)
        async with open_on(servers, settings=settings) as journal:
            for number in range(100):
                await journal.put("state", bytes([number]) * 1000, overwrite=True)
                await trio.sleep(60)
            assert journal.log.progress.trim > 0
            assert journal.log.end - journal.log.progress.trim < 60_000


@pytest.mark.parametrize("owners", [1, 2])
async def test_a_pin_between_the_first_trim_and_its_header(owners: int, autojump_clock: MockClock) -> None:
    """It is not too late: an older moment than the one that the trim rests on stays readable, after a takeover, too."""
    unlimited = JournalSettings(segment_bytes_max=100 << 10)
    limited = JournalSettings(segment_bytes_max=100 << 10, retention=Retention(bytes=1 << 20))
    async with memory_cluster("abc") as servers:
        await create(servers)

        async def overwrite(journal: Journal, count: int) -> None:
            for number in range(count):
                await journal.put("state", bytes([number % 256]) * 10_000, overwrite=True)
                await trio.sleep(1)

        async with open_on(servers, settings=unlimited) as journal:
            await journal.put("old", b"O" * 9000)
            await overwrite(journal, 30)
            for number in range(6):
                await journal.put(f"keep/{number}", b"K" * 10_000)  # what the trim stops at
            await overwrite(journal, 30)
            moment = journal.acknowledged_lsn
            await overwrite(journal, 1)
            await journal.delete("old")
            await overwrite(journal, 200)

        async def pin_and_go_on(journal: Journal) -> None:
            await journal.pin("fork", lsn=moment, seconds=6 * 3600)
            await overwrite(journal, 60)
            reader = await open_reader(VOLUME, journal.replicas.sources())
            image = await reader.image(AtLsn(lsn=Lsn(moment)))
            assert b"".join([piece async for piece in reader.read_file(image, "old")]) == b"O" * 9000

        async with open_on(servers, settings=limited) as journal:
            while not journal.pending.trim:
                await overwrite(journal, 1)
            assert journal.acknowledged.segment is not None
            assert journal.pending.trim <= moment
            assert not journal.acknowledged.segment.trim
            if owners == 1:
                await pin_and_go_on(journal)
        if owners == 2:
            async with open_on(servers, settings=limited) as journal:
                await pin_and_go_on(journal)
