"""The writer against real servers: what is acknowledged is there, for everybody who comes later."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from journal.owner.log import RECORD_BYTES
from journal.records.settings import JournalSettings
from journal.volume import PUT_BYTES_MAX, FileStatus, OperationId
from sos_client.wire.checksum import crc32c
from tests.journal.cluster import content, create, memory_cluster, new_disk, open_on

if TYPE_CHECKING:
    from trio.testing import MockClock

    from journal.volume import Answer


async def test_what_was_put_is_read(autojump_clock: MockClock) -> None:
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers) as journal:
            status = await journal.put("offsets/7", b"hello")
            assert status.size == 5
            assert await content(journal, "offsets/7") == b"hello"


async def test_it_is_there_after_a_restart(autojump_clock: MockClock) -> None:
    async with memory_cluster("abc") as servers:
        await create(servers)
        disk = new_disk()
        async with open_on(servers, disk=disk) as journal:
            for number in range(20):
                await journal.put(f"offsets/{number}", bytes([number]) * 100)
            first_epoch = journal.epoch
        async with open_on(servers, disk=new_disk()) as journal:
            assert journal.epoch > first_epoch
            for number in range(20):
                assert await content(journal, f"offsets/{number}") == bytes([number]) * 100


async def test_an_absent_volume_is_not_made_by_opening_it(autojump_clock: MockClock) -> None:
    async with memory_cluster("abc") as servers:
        with pytest.raises(JournalError) as caught:
            async with open_on(servers):
                pass
        assert caught.value.code is JournalCode.VOLUME_NOT_FOUND


async def test_one_of_three_may_be_away(autojump_clock: MockClock) -> None:
    async with memory_cluster("abc") as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
            await servers.down("b")
            with trio.fail_after(5):
                await journal.put("b", b"2")
            await servers.up("b")
            await trio.sleep(10)
            await servers.down("c")
            with trio.fail_after(5):
                await journal.put("c", b"3")


async def test_what_a_callback_answers_is_shown_by_then(autojump_clock: MockClock) -> None:
    shown: list[FileStatus] = []
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers) as journal:

            def answered(status: Answer) -> None:
                assert isinstance(status, FileStatus)
                shown.append(journal.acknowledged.tree.stat(status.path))
                assert shown[-1] == status

            for number in range(3):
                taken = journal.put_soon(
                    f"offsets/{number}",
                    b"hello",
                    payload_crc=crc32c(b"hello"),
                    overwrite=False,
                    operation=OperationId(client=bytes(16), sequence=number + 1),
                    claim=None,
                    modified_ms=None,
                    answered=answered,
                )
                assert taken
            await journal.put("last", b"")
    assert [status.path for status in shown] == ["offsets/0", "offsets/1", "offsets/2"]


async def test_small_records_that_wait_are_counted_with_what_they_take(autojump_clock: MockClock) -> None:
    async with memory_cluster("a") as servers:
        await create(servers)
        settings = JournalSettings(unacknowledged_bytes_max=100 * RECORD_BYTES)
        async with open_on(servers, settings=settings) as journal:
            await servers.down("a")
            taken = 0
            while journal.put_soon(
                f"f{taken}",
                b"",
                payload_crc=0,
                overwrite=True,
                operation=OperationId(client=b"c" * 16, sequence=taken + 1),
                claim=None,
                modified_ms=None,
                answered=lambda _: None,
            ):
                taken += 1
            assert 50 < taken < 100


class _Payload(bytearray):
    """Can be asked whether anybody still has it."""


async def test_of_a_refusal_only_the_answer_is_kept(autojump_clock: MockClock) -> None:
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
            operation = OperationId(client=b"c" * 16, sequence=1)
            for _ in range(2):
                payload = _Payload(b"2" * 100)
                there = weakref.ref(payload)
                with pytest.raises(JournalError, match="exists already") as refusal:
                    await journal.put("a", payload, operation=operation)
                assert refusal.value.fields == {"path": "a"}
                del payload, refusal
                assert there() is None, "also without looking for garbage"


async def test_pieces_of_a_commit_that_finds_no_room_are_given_up(autojump_clock: MockClock) -> None:
    """As long as they are there, the log cannot be trimmed."""
    settings = JournalSettings(unacknowledged_bytes_max=PUT_BYTES_MAX, quorum_seconds=5)
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers, settings=settings) as journal:
            write = await journal.open_write("large")
            await servers.down("a")
            for _ in range(2):
                await write.write(bytes(PUT_BYTES_MAX - 1))
            assert journal.pending.uploads
            with pytest.raises(JournalError) as caught:
                await write.commit()
            assert caught.value.code is JournalCode.UNAVAILABLE
            await servers.up("a")
            await trio.sleep(5)
            await journal.put("next", b"")
            assert not journal.pending.uploads
            assert not journal.acknowledged.uploads
            assert not journal.acknowledged.tree.objects_in_use()
