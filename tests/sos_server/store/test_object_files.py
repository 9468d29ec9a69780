"""The handles of objects' files: how many are kept, and which are closed first."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing

from journal.disk.disk import OpenMode
from sos_client.wire.checksum import crc32c
from sos_server.objects.object_files import OBJECTS_DIRECTORY, ObjectFiles, directory_of, path_of
from sos_server.storage.object_layout import data_position
from tests.fakes.simulated_disk import SimulatedDisk
from tests.fakes.simulated_drive import SimulatedDrive

CONTENT = b"content"
KEPT_MAX = 4


@pytest.mark.parametrize(
    ("read", "opened"),
    [
        ([1, 2, 3, 4, 1, 2, 3, 4], [1, 2, 3, 4]),
        ([1, 2, 3, 4, 5, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ([1, 2, 3, 4, 1, 5, 1, 2], [1, 2, 3, 4, 5, 2]),
    ],
    ids=["as many as are kept", "one more", "the least recently used goes"],
)
def test_handles_are_kept(read: list[int], opened: list[int]) -> None:
    seen: list[str] = []

    def observe(operation: str, path: str) -> None:
        if operation == "open":
            seen.append(path)

    async def main() -> None:
        disk = SimulatedDisk(SimulatedDrive(random.Random(1)), observe=observe)
        await disk.make_directory(OBJECTS_DIRECTORY)
        await disk.make_directory(directory_of(1))
        for number in set(read):
            file = await disk.open(path_of(number), OpenMode.CREATE)
            await file.write(data_position(0), [CONTENT])
            file.close()
        seen.clear()
        files = ObjectFiles(disk, open_max=KEPT_MAX)
        for number in read:
            found = await files.read(number, 0, len(CONTENT), copied=len(CONTENT), tail_crc=crc32c(CONTENT))
            assert found == (CONTENT, crc32c(CONTENT))
        files.close()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert seen == [path_of(number) for number in opened]
