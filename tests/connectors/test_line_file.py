"""A file as a stream of lines: offsets as ids, files that grow, are replaced, cut short."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import trio
import trio.lowlevel
import trio.testing

from connectors.source import line_file
from connectors.source.line_file import LINE_BYTES_MAX, REPLACED_SECONDS, LineFile
from sos_client.wire.errors import MisuseError

if TYPE_CHECKING:
    from pathlib import Path


async def read(path: Path, start: int = 0, *, follow: bool = False) -> list[tuple[int, bytes]]:
    file = LineFile(path)
    try:
        return [line async for block in file.blocks(start, follow=follow) for line in zip(*block, strict=True)]
    finally:
        file.close()


async def test_ids_are_offsets_and_where_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\n\ntwo\r\nlast")
    assert await read(path) == [(4, b"one"), (5, b""), (10, b"two\r"), (14, b"last")]
    for start, left in ((4, 3), (5, 2), (10, 1), (14, 0)):
        assert len(await read(path, start)) == left


async def test_lines_over_many_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file, "READ_BYTES", 7)
    path = tmp_path / "f"
    lines = [b"x" * n for n in range(40)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert [content for _, content in await read(path)] == lines


async def test_a_file_that_grows_and_is_replaced(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\ntw")
    found: list[bytes] = []
    async with trio.open_nursery() as nursery:

        async def follow() -> None:
            found.extend([content for _, content in await read(path, follow=True)])

        nursery.start_soon(follow)
        with path.open("ab") as file:
            await trio.sleep(1)
            file.write(b"o\nthree\n")
            file.flush()
            await trio.sleep(1)
            path.rename(tmp_path / "f.1")
            path.write_bytes(b"of the next file\n")
            await trio.sleep(REPLACED_SECONDS / 2)
            file.write(b"late\nunfinished")
        await trio.lowlevel.checkpoint()
    assert found == [b"one", b"two", b"three", b"late", b"unfinished"]


async def test_the_stream_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"first\nmore\n")
    file = LineFile(path)
    first = file.stream_id("p")
    path.rename(tmp_path / "f.1")
    renamed = LineFile(tmp_path / "f.1")
    assert renamed.stream_id("p") == first != renamed.stream_id("q")
    path.write_bytes(b"second\n")
    assert LineFile(path).stream_id("p") != first
    assert file.replaced()
    assert first < 1 << 63


@pytest.mark.parametrize("start", [5, 100])
async def test_a_file_that_is_shorter_than_what_was_sent_of_it(tmp_path: Path, start: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\n")
    with pytest.raises(MisuseError, match="cut short"):
        await read(path, start)


@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_a_line_that_is_too_long(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"first\n" + b"x" * (LINE_BYTES_MAX + 1) + end)
    file, found = LineFile(path), list[bytes]()

    async def read_all() -> None:
        async for block in file.blocks(0, follow=False):
            found.extend(block.contents)

    with pytest.raises(MisuseError, match=r"a line of more than .* at offset 6"):
        await read_all()
    assert found == [b"first"]
    file.close()


def test_a_first_line_that_still_grows_is_no_identity_yet(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"hel")
    file = LineFile(path)
    assert file.first_line() is None
    path.write_bytes(b"hello\nmore")
    assert file.first_line() == b"hello"
    assert file.stream_id("p") == LineFile(path).stream_id("p")
    path.write_bytes(bytes(9000))
    assert file.first_line() == bytes(4096)


def test_handles_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"")
    file = LineFile(path)
    file.close()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(file._handle)
