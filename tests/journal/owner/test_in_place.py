"""Append and truncate through the writer."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from journal.owner import in_place
from journal.records.settings import JournalSettings
from journal.volume import PUT_BYTES_MAX, OperationId, PathClaim
from tests.journal.cluster import content, create, memory_cluster, new_disk, open_on

if TYPE_CHECKING:
    from trio.testing import MockClock

    from journal.image.nodes import Extent


def operation(sequence: int) -> OperationId:
    return OperationId(client=b"a client process", sequence=sequence)


async def test_files_grow_and_shrink_as_bytes_do(autojump_clock: MockClock) -> None:
    chance, model = random.Random(3), {"a": b"", "b": b""}
    settings = JournalSettings(segment_bytes_max=4000)
    async with memory_cluster() as servers:
        await create(servers)
        for _ in range(3):  # owners
            async with open_on(servers, disk=new_disk(), settings=settings) as journal:
                for path, data in model.items():
                    await journal.put(path, data, overwrite=True)
                for _ in range(60):
                    path = chance.choice("ab")
                    if chance.random() < 0.6:
                        more = chance.randbytes(chance.randrange(300))
                        model[path] += more
                        status = await journal.append(path, more)
                    else:
                        model[path] = model[path][: chance.randrange(len(model[path]) + 1)]
                        status = await journal.truncate(path, len(model[path]))
                    assert status.size == len(model[path])
                    assert await content(journal, path) == model[path]
        async with open_on(servers) as journal:
            for path, data in model.items():
                assert await content(journal, path) == data


async def test_many_at_once_leave_one_order(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("f", b"0123456789")

            async def change(number: int) -> None:
                await journal.append("f", b"%d" % number)
                await journal.truncate("f", 7)

            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(change, number)
            assert await content(journal, "f") == b"0123456"


async def test_an_operation_is_done_once(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("f", b"123")
            first = await journal.append("f", b"4", operation=operation(1))
            assert await journal.append("f", b"4", operation=operation(1)) == first
            cut = await journal.truncate("f", 2, operation=operation(2))
            await journal.append("f", b"!")
        async with open_on(servers) as journal:
            assert await journal.truncate("f", 2, operation=operation(2)) == cut
            assert await content(journal, "f") == b"12!"


@pytest.mark.parametrize(
    ("path", "size", "code"),
    [
        ("missing", 0, JournalCode.NOT_FOUND),
        ("", 0, JournalCode.IS_DIRECTORY),
        ("a//b", 0, JournalCode.BAD_PATH),
        ("f", 4, JournalCode.BAD_REQUEST),
        ("f", -1, JournalCode.BAD_REQUEST),
        ("claimed/f", 0, JournalCode.FENCED),
    ],
)
async def test_what_is_refused(path: str, size: int, code: JournalCode, autojump_clock: MockClock) -> None:
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("f", b"123")
            await journal.put("claimed/f", b"123")
            await journal.claim("claimed", PathClaim(application="app", start_time=1))
            with pytest.raises(JournalError) as caught:
                await journal.truncate(path, size)
            assert caught.value.code is code
            if code is not JournalCode.BAD_REQUEST:
                with pytest.raises(JournalError) as caught:
                    await journal.append(path, b"1")
                assert caught.value.code is code


async def test_what_is_too_much_at_once_or_in_all(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "EXTENTS_MAX", 3)
    async with memory_cluster("a") as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("f", b"1")
            with pytest.raises(JournalError, match="at most"):
                await journal.append("f", bytes(PUT_BYTES_MAX + 1))
            for _ in range(2):
                await journal.append("f", bytes(PUT_BYTES_MAX))
            with pytest.raises(JournalError, match="as large as") as caught:
                await journal.append("f", b"1")
            assert caught.value.code is JournalCode.TOO_LARGE
            assert (await journal.stat("f")).size == 1 + 2 * PUT_BYTES_MAX


async def test_a_file_of_many_small_pieces_is_joined_and_goes_on(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_place, "EXTENTS_MAX", 5)
    chance = random.Random(1)
    settings = JournalSettings(segment_bytes_max=4000)
    async with memory_cluster() as servers:
        await create(servers)
        expected = chance.randbytes(PUT_BYTES_MAX)
        async with open_on(servers, settings=settings) as journal:
            status = await journal.put("f", expected)
            for number in range(40):
                more = chance.randbytes(chance.randrange(1, 2000))
                size, modified_ms = status.size, status.modified_ms
                status = await journal.append(
                    "f", more, size=size, modified_ms=modified_ms, operation=operation(number + 1)
                )
                expected += more
                assert len(list(journal.acknowledged.tree.extents("f"))) <= 5
                assert await content(journal, "f") == expected
                again = operation(number + 1)
                assert await journal.append("f", more, size=size, modified_ms=modified_ms, operation=again) == status
            assert not journal.pending.uploads
        async with open_on(servers) as journal:
            assert await content(journal, "f") == expected


async def test_of_many_who_append_at_the_same_time_one_joins_the_file(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_place, "EXTENTS_MAX", 50)
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("f", bytes(PUT_BYTES_MAX))
            for _ in range(49):
                await journal.append("f", b".")
            before, extent = journal.log.end, journal.content.extent

            async def from_a_member(one: Extent) -> bytes:
                await trio.sleep(0.01)
                return await extent(one)

            monkeypatch.setattr(journal.content, "extent", from_a_member)
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(journal.append, "f", b".")
            assert journal.log.end - before < 2 * PUT_BYTES_MAX
            assert (await journal.stat("f")).size == PUT_BYTES_MAX + 69


async def test_a_file_that_changes_while_it_is_joined(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_place, "EXTENTS_MAX", 5)
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("f", b"0")
            async with trio.open_nursery() as nursery:
                for number in range(1, 40):
                    nursery.start_soon(journal.append, "f", b"%d," % number)
            parts = (await content(journal, "f"))[1:-1].split(b",")
            assert sorted(map(int, parts)) == list(range(1, 40))

            async def append_to_what_goes() -> None:
                with pytest.raises(JournalError, match="nothing at f"):
                    await journal.append("f", b"end")

            while len(list(journal.pending.tree.extents("f"))) < 5:
                await journal.append("f", b".")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(append_to_what_goes)
                nursery.start_soon(journal.delete, "f")
            assert not journal.pending.uploads
