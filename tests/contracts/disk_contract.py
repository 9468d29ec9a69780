"""What every `Disk` must do, as tests: a subclass gives the fixture `disk`, an empty disk that nobody has locked."""

from __future__ import annotations

import pytest
import trio

from journal.disk.disk import Disk, FileWrite, OpenMode
from journal.disk.file_writing import BUFFERS_PER_WRITE_MAX

BAD_PATHS = ["..", ".", "../a", "a/../b", "/a", "a//b", "a/", "a/.", "nul\0"]


class DiskContract:
    async def test_created_file_is_empty_and_listed(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        assert await file.size() == 0
        assert await file.read(0, 10) == b""
        file.close()
        assert await disk.list_directory("") == ["a"]
        assert await disk.exists("a")
        assert not await disk.exists("b")
        assert not await disk.exists("a/b")

    async def test_create_refuses_what_exists_and_open_refuses_what_does_not(self, disk: Disk) -> None:
        (await disk.open("a", OpenMode.CREATE)).close()
        with pytest.raises(FileExistsError):
            await disk.open("a", OpenMode.CREATE)
        for mode in (OpenMode.READ, OpenMode.WRITE):
            with pytest.raises(FileNotFoundError):
                await disk.open("b", mode)

    async def test_buffers_go_one_after_the_other(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        await file.write(3, [b"abc", bytearray(b"de"), memoryview(b"xfgx")[1:3]])
        assert await file.read(0, 100) == b"\0\0\0abcdefg"
        await file.write_and_sync(1, [b"12"])
        assert await file.read(1, 4) == b"12ab"
        assert await file.read(8, 1) == b"f"
        assert await file.read(10, 1) == b""
        await file.sync()
        file.close()

    async def test_more_buffers_than_one_system_call_takes(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        pieces = [bytes([number % 251]) * 3 for number in range(2 * BUFFERS_PER_WRITE_MAX + 5)]
        await file.write_and_sync(0, pieces)
        assert await file.read(0, 1 << 20) == b"".join(pieces)
        file.close()

    async def test_long_reads_are_whole(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        content = bytes(range(256)) * 4096
        await file.write(0, [content])
        assert await file.read(0, len(content)) == content
        assert await file.read(5, len(content)) == content[5:]
        file.close()

    async def test_a_read_into_memory_stops_where_the_file_ends(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        await file.write(0, [b"abcdef"])
        memory = bytearray(b"........")
        assert await file.read_into(2, memoryview(memory)[1:4]) == 3
        assert memory == b".cde...."
        assert await file.read_into(4, memoryview(memory)) == 2
        assert memory == b"efde...."
        assert await file.read_into(6, memoryview(memory)) == 0
        file.close()

    async def test_a_read_on_the_spot_gives_all_or_nothing(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        await file.write(0, [b"abcdef"])
        memory = bytearray(b"....")
        found = [file.read_now(1, memoryview(memory)) for _ in range(20)]
        assert any(found)
        assert memory == b"bcde"
        assert not file.read_now(3, memoryview(memory))
        file.close()

    async def test_a_read_only_file_cannot_be_written(self, disk: Disk) -> None:
        (await disk.open("a", OpenMode.CREATE)).close()
        file = await disk.open("a", OpenMode.READ)
        with pytest.raises(OSError):  # noqa: PT011
            await file.write(0, [b"x"])
        file.close()

    async def test_truncate_cuts_and_extends(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        await file.write(0, [b"abcdef"])
        await file.truncate(2)
        await file.truncate(4)
        assert await file.read(0, 10) == b"ab\0\0"
        file.close()

    async def test_allocate_writes_zeros_and_never_shrinks(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        await file.write(0, [b"abc"])
        await file.allocate(8)
        assert await file.read(0, 10) == b"abc\0\0\0\0\0"
        await file.allocate(4)
        assert await file.size() == 8
        file.close()

    async def test_writes_of_one_caller_keep_their_order(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(file.write_and_sync, number, [bytes([number])])
        assert await file.read(0, 20) == bytes(range(20))
        file.close()

    async def test_write_and_sync_ends_even_when_cancelled(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        with trio.CancelScope() as scope:
            scope.cancel()
            await file.write_and_sync(0, [b"all or nothing"])
        assert await file.read(0, 100) in {b"", b"all or nothing"}
        file.close()

    async def test_directories(self, disk: Disk) -> None:
        await disk.make_directory("d")
        await disk.make_directory("d/e")
        with pytest.raises(FileExistsError):
            await disk.make_directory("d")
        with pytest.raises(FileNotFoundError):
            await disk.make_directory("x/y")
        file = await disk.open("d/e/f", OpenMode.CREATE)
        await file.write(0, [b"1234"])
        file.close()
        await disk.sync_directory("d/e")
        await disk.sync_directory("")
        assert await disk.file_sizes("d") == {}
        assert await disk.file_sizes("d/e") == {"f": 4}
        with pytest.raises(FileNotFoundError):
            await disk.file_sizes("x")
        assert await disk.list_directory("d") == ["e"]
        assert await disk.list_directory("d/e") == ["f"]
        await disk.unlink("d/e/f")
        assert await disk.list_directory("d/e") == []

    async def test_rename_replaces(self, disk: Disk) -> None:
        await disk.make_directory("d")
        for path, content in (("a", b"new"), ("d/b", b"old")):
            file = await disk.open(path, OpenMode.CREATE)
            await file.write_and_sync(0, [content])
            file.close()
        await disk.rename("a", "d/b")
        assert not await disk.exists("a")
        file = await disk.open("d/b", OpenMode.READ)
        assert await file.read(0, 10) == b"new"
        file.close()
        with pytest.raises(FileNotFoundError):
            await disk.rename("a", "c")

    async def test_an_unlinked_file_can_be_read_through_its_handle(self, disk: Disk) -> None:
        file = await disk.open("a", OpenMode.CREATE)
        await file.write(0, [b"abc"])
        await disk.unlink("a")
        assert await file.read(0, 3) == b"abc"
        file.close()
        with pytest.raises(FileNotFoundError):
            await disk.unlink("a")

    async def test_write_files_makes_extends_and_answers_for_each(self, disk: Disk) -> None:
        await disk.make_directory("d")
        writes = [
            FileWrite(path="d/a", extents=[(0, [b"ab", b"cd"]), (8, [b"x"])]),
            FileWrite(path="missing/b", extents=[(0, [b"lost"])]),
            FileWrite(path="c", extents=[(0, [b"c"])]),
        ]
        first, second, third = await disk.write_files(writes)
        assert first is None
        assert isinstance(second, FileNotFoundError)
        assert third is None
        assert await disk.write_files([FileWrite(path="d/a", extents=[(4, [b"ef"])])]) == [None]
        file = await disk.open("d/a", OpenMode.READ)
        assert await file.read(0, 100) == b"abcdef\0\0x"
        file.close()

    async def test_write_files_takes_more_than_one_hop(self, disk: Disk) -> None:
        writes = [FileWrite(path=f"f{number}", extents=[(0, [b"%d" % number])]) for number in range(300)]
        assert await disk.write_files(writes) == [None] * 300
        file = await disk.open("f299", OpenMode.READ)
        assert await file.read(0, 10) == b"299"
        file.close()

    @pytest.mark.parametrize("path", BAD_PATHS)
    async def test_paths_that_lead_elsewhere_are_refused(self, disk: Disk, path: str) -> None:
        with pytest.raises((OSError, ValueError)):
            await disk.open(path, OpenMode.CREATE)
        with pytest.raises((OSError, ValueError)):
            await disk.make_directory(path)
        (answer,) = await disk.write_files([FileWrite(path=path, extents=[(0, [b"x"])])])
        assert isinstance(answer, OSError)
        assert await disk.list_directory("") == []

    async def test_free_bytes_is_a_number(self, disk: Disk) -> None:
        assert await disk.free_bytes() > 0

    async def test_lock_is_for_one_owner(self, disk: Disk) -> None:
        await disk.lock()
        assert "lock" in await disk.list_directory("")
