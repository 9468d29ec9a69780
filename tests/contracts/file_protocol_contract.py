"""What every `Volume` must do, as tests: directly or over the file protocol, in memory or kept by a journal.

A subclass gives the fixture `volume`, a new and empty one.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from journal.volume import PUT_BYTES_MAX, OperationId, Page, Volume
from tests.contracts.append_contract import AppendContract
from tests.contracts.claim_contract import ClaimContract
from tests.contracts.client_mistakes import MistakesContract
from tests.contracts.volume_histories import NEW, ModelContract, content, operation
from tests.contracts.volume_requests import code_of, exists, put, stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BAD_PATHS = ["/a", "a/", "a//b", ".", "..", "a/../b", "./a", "nul\0", "x" * 256, "a/" * 200 + "a", "ab/" * 2000 + "a"]


class FileContract:
    async def test_put_is_there_at_once(self, volume: Volume) -> None:
        status = await put(volume, "q/offsets/7", b"v1\n{}")
        assert (status.path, status.is_directory, status.size) == ("q/offsets/7", False, 5)
        seen = await volume.stat("q/offsets/7")
        assert (seen.path, seen.size, seen.modified_ms) == (status.path, 5, status.modified_ms)
        assert await content(volume, "q/offsets/7") == b"v1\n{}"
        assert (await volume.stat("q/offsets")).is_directory
        assert (await volume.stat("")).is_directory

    async def test_put_without_overwrite_is_for_new_files_only(self, volume: Volume) -> None:
        await put(volume, "a", b"first")
        assert await code_of(put(volume, "a", b"second")) is JournalCode.ALREADY_EXISTS
        assert await content(volume, "a") == b"first"

    async def test_overwrite_replaces_the_whole_file(self, volume: Volume) -> None:
        before = await put(volume, "a", b"a longer first version")
        after = await put(volume, "a", b"short", overwrite=True)
        assert await content(volume, "a") == b"short"
        assert after.modified_ms > before.modified_ms

    async def test_empty_files_are_files(self, volume: Volume) -> None:
        assert (await put(volume, "empty", b"")).size == 0
        assert await content(volume, "empty") == b""
        assert not (await volume.stat("empty")).is_directory

    async def test_any_bytes_come_back(self, volume: Volume) -> None:
        data = bytes(range(256)) * 17
        await put(volume, "bytes", data)
        assert await content(volume, "bytes") == data

    async def test_the_largest_put_and_one_byte_more(self, volume: Volume) -> None:
        data = os.urandom(PUT_BYTES_MAX)
        await put(volume, "largest", data)
        assert await content(volume, "largest") == data
        assert await code_of(put(volume, "larger", data + b"x")) is JournalCode.TOO_LARGE

    async def test_files_and_directories_do_not_become_each_other(self, volume: Volume) -> None:
        await put(volume, "d/f")
        assert await code_of(put(volume, "d", overwrite=True)) is JournalCode.IS_DIRECTORY
        assert await code_of(put(volume, "", overwrite=True)) is JournalCode.IS_DIRECTORY
        assert await code_of(put(volume, "d/f/g")) is JournalCode.NOT_DIRECTORY
        assert await code_of(volume.mkdirs("d/f", operation=operation())) is JournalCode.NOT_DIRECTORY
        assert await code_of(volume.mkdirs("d/f/g", operation=operation())) is JournalCode.NOT_DIRECTORY
        assert await code_of(content(volume, "d")) is JournalCode.IS_DIRECTORY

    async def test_what_is_missing_is_not_found(self, volume: Volume) -> None:
        for missing in ("a", "a/b"):
            assert await code_of(volume.stat(missing)) is JournalCode.NOT_FOUND
            assert await code_of(volume.list(missing)) is JournalCode.NOT_FOUND
            assert await code_of(content(volume, missing)) is JournalCode.NOT_FOUND

    @pytest.mark.parametrize("path", BAD_PATHS)
    async def test_bad_paths_are_refused_by_every_request(self, volume: Volume, path: str) -> None:
        requests: list[Callable[[], Awaitable[object]]] = [
            lambda: put(volume, path),
            lambda: stream(volume, path, b"data", piece=2),
            lambda: volume.stat(path),
            lambda: volume.list(path),
            lambda: content(volume, path),
            lambda: volume.mkdirs(path, operation=operation()),
            lambda: volume.delete(path, recursive=True, operation=operation()),
            lambda: volume.rename(path, "fine", overwrite=False, operation=operation()),
            lambda: volume.rename("fine", path, overwrite=False, operation=operation()),
            lambda: volume.claim(path, NEW, operation=operation()),
        ]
        for request in requests:
            assert await code_of(request()) is JournalCode.BAD_PATH
        assert (await volume.list("")).entries == ()

    async def test_names_beyond_ascii_and_odd_characters(self, volume: Volume) -> None:
        for name in ("état", "Ω", "\U0001f600", "a b", "a=b,c:d", ".hidden", "~", "x" * 255, "tab\tand\nnewline"):
            await put(volume, f"d/{name}", name.encode())
            assert await content(volume, f"d/{name}") == name.encode()

    @pytest.mark.parametrize(
        ("offset", "length", "expected"),
        [
            (0, None, b"0123456789"),
            (3, None, b"3456789"),
            (3, 4, b"3456"),
            (8, 100, b"89"),
            (10, None, b""),
            (99, 1, b""),
        ],
    )
    async def test_ranges(self, volume: Volume, offset: int, length: int | None, expected: bytes) -> None:
        await put(volume, "digits", b"0123456789")
        assert await content(volume, "digits", offset, length) == expected

    async def test_reading_nothing(self, volume: Volume) -> None:
        await put(volume, "digits", b"0123456789")
        assert await content(volume, "digits", 3, 0) == b""

    async def test_times_only_grow_and_are_of_one_clock(self, volume: Volume) -> None:
        times = [(await put(volume, f"t/{n}")).modified_ms for n in range(5)]
        assert times == sorted(set(times))

    async def test_a_time_from_elsewhere_is_kept(self, volume: Volume) -> None:
        await volume.put("old", b"x", overwrite=False, operation=operation(), modified_ms=1234)
        assert (await volume.stat("old")).modified_ms == 1234


class StreamContract:
    async def test_nothing_is_visible_before_commit(self, volume: Volume) -> None:
        write = await volume.open_write("d/large", overwrite=False, operation=operation())
        await write.write(b"one ")
        assert not await exists(volume, "d/large")
        assert not await exists(volume, "d")
        await write.write(b"two")
        status = await write.commit()
        assert (status.path, status.size) == ("d/large", 7)
        assert await content(volume, "d/large") == b"one two"

    async def test_cancelled_is_as_if_never_begun(self, volume: Volume) -> None:
        write = await volume.open_write("large", overwrite=False, operation=operation())
        await write.write(os.urandom(3 * PUT_BYTES_MAX // 2))
        await write.cancel()
        await write.cancel()
        assert (await volume.list("")).entries == ()
        await put(volume, "large", b"free")

    async def test_cancel_after_commit_removes_nothing(self, volume: Volume) -> None:
        write = await volume.open_write("kept", overwrite=False, operation=operation())
        await write.write(b"kept")
        await write.commit()
        await write.cancel()
        assert await content(volume, "kept") == b"kept"

    async def test_a_large_file_comes_back_whole_and_in_ranges(self, volume: Volume) -> None:
        data = os.urandom(5 * PUT_BYTES_MAX + 12_345)
        await stream(volume, "large", data, piece=700_001)
        assert await content(volume, "large") == data
        assert (
            await content(volume, "large", 3 * PUT_BYTES_MAX - 5, 1_500_000)
            == data[3 * PUT_BYTES_MAX - 5 :][:1_500_000]
        )
        assert await content(volume, "large", len(data) - 3) == data[-3:]

    async def test_an_empty_streamed_file(self, volume: Volume) -> None:
        assert (await stream(volume, "empty", b"", piece=1)).size == 0
        assert await content(volume, "empty") == b""

    async def test_the_precondition_is_decided_at_commit(self, volume: Volume) -> None:
        write = await volume.open_write("race", overwrite=False, operation=operation())
        await write.write(b"streamed")
        await put(volume, "race", b"put")
        assert await code_of(write.commit()) is JournalCode.ALREADY_EXISTS
        assert await content(volume, "race") == b"put"

    async def test_two_streams_for_one_new_file_have_one_winner(self, volume: Volume) -> None:
        writes = [await volume.open_write("race", overwrite=False, operation=operation()) for _ in range(2)]
        for number, write in enumerate(writes):
            await write.write(b"winner %d" % number)
        await writes[1].commit()
        assert await code_of(writes[0].commit()) is JournalCode.ALREADY_EXISTS
        assert await content(volume, "race") == b"winner 1"

    async def test_a_replaced_file_is_read_as_it_was_or_not_at_all(self, volume: Volume) -> None:
        first = b"1" * (6 * PUT_BYTES_MAX)
        await stream(volume, "f", first, piece=PUT_BYTES_MAX)
        reading = volume.read("f")
        pieces = [await anext(reading)]
        await put(volume, "f", b"2", overwrite=True)
        ending = None
        try:
            async for piece in reading:
                pieces.append(piece)  # noqa: PERF401 - what came before an error counts
        except JournalError as error:
            ending = error.code
        whole = b"".join(pieces)
        assert (ending is JournalCode.CHANGED and first.startswith(whole)) or whole == first


class DirectoryContract:
    async def test_mkdirs_makes_parents_and_may_be_repeated(self, volume: Volume) -> None:
        for _ in range(2):
            await volume.mkdirs("a/b/c", operation=operation())
        assert (await volume.stat("a/b")).is_directory
        assert (await volume.stat("a/b/c")).size == 0
        await volume.mkdirs("", operation=operation())

    async def test_list_has_children_only_in_order_of_bytes(self, volume: Volume) -> None:
        names = ["10", "9", "A", "a", "a b", "a.b", "é", "ﬀ", "\U0001f600"]
        for name in random.Random(1).sample(names, len(names)):
            await put(volume, f"d/{name}", name.encode())
        await put(volume, "d/sub/deeper")
        await put(volume, "d-beside")
        page = await volume.list("d")
        expected = sorted([*names, "sub"], key=str.encode)
        assert [entry.path for entry in page.entries] == [f"d/{name}" for name in expected]
        assert [entry.path for entry in page.entries if entry.is_directory] == ["d/sub"]
        assert not page.more

    async def test_list_pages(self, volume: Volume) -> None:
        for number in range(25):
            await put(volume, f"d/{number:03}")
        seen: list[str] = []
        page = Page(entries=(), more=True)
        pages = 0
        while page.more:
            page = await volume.list("d", after=seen[-1] if seen else "", limit=10)
            seen += [entry.path.rpartition("/")[2] for entry in page.entries]
            pages += 1
        assert seen == [f"{number:03}" for number in range(25)]
        assert pages == 3

    async def test_list_goes_on_after_a_name_that_is_gone(self, volume: Volume) -> None:
        for name in ("a", "b", "c"):
            await put(volume, name)
        await volume.delete("b", recursive=False, operation=operation())
        assert [entry.path for entry in (await volume.list("", after="b")).entries] == ["c"]

    async def test_list_of_an_empty_directory_and_of_a_file(self, volume: Volume) -> None:
        await volume.mkdirs("empty", operation=operation())
        assert await volume.list("empty") == Page(entries=(), more=False)
        await put(volume, "file", b"abc")
        assert [(entry.path, entry.size) for entry in (await volume.list("file")).entries] == [("file", 3)]

    async def test_delete(self, volume: Volume) -> None:
        await put(volume, "d/sub/f")
        assert await code_of(volume.delete("d", recursive=False, operation=operation())) is JournalCode.NOT_EMPTY
        assert await volume.delete("d/sub/f", recursive=False, operation=operation())
        assert not await volume.delete("d/sub/f", recursive=False, operation=operation())
        assert not await volume.delete("never/was", recursive=True, operation=operation())
        assert await volume.delete("d", recursive=True, operation=operation())
        assert not await exists(volume, "d/sub")
        await put(volume, "e/f")
        assert await volume.delete("", recursive=True, operation=operation())
        assert (await volume.list("")).entries == ()

    async def test_rename_moves_a_file_and_makes_parents(self, volume: Volume) -> None:
        before = await put(volume, "a", b"content")
        await volume.rename("a", "x/y/b", overwrite=False, operation=operation())
        assert not await exists(volume, "a")
        assert await content(volume, "x/y/b") == b"content"
        assert (await volume.stat("x/y/b")).modified_ms == before.modified_ms

    async def test_rename_moves_a_tree(self, volume: Volume) -> None:
        await put(volume, "d/sub/f", b"f")
        await put(volume, "d/g", b"g")
        await volume.rename("d", "e", overwrite=False, operation=operation())
        assert not await exists(volume, "d")
        assert await content(volume, "e/sub/f") == b"f"
        assert [entry.path for entry in (await volume.list("e")).entries] == ["e/g", "e/sub"]

    async def test_rename_replaces_a_file_only_when_told(self, volume: Volume) -> None:
        await put(volume, "a", b"a")
        await put(volume, "b", b"b")
        refused = volume.rename("a", "b", overwrite=False, operation=operation())
        assert await code_of(refused) is JournalCode.ALREADY_EXISTS
        assert await content(volume, "b") == b"b"
        await volume.rename("a", "b", overwrite=True, operation=operation())
        assert await content(volume, "b") == b"a"
        assert not await exists(volume, "a")

    async def test_renames_that_cannot_be(self, volume: Volume) -> None:
        await put(volume, "d/f")
        await put(volume, "e/g")
        await put(volume, "file")
        cases = [
            ("missing", "x", JournalCode.NOT_FOUND),
            ("d", "d/sub", JournalCode.BAD_REQUEST),
            ("", "x", JournalCode.BAD_REQUEST),
            ("file", "d", JournalCode.IS_DIRECTORY),
            ("d", "e", JournalCode.IS_DIRECTORY),
            ("d", "file", JournalCode.NOT_DIRECTORY),
            ("d", "file/below", JournalCode.NOT_DIRECTORY),
        ]
        for source, target, code in cases:
            asking = volume.rename(source, target, overwrite=True, operation=operation())
            assert await code_of(asking) is code, (source, target)
        await volume.rename("d", "d", overwrite=False, operation=operation())
        assert [entry.path for entry in (await volume.list("")).entries] == ["d", "e", "file"]


class OperationContract:
    async def test_the_same_operation_again_gets_the_first_answer(self, volume: Volume) -> None:
        again = operation()
        first = await volume.put("a", b"1", overwrite=False, operation=again)
        repeated = await volume.put("a", b"1", overwrite=False, operation=again)
        assert (repeated.size, repeated.modified_ms) == (first.size, first.modified_ms)

    async def test_a_repeated_change_is_not_made_again(self, volume: Volume) -> None:
        again = operation()
        await volume.put("a", b"1", overwrite=True, operation=again)
        await put(volume, "a", b"2", overwrite=True)
        await volume.put("a", b"1", overwrite=True, operation=again)
        assert await content(volume, "a") == b"2"
        again = operation()
        assert await volume.delete("a", recursive=False, operation=again)
        await put(volume, "a", b"3")
        assert await volume.delete("a", recursive=False, operation=again)
        assert await content(volume, "a") == b"3"

    async def test_a_repeated_refusal_is_the_same_refusal(self, volume: Volume) -> None:
        await put(volume, "a")
        again = operation()
        for _ in range(2):
            asking = volume.put("a", b"2", overwrite=False, operation=again)
            assert await code_of(asking) is JournalCode.ALREADY_EXISTS
            await volume.delete("a", recursive=False, operation=operation())

    async def test_a_repeated_stream_is_not_made_again(self, volume: Volume) -> None:
        again = operation()
        for _ in range(2):
            write = await volume.open_write("s", overwrite=False, operation=again)
            await write.write(b"streamed")
            assert (await write.commit()).size == 8

    async def test_the_same_rename_again(self, volume: Volume) -> None:
        await put(volume, "a", b"a")
        again = operation()
        for _ in range(2):
            await volume.rename("a", "b", overwrite=False, operation=again)
        assert await content(volume, "b") == b"a"

    async def test_one_of_many_creators_wins(self, volume: Volume) -> None:
        outcomes: list[str] = []

        async def create(number: int) -> None:
            try:
                mine = OperationId(client=os.urandom(16), sequence=1)  # as whoever makes many changes at once does
                await volume.put("race", b"%d" % number, overwrite=False, operation=mine)
            except JournalError as error:
                outcomes.append(error.code.name)
            else:
                outcomes.append(str(number))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(create, number)
        winners = [outcome for outcome in outcomes if outcome.isdigit()]
        assert len(winners) == 1
        assert outcomes.count("ALREADY_EXISTS") == 19
        assert await content(volume, "race") == winners[0].encode()

    async def test_marks_are_taken(self, volume: Volume) -> None:
        await volume.mark({"query": "q1", "batch": 7}, operation=operation())


class FileProtocolContract(
    FileContract,
    StreamContract,
    AppendContract,
    DirectoryContract,
    OperationContract,
    ClaimContract,
    MistakesContract,
    ModelContract,
):
    """All of it."""
