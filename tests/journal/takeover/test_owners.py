"""Owners, quorums and lost members: who may write, what survives, what is said when something is missing."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from journal.copies.copies import DirectoryCopy
from journal.copies.member_filling import Filling
from journal.copies.volume_reader import open_reader
from journal.errors import JournalCode, JournalError, UnavailableError
from journal.image.index_snapshot import parse_snapshot_name
from journal.records.settings import JournalSettings
from journal.volume import PUT_BYTES_MAX, OperationId, PathClaim
from sos_client.wire.errors import RefusedError
from sos_client.wire.holders import shown_holder
from tests.journal.cluster import (
    VOLUME,
    again,
    content,
    create,
    memory_cluster,
    new_disk,
    open_on,
    simulated_cluster,
    surroundings,
)

if TYPE_CHECKING:
    from trio.testing import MockClock

    from journal.records.chain_rules import ChainLink

CLIENT = b"a client process"


def operation(sequence: int) -> OperationId:
    return OperationId(client=CLIENT, sequence=sequence)


async def test_a_newer_owner_ends_the_older_one(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, source="old") as old:
            await old.put("a", b"1")
            async with open_on(servers, source="new") as new:
                assert new.epoch > old.epoch
                with pytest.raises(JournalError) as caught:  # the next owner may have found it
                    await old.put("a", b"2", overwrite=True)
                assert caught.value.code is JournalCode.OUTCOME_UNKNOWN
                with pytest.raises(JournalError) as caught:  # this one was not even written
                    await old.put("a", b"3", overwrite=True)
                assert caught.value.code is JournalCode.NOT_OWNER
                assert caught.value.fields["epoch"] == new.epoch
                assert shown_holder(new.holder).hex() in str(caught.value)
                assert await content(new, "a") == b"1"
                with pytest.raises(JournalError):
                    await old.stat("a")


async def test_who_is_not_the_first_to_take_a_volume_leaves_it_to_who_was(autojump_clock: MockClock) -> None:
    """Two standbys have seen that the owner is gone."""
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, source="gone") as gone:
            seen = gone.epoch
        async with open_on(servers, source="first", unless_above=seen) as first:
            assert first.epoch > seen
            with pytest.raises(JournalError) as caught:
                async with open_on(servers, source="second", unless_above=seen):
                    pass
            assert caught.value.code is JournalCode.NOT_OWNER
            assert caught.value.fields["epoch"] == first.epoch
            await first.put("a", b"1")


async def test_an_idle_owner_learns_that_it_is_none_any_more(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, source="old") as old, open_on(servers, source="new") as new:
            with trio.fail_after(5):
                reason = await old.wait_lost()
            assert str(new.epoch) in str(reason)


async def test_one_stray_fence_does_not_end_a_healthy_owner(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
            async with surroundings(servers, "stray").open_member("c:7400") as client:
                await client.fence("payments", journal.epoch + 5, b"stray" * 3 + b"!")
            await trio.sleep(5)
            await journal.put("b", b"2")
            assert not journal.replicas.stopped.is_set()
        async with open_on(servers) as journal:  # and whoever comes next takes an epoch above the stray one
            assert await content(journal, "b") == b"2"


async def test_an_owner_knows_from_its_members_whether_it_is_one_still(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
            assert await journal.is_still_owned()
            await servers.down("b")
            assert await journal.is_still_owned()
            async with surroundings(servers, "stray").open_member("c:7400") as client:
                await client.fence(VOLUME, journal.epoch + 5, b"s" * 16)
            with trio.fail_after(5):
                assert not await journal.is_still_owned()
            await servers.up("b")
            await trio.sleep(5)
            assert await journal.is_still_owned()
            await servers.down("a")
            with trio.fail_after(5):
                assert not await journal.is_still_owned()


@pytest.mark.parametrize("fence_first", [True, False])
async def test_a_stray_fence_and_a_member_that_comes_back_end_nobody(
    fence_first: bool,  # noqa: FBT001
    autojump_clock: MockClock,
) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")

            async def fence() -> None:
                async with surroundings(servers, "stray").open_member("a:7400") as client:
                    await client.fence(VOLUME, journal.epoch + 1, b"s" * 16)

            if fence_first:
                await fence()
                await trio.sleep(3)
            await servers.down("b")
            await trio.sleep(1)
            if not fence_first:
                await fence()
            await trio.sleep(3)
            await servers.up("b")
            await trio.sleep(60)
            await journal.put("b", b"2")
            assert not journal.replicas.stopped.is_set()


async def test_an_owner_that_was_fenced_somewhere_gives_up_when_too_few_others_follow(
    autojump_clock: MockClock,
) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
            async with surroundings(servers, "stray").open_member("a:7400") as client:
                await client.fence(VOLUME, journal.epoch + 1, b"s" * 16)
            await trio.sleep(3)
            await servers.down("b")
            with trio.fail_after(30):
                reason = await journal.wait_lost()
            assert reason.code is JournalCode.NOT_OWNER
            with pytest.raises(JournalError):
                await journal.put("b", b"2")
        async with open_on(servers) as journal:
            await journal.put("b", b"2")


async def test_claims_that_one_member_was_given_on_and_on_hold_no_takeover_up_for_long(
    autojump_clock: MockClock,
) -> None:
    """Somebody who may fence takes one member as far ahead as it goes: the others can follow, a moment later."""
    async with simulated_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
        async with surroundings(servers, "stray").open_member("a:7400") as client:
            epoch = int(servers.world.wall_clock())
            for step in [*(1 << bits for bits in range(24, -1, -1)), 0, *[1000] * 50]:
                with contextlib.suppress(RefusedError):
                    await client.fence(VOLUME, epoch + step, b"s" * 16)
                    epoch += step
            assert epoch > servers.world.wall_clock()
        with trio.fail_after(10):
            taken_over = False
            while not taken_over:
                with contextlib.suppress(UnavailableError):
                    async with open_on(servers) as journal:
                        assert await content(journal, "a") == b"1"
                        taken_over = journal.epoch > epoch


async def test_nothing_is_written_after_the_end(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by who has just been told that there is room, nor by a streamed file or what is given up."""
    settings = JournalSettings(unacknowledged_bytes_max=1000)
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=settings) as journal:
            writing = await journal.open_write("large")
            await writing.write(bytes(PUT_BYTES_MAX + 1))
            await trio.sleep(1)
            acknowledged, answers = journal.log.acknowledged, list[str]()
            wake = acknowledged.wake

            def wake_and_stop() -> None:
                wake()
                acknowledged.stop(journal.replicas.why_stopped)

            async def put(path: str) -> None:
                try:
                    await journal.put(path, bytes(2000))
                except JournalError as error:
                    answers.append(error.code.name)
                else:
                    answers.append("done")

            monkeypatch.setattr(acknowledged, "wake", wake_and_stop)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(put, "first")
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(put, "second")  # waits for room
            assert answers == ["done", "NOT_OWNER"]
            end = journal.log.end
            for change in (writing.write(bytes(PUT_BYTES_MAX)), writing.commit(), journal.mkdirs("d")):
                with pytest.raises(JournalError):
                    await change
            await writing.cancel()
            assert journal.log.end == end


