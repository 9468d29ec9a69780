"""What a client with a mistake in it asks for: it is refused, and nothing is harmed that others need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from journal.errors import JournalCode
from tests.contracts.volume_histories import content, operation
from tests.contracts.volume_requests import code_of

if TYPE_CHECKING:
    from journal.volume import Volume


class MistakesContract:
    async def test_an_operation_id_of_another_kind_is_refused(self, volume: Volume) -> None:
        made, written, deleted = operation(), operation(), operation()
        await volume.put("gone", b"", overwrite=False, operation=operation())
        await volume.mkdirs("d", operation=made)
        await volume.put("a", b"1", overwrite=False, operation=written)
        await volume.delete("gone", recursive=False, operation=deleted)
        for used in (made, deleted):
            again = volume.put("b", b"2", overwrite=True, operation=used)
            assert await code_of(again) is JournalCode.BAD_REQUEST
            write = await volume.open_write("b", overwrite=True, operation=used)
            await write.write(b"2")
            assert await code_of(write.commit()) is JournalCode.BAD_REQUEST
        for used in (made, written):
            assert await code_of(volume.delete("a", recursive=False, operation=used)) is JournalCode.BAD_REQUEST
        for used in (written, deleted):
            assert await code_of(volume.mkdirs("e", operation=used)) is JournalCode.BAD_REQUEST
        assert [entry.path for entry in (await volume.list("")).entries] == ["a", "d"]
        assert (await volume.put("a", b"1", overwrite=False, operation=written)).size == 1

    @pytest.mark.parametrize(
        ("below", "target"),
        [
            ("/".join("d" * 100), "/".join("t" * 30)),
            (f"{'n' * 250}/" * 8 + "file", "/".join(["t" * 250] * 9)),
            (f"{'é' * 125}/" * 8 + "file", "/".join(["é" * 125] * 9)),
        ],
    )
    async def test_a_tree_is_not_moved_where_its_paths_would_be_too_long(
        self, volume: Volume, below: str, target: str
    ) -> None:
        await volume.put(f"s/{below}", b"x", overwrite=False, operation=operation())
        moving = volume.rename("s", target, overwrite=False, operation=operation())
        assert await code_of(moving) is JournalCode.BAD_PATH
        assert await content(volume, f"s/{below}") == b"x"
        assert await code_of(volume.stat(target)) is JournalCode.NOT_FOUND
        await volume.rename("s", "elsewhere", overwrite=False, operation=operation())
        assert await content(volume, f"elsewhere/{below}") == b"x"
