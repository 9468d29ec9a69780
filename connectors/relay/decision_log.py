"""The log of a query's decisions on the volume of its checkpoint: one writer at a time, whoever opened it last.

It lies beside the checkpoint and not in it, so that putting a checkpoint back to an earlier batch does not put the
decisions back: what sinks have committed they have committed. DECISIONS.md has the format.

Each line is an APPEND that names the size and time that the file had: of two relays the one that did not open the log
last is refused (CHANGED), and then throws a SupersededError.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from connectors.relay.decision_lines import DecisionHistory, encode_line, read_lines, state_line
from journal.errors import JournalCode, JournalError, SupersededError, UnavailableError, journal_error, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from connectors.relay.manifest import BatchManifest
    from journal.volume import FileStatus, OperationId, PathClaim, Volume

    class ClientVolume(Volume, Protocol):
        """A volume that is changed under ids of the client's making."""

        def new_operation(self) -> OperationId:
            """An id for the next change."""


DIRECTORY: Final = "_sos_connector"
FILE_LINES_MAX: Final = 500
"""Each line is an extent of its file, and an extent is copied with all before it by the next one."""
PAUSE_SECONDS: Final = 0.5
OPENINGS_MAX: Final = 8
_FILE: Final = re.compile(r"decisions-([0-9]{6})", re.ASCII)


def log_directory(checkpoint: str, query: str) -> str:
    """Where the decisions of a query lie that has its checkpoint there."""
    return "/".join(part for part in (DIRECTORY, checkpoint, query) if part)