async def test_an_attempt_without_a_quorum_leaves_the_owner_alone(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await servers.down("a")
            await servers.down("b")
            with pytest.raises(JournalError) as caught:
                async with open_on(servers, source="other"):
                    pass
            assert caught.value.code is JournalCode.UNAVAILABLE
            assert caught.value.fields["missing"] == "a:7400, b:7400"
            await servers.up("a")
            await servers.up("b")
            await trio.sleep(10)
            await journal.put("a", b"1")


async def test_the_same_operation_gets_the_same_answer_also_after_a_takeover(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            first = await journal.put("offsets/0", b"x", operation=operation(1))
            assert await journal.put("offsets/0", b"x", operation=operation(1)) == first
            assert await journal.delete("offsets/0", operation=operation(2))
        async with open_on(servers) as journal:
            assert await journal.put("offsets/0", b"x", operation=operation(1)) == first
            assert await journal.delete("offsets/0", operation=operation(2))
            with pytest.raises(JournalError) as caught:
                await journal.stat("offsets/0")
            assert caught.value.code is JournalCode.NOT_FOUND


async def test_without_a_quorum_the_outcome_is_unknown_and_later_the_truth(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=JournalSettings(quorum_seconds=20)) as journal:
            await journal.put("a", b"1")
            await servers.down("b")
            await servers.down("c")
            began = trio.current_time()
            with pytest.raises(JournalError) as caught:
                await journal.put("b", b"2", operation=operation(1))
            assert caught.value.code is JournalCode.OUTCOME_UNKNOWN
            assert "b:7400: connection refused" in caught.value.message
            assert 19 <= trio.current_time() - began <= 23
            with pytest.raises(JournalError):
                await journal.stat("b")  # not acknowledged, not shown
            await servers.up("b")
            status = await journal.put("b", b"2", operation=operation(1))
            assert status.size == 1
            assert await content(journal, "b") == b"2"


async def test_an_answer_that_rests_on_a_pending_record_waits_for_it(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=JournalSettings(quorum_seconds=20)) as journal:
            await journal.put("before", b"1")
            await servers.down("b")
            await servers.down("c")
            codes = []

            async def put() -> None:
                with pytest.raises(JournalError) as caught:
                    await journal.put("commits/7", b"mine")
                codes.append(caught.value.code)

            async with trio.open_nursery() as nursery:  # the second one is refused, but must not say so yet
                nursery.start_soon(put)
                nursery.start_soon(put)
            assert codes == [JournalCode.OUTCOME_UNKNOWN] * 2


async def test_a_wiped_member_is_lost_and_another_one_more_is_too_much(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
        await servers.wipe("b")
        await servers.remake("b", b"another namespac")
        async with open_on(servers) as journal:
            assert await content(journal, "a") == b"1"
            await trio.sleep(5)
            problems = [status.problem for status in journal.replicas.status()]
            assert any(problem and "replace the member" in problem for problem in problems)
        await servers.down("c")
        with pytest.raises(JournalError) as caught:
            async with open_on(servers):
                pass
        assert caught.value.fields == {"missing": "c:7400", "lost": "b:7400"}


async def test_a_lagging_member_is_filled_before_it_counts(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        await servers.down("c")
        small = JournalSettings(segment_bytes_max=20_000, tail_bytes_max=10_000)
        async with open_on(servers, settings=small, disk=new_disk()) as journal:
            for number in range(60):
                await journal.put(f"state/{number}", bytes([number]) * 3000)
            await servers.up("c")
            await trio.sleep(10)
            await servers.down("a")
            await journal.put("last", b"words")
        await servers.up("a")
        await servers.down("b")
        async with open_on(servers) as journal:
            for number in range(60):
                assert await content(journal, f"state/{number}") == bytes([number]) * 3000
            assert await content(journal, "last") == b"words"


async def test_a_member_that_is_filled_under_load_follows_without_a_hitch(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a closed segment is copied to it, memory gives up more of that: the member has not got it yet."""
    right = Filling.segment

    async def slow(filling: Filling, link: ChainLink, **named: Any) -> None:
        await trio.sleep(0.03)
        await right(filling, link, **named)

    monkeypatch.setattr(Filling, "segment", slow)
    async with memory_cluster() as servers:
        await create(servers)
        small = JournalSettings(segment_bytes_max=20_000, tail_bytes_max=10_000)
        async with open_on(servers, settings=small, disk=new_disk()) as journal, trio.open_nursery() as nursery:

            async def write() -> None:
                for number in itertools.count():
                    await journal.put(f"state/{number % 50}", bytes([number % 256]) * 3000, overwrite=True)
                    if number % 3 == 0:
                        await trio.sleep(0.02)

            nursery.start_soon(write)
            for _ in range(10):
                await servers.down("c")
                await trio.sleep(0.3)
                await servers.up("c")
                for _ in range(20):
                    await trio.sleep(0.05)
                    assert not any("WRONG_SIZE" in (status.problem or "") for status in journal.replicas.status())
            nursery.cancel_scope.cancel()
        async with open_on(servers, settings=small) as journal:
            await trio.sleep(20)
            assert all(status.standing.value == "in sync" for status in journal.replicas.status())


async def test_an_operator_may_accept_the_loss_of_too_many_members(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
            await trio.sleep(1)
        await servers.down("b")
        await servers.wipe("c")
        with pytest.raises(JournalError) as caught:
            async with open_on(servers):
                pass
        assert caught.value.code is JournalCode.UNAVAILABLE
        async with open_on(servers, accept_loss=True) as journal:
            assert await content(journal, "a") == b"1"
            assert journal.log.segment.accepted_loss == "went on without b:7400, c:7400"
            await journal.put("b", b"2")
        async with open_on(servers) as journal:  # the configuration is what is left
            assert await content(journal, "b") == b"2"


async def test_a_machine_that_knows_nothing_reads_index_and_tail_only(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        settings = JournalSettings(segment_bytes_max=1 << 20)
        async with open_on(servers, settings=settings) as journal:
            for number in range(100):
                await journal.put(f"data/{number}", bytes([number]) * 100_000)
        await trio.sleep(1)
        servers.sent.clear()
        async with open_on(servers, settings=settings, disk=new_disk()) as journal:
            opened = sum(servers.sent.values())
            assert opened < 5 * settings.segment_bytes_max  # of 10 MB on each of three
            assert await content(journal, "data/1") == b"\x01" * 100_000
            await trio.sleep(1)  # who reads does not wait until it is kept
            fetched = sum(servers.sent.values())
            assert await content(journal, "data/1") == b"\x01" * 100_000  # kept: not fetched again
            assert sum(servers.sent.values()) - fetched < 1000


async def test_a_directory_can_soon_be_looked_into_by_itself(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("old", b"1")
        disk = new_disk()
        async with open_on(servers, disk=disk) as journal:
            await journal.put("new", b"2")
            alone = DirectoryCopy(disk.another(), label="alone")
            assert not [name for name in await alone.list() if parse_snapshot_name(name)]  # who waits comes first
            await trio.sleep(2)
            reader = await open_reader(VOLUME, [alone])
            image = await reader.image_at(reader.acknowledged_lsn)
            assert image.tree.find("old") is not None


async def test_a_crash_with_a_restart_on_the_same_disk(autojump_clock: MockClock) -> None:
    async with simulated_cluster() as servers:
        await create(servers)
        disk = new_disk()
        for generation in range(3):
            async with open_on(servers, disk=again(disk)) as journal:
                for number in range(10):
                    await journal.put(f"g{generation}/{number}", bytes([number]) * 500)
            await servers.down("abc"[generation])
            await servers.up("abc"[generation])
            disk.drive.kill_processes()
        async with open_on(servers, disk=again(disk)) as journal:
            for generation in range(3):
                for number in range(10):
                    assert await content(journal, f"g{generation}/{number}") == bytes([number]) * 500


async def test_a_large_file_is_there_whole_or_not_at_all(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        pieces = [bytes([number]) * 700_000 for number in range(5)]
        async with open_on(servers) as journal:
            write = await journal.open_write("big")
            for piece in pieces:
                await write.write(piece)
            with pytest.raises(JournalError):
                await journal.stat("big")
            status = await write.commit()
            assert status.size == 3_500_000
            cancelled = await journal.open_write("never")
            await cancelled.write(bytes(2_000_000))
            await cancelled.cancel()
            assert not journal.pending.uploads
        async with open_on(servers) as journal:
            assert await content(journal, "big") == b"".join(pieces)
            assert b"".join([piece async for piece in journal.read("big", 1_000_000, 10)]) == pieces[1][:10]
            with pytest.raises(JournalError):
                await journal.stat("never")


async def test_the_later_driver_wins_the_path(autojump_clock: MockClock) -> None:
    old, new = PathClaim(start_time=1, application="old"), PathClaim(start_time=2, application="new")
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.claim("q", old)
            await journal.put("q/offsets/0", b"1", claim=old)
            await journal.claim("q", new)
        async with open_on(servers) as journal:
            with pytest.raises(JournalError) as caught:
                await journal.put("q/offsets/1", b"1", claim=old)
            assert caught.value.code is JournalCode.FENCED
            await journal.put("q/offsets/1", b"2", claim=new)


async def test_birth_wants_all_servers_and_nothing_there(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await servers.down("c")
        with pytest.raises(JournalError) as caught:
            await create(servers)
        assert caught.value.code is JournalCode.UNAVAILABLE
        await servers.up("c")
        await create(servers)
        with pytest.raises(JournalError) as caught:
            await create(servers)
        assert caught.value.code is JournalCode.VOLUME_EXISTS
