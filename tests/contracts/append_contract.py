"""What every `Volume` must do when files grow, as tests; part of file_protocol_contract.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from journal.errors import JournalCode
from journal.volume import PUT_BYTES_MAX
from tests.contracts.volume_histories import NEW, OLD, content, operation
from tests.contracts.volume_requests import code_of, put, stream

if TYPE_CHECKING:
    from journal.volume import FileStatus, OperationId, PathClaim, Volume


async def append(
    volume: Volume, file: FileStatus, data: bytes, again: OperationId | None = None, claim: PathClaim | None = None
) -> FileStatus:
    """To the file as it was."""
    return await volume.append(
        file.path,
        data,
        size=file.size,
        modified_ms=file.modified_ms,
        operation=again or operation(),
        claim=claim,
    )


class AppendContract:
    async def test_a_file_grows_and_is_whole_at_every_moment(self, volume: Volume) -> None:
        status = await put(volume, "log", b"")
        expected = b""
        for number in range(20):
            more = b"%d," % number * number or b"begin,"
            before, status = status, await append(volume, status, more)
            expected += more
            assert (status.path, status.size) == ("log", len(expected))
            assert status.modified_ms > before.modified_ms
            assert await content(volume, "log") == expected
        assert (await volume.stat("log"))[:4] == status[:4]

    async def test_large_pieces_and_one_byte_too_many(self, volume: Volume) -> None:
        data = os.urandom(2 * PUT_BYTES_MAX)
        status = await put(volume, "log", b"x")
        for start in (0, PUT_BYTES_MAX):
            status = await append(volume, status, data[start : start + PUT_BYTES_MAX])
        assert await content(volume, "log") == b"x" + data
        assert await code_of(append(volume, status, data[: PUT_BYTES_MAX + 1])) is JournalCode.TOO_LARGE

    async def test_the_same_append_again_gets_the_first_answer(self, volume: Volume) -> None:
        first = await put(volume, "log", b"1")
        again = operation()
        added = [await append(volume, first, b"2", again) for _ in range(3)]
        assert len({status[:4] for status in added}) == 1
        assert await content(volume, "log") == b"12"

    async def test_of_two_writers_the_second_learns_of_the_first(self, volume: Volume) -> None:
        begun = await put(volume, "log", b"begun ")
        await append(volume, begun, b"first")
        assert await code_of(append(volume, begun, b"other")) is JournalCode.CHANGED
        assert await content(volume, "log") == b"begun first"

    async def test_a_file_that_was_replaced_by_one_of_the_same_size_is_another(self, volume: Volume) -> None:
        begun = await put(volume, "log", b"mine")
        await put(volume, "log", b"hers", overwrite=True)
        assert await code_of(append(volume, begun, b"!")) is JournalCode.CHANGED
        assert await content(volume, "log") == b"hers"

    async def test_what_cannot_be_appended_to(self, volume: Volume) -> None:
        begun = await put(volume, "d/log", b"1")
        for path, code in (
            ("d/other", JournalCode.NOT_FOUND),
            ("d", JournalCode.IS_DIRECTORY),
            ("d//log", JournalCode.BAD_PATH),
        ):
            assert await code_of(append(volume, begun._replace(path=path), b"2")) is code
        await volume.claim("d", NEW, operation=operation())
        for claim in (OLD, None):
            assert await code_of(append(volume, begun, b"2", claim=claim)) is JournalCode.FENCED
        await append(volume, begun, b"2", claim=NEW)
        assert await content(volume, "d/log") == b"12"

    async def test_what_was_streamed_grows_and_what_grew_is_moved_and_replaced(self, volume: Volume) -> None:
        data = os.urandom(PUT_BYTES_MAX + 5)
        status = await append(volume, await stream(volume, "log", data, piece=300_000), b"end")
        assert await content(volume, "log") == data + b"end"
        await volume.rename("log", "moved", overwrite=False, operation=operation())
        await append(volume, status._replace(path="moved"), b"!")
        assert await content(volume, "moved", len(data)) == b"end!"
        await put(volume, "moved", b"short", overwrite=True)
        assert await content(volume, "moved") == b"short"