class DecisionLog:
    """`open` it once, then `commit`, one at a time. `waits_for` says what the volume could not do yet."""

    def __init__(
        self,
        volume: ClientVolume,
        *,
        checkpoint: str,
        query: str,
        place: str,
        claim: PathClaim,
        wall_ms: Callable[[], int],
    ) -> None:
        """`place` is what the query is called at its sinks, unless the log says that it has another name there."""
        self.history = DecisionHistory()
        self.waits_for = ""
        self._volume = volume
        self._directory = log_directory(checkpoint, query)
        self._query = query
        self._place = place
        self._claim = claim
        self._wall_ms = wall_ms
        self._number = 0
        self._file: FileStatus | None = None
        self._lines = 0
        self._adding = False

    def is_of(self, manifest: BatchManifest, claim: PathClaim) -> bool:
        """Whether these are that batch's decisions, and that driver's to make."""
        directory = log_directory(manifest.checkpoint, manifest.query)
        return (self._volume.name, self._directory, self._claim) == (manifest.volume, directory, claim)

    async def open(self, *, sinks: Sequence[str], relay: str) -> None:
        """Become the one that decides. FENCED if a later driver has the log; DAMAGED; UNAVAILABLE."""
        await self._volume.claim(self._directory, self._claim, operation=self._volume.new_operation())
        for _ in range(OPENINGS_MAX):
            await self._read(len(sinks))
            if len(self.history.ends) != len(sinks):
                raise refused(
                    JournalCode.BAD_REQUEST,
                    f"query {self._query} has had {len(self.history.ends)} sinks, and {len(sinks)} are named now: rows "
                    "go to a sink by their keys and the number of sinks. Fork the checkpoint to have another number",
                )
            self._check_order(sinks)
            opened = {
                "kind": "opened",
                "generation": self.history.generation + 1,
                "relay": relay,
                "application": self._claim.application,
                "start_time": self._claim.start_time,
                "sinks": list(sinks),
                "at_ms": self._wall_ms(),
            }
            try:
                await self._append(opened)
            except SupersededError:
                continue  # another one opened it, or decided, between the reading and this
            return
        raise UnavailableError(JournalCode.UNAVAILABLE, f"others write to {self._directory} all the time")

    def _check_order(self, sinks: Sequence[str]) -> None:
        """A sink is its place in the list: one at another's place would get rows of keys that are not its own."""
        before = self.history.sinks
        if any(self.history.ends) and before != tuple(sinks) and sorted(before) == sorted(sinks):
            raise refused(
                JournalCode.BAD_REQUEST,
                f"the sinks of query {self._query} are named in another order: {', '.join(sinks)}; before, it was "
                f"{', '.join(before)}. A sink is its place in `connect`. If they have changed addresses with each "
                "other, give one of them a new one",
            )

    async def commit(self, *, transaction: str, batch: int, ends: tuple[int, ...], rows: int, plan: str = "") -> None:
        """The decision; returns when it is durable. SupersededError: it never will be. Takes as long as it takes."""
        if self._lines >= FILE_LINES_MAX:
            await self._continue()
        await self._append(
            {
                "kind": "commit",
                "transaction": transaction,
                "batch": batch,
                "ends": list(ends),
                "rows": rows,
                "plan": plan,
                "at_ms": self._wall_ms(),
            }
        )

    async def check(self) -> None:
        """SupersededError when another relay has opened the log since. (A line that is being added finds that out.)"""
        before = self._file
        assert before is not None, "it was opened"
        try:
            present = await self._volume.stat(before.path)
        except JournalError as error:
            if error.code is not JournalCode.NOT_FOUND:
                raise
            raise self._superseded() from None
        same = (present.size, present.modified_ms) == (before.size, before.modified_ms)
        if not (same or self._adding or self._file is not before):
            raise self._superseded()

    # ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, sinks: int) -> None:
        numbers = await self._numbers()
        if not numbers:
            self.history = DecisionHistory()
            self.history.begin(query=self._place, sinks=sinks)
            await self._begin_file(1, opening=True)
            return
        await self._read_file(numbers[-1])
        if self.history.next_file is not None:
            await self._begin_file(self.history.next_file, opening=True)

    async def _numbers(self) -> list[int]:
        try:
            page = await self._volume.list(self._directory)
        except JournalError as error:
            if error.code is not JournalCode.NOT_FOUND:
                raise
            return []
        names = [_FILE.fullmatch(entry.path.rpartition("/")[2]) for entry in page.entries]
        return sorted(int(found[1]) for found in names if found is not None)

    async def _read_file(self, number: int) -> None:
        path = self._path(number)
        self._file = await self._volume.stat(path)
        data = b"".join([piece async for piece in self._volume.read(path, 0, self._file.size)])
        self.history = read_lines(data, path)
        self._number, self._lines = number, data.count(b"\n")

    async def _begin_file(self, number: int, *, opening: bool) -> None:
        """A file that begins with everything that was before it.

        If there is one already, another relay has made it: who opens the log reads it, who has it open has lost it.
        """
        path = self._path(number)
        try:
            self._file = await self._volume.put(
                path,
                state_line(self.history),
                overwrite=False,
                operation=self._volume.new_operation(),
                claim=self._claim,
            )
        except JournalError as error:
            if error.code is not JournalCode.ALREADY_EXISTS:
                raise
            if not opening:
                raise self._superseded() from None
            await self._read_file(number)
            return
        self._number, self._lines = number, 1
        self.history.next_file = None
        await self._delete(number - 2)

    async def _delete(self, number: int) -> None:
        """What a relay of long ago might have open has been ended by a line: it finds nothing to append to."""
        if number > 0:
            operation = self._volume.new_operation()
            await self._volume.delete(self._path(number), recursive=False, operation=operation, claim=self._claim)

    async def _continue(self) -> None:
        number = self._number + 1
        await self._append({"kind": "continued", "file": number})
        await self._begin_file(number, opening=False)

    async def _append(self, line: dict[str, Any]) -> None:
        data = encode_line(line)
        before = self._file
        assert before is not None, "it was opened"
        self._adding = True
        while True:
            try:
                self._file = await self._volume.append(
                    before.path,
                    data,
                    size=before.size,
                    modified_ms=before.modified_ms,
                    operation=self._volume.new_operation(),
                    claim=self._claim,
                )
                break
            except JournalError as error:
                if error.code in (JournalCode.CHANGED, JournalCode.NOT_FOUND):
                    self._file = await self._landed(before, data)
                    break
                if not isinstance(error, UnavailableError):
                    raise
                self.waits_for = str(error)
            await trio.sleep(PAUSE_SECONDS)
        self.waits_for = ""
        self._adding = False
        self._lines += 1
        self.history.apply(line)

    async def _landed(self, before: FileStatus, data: bytes) -> FileStatus:
        """The file, if what was added to it is ours: an answer that was lost. SupersededError if it is another's."""
        try:
            present = await self._volume.stat(before.path)
            added = b"".join([piece async for piece in self._volume.read(before.path, before.size)])
        except JournalError as error:
            if error.code is not JournalCode.NOT_FOUND:
                raise
            added = b""
        else:
            if added == data and present.size == before.size + len(data):
                return present
        raise self._superseded()

    def _superseded(self) -> JournalError:
        return journal_error(
            JournalCode.FENCED,
            f"another relay has taken over the decisions in {self._directory}: this one may not decide any more",
            {"path": self._directory, "application": None, "start_time": None},
        )

    def _path(self, number: int) -> str:
        return f"{self._directory}/decisions-{number:06d}"
