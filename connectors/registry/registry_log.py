"""The registry's log in a volume: read what others have added, add something if nobody was faster.

Each change is one APPEND that names the size it was made for, so who adds has read all that stands before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from connectors.registry.claims import FIRST_LINE, FULL, StreamClaims, check_first_line
from journal.errors import JournalCode, JournalError
from journal.volume import PUT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.volume import FileStatus, OperationId, Volume

DIRECTORY: Final = "stream-registry"
FILE_BYTES_MAX: Final = 4 << 20
FILE_BLOCKS_MAX: Final = 2048
"""A new file begins when this one is larger by this much than three times its state: a start reads one file."""
LINE_BYTES: Final = 40
"""A line with a stream has about this many bytes."""
NUMBER_DIGITS: Final = 20


class RegistryLog:
    """`refresh` before `add`, and after an `add` that was too late."""

    def __init__(self, volume: Volume, new_operation: Callable[[], OperationId]) -> None:
        self.claims = StreamClaims()
        self._volume = volume
        self._new_operation = new_operation
        self._number = -1
        self._file: FileStatus | None = None
        self._read_bytes = 0
        self._blocks = 0

    async def refresh(self) -> None:
        """Read what was added since. Makes the log if there is none."""
        while True:
            newest = await self._newest()
            if newest is None:
                await self._create(0, [])
                continue
            number, file = newest
            if number != self._number:
                self._number, self._read_bytes, self._blocks, self.claims = number, 0, 0, StreamClaims()
            if file.size > self._read_bytes:
                await self._read(file)
            self._file = file
            if not self.claims.full:
                return
            await self._create(number + 1, self.claims.snapshot())

    async def add(self, lines: list[str]) -> bool:
        """Whether the lines are in the log now, after what was read before and nothing else. Then they are applied."""
        file = self._file
        assert file is not None, "refresh comes first"
        content = "".join(f"{line}\n" for line in lines).encode()
        assert len(content) <= PUT_BYTES_MAX
        try:
            self._file = await self._volume.append(
                file.path,
                content,
                size=file.size,
                modified_ms=file.modified_ms,
                operation=self._new_operation(),
            )
        except JournalError as error:
            if error.code in (JournalCode.CHANGED, JournalCode.NOT_FOUND):
                return False
            raise
        self._read_bytes = self._file.size
        self._blocks += 1
        self.claims.apply(lines)
        return True

    @property
    def long(self) -> bool:
        """Whether it is time for the next file: add FULL."""
        state_bytes = LINE_BYTES * (len(self.claims.points) + len(self.claims.owners))
        return self._read_bytes > FILE_BYTES_MAX + 3 * state_bytes or self._blocks > FILE_BLOCKS_MAX

    async def end_file(self) -> None:
        """Leave the file, unless somebody was faster; the next `refresh` makes the next one."""
        await self.add([FULL])

    async def _newest(self) -> tuple[int, FileStatus] | None:
        found: tuple[int, FileStatus] | None = None
        try:
            page = await self._volume.list(DIRECTORY)
        except JournalError as error:
            if error.code is not JournalCode.NOT_FOUND:
                raise
            return None
        for entry in page.entries:
            name = entry.path.rpartition("/")[2]
            if len(name) == NUMBER_DIGITS and name.isdigit() and name.isascii():
                found = int(name), entry
        return found

    async def _read(self, file: FileStatus) -> None:
        """All that was added, in whole lines: an APPEND is whole or not at all."""
        pieces = [piece async for piece in self._volume.read(file.path, self._read_bytes, file.size - self._read_bytes)]
        lines = b"".join(pieces).decode("utf-8", "replace").splitlines()
        if not self._read_bytes:
            check_first_line(lines.pop(0) if lines else "")
        self.claims.apply(lines)
        self._read_bytes = file.size
        self._blocks += 1

    async def _create(self, number: int, lines: list[str]) -> None:
        """The file of this number, which begins with this state, unless somebody has made it: with the same."""
        content = "".join(f"{line}\n" for line in [FIRST_LINE, *lines]).encode()
        path = f"{DIRECTORY}/{number:0{NUMBER_DIGITS}d}"
        write = await self._volume.open_write(path, overwrite=False, operation=self._new_operation())
        try:
            for start in range(0, len(content), PUT_BYTES_MAX):
                await write.write(content[start : start + PUT_BYTES_MAX])
            await write.commit()
        except JournalError as error:
            if error.code is not JournalCode.ALREADY_EXISTS:
                raise
        finally:
            await write.cancel()  # harmless after the commit
        if number > 1:  # who still reads the one before finds its end; nobody needs those before it
            old = f"{DIRECTORY}/{number - 2:0{NUMBER_DIGITS}d}"
            await self._volume.delete(old, recursive=False, operation=self._new_operation())
