"""What must be true of a volume's history: what clients were told, held against the one order that the log is.

The log, read back after everything, says which operations happened and in which order. From it a simple model (a
dictionary) gives what the tree was at every LSN. Then every operation that was ever answered must fit:

- acknowledged: it is in the log, once, and its answer is what the model gives at its place;
- refused, or nothing to do: as for a read, there was a moment at which that was so (an owner that does not know yet
  that it was replaced may say so late: it changes nothing by it);
- said not to have happened: it is not in the log;
- one after the other in real time: one after the other in the log;
- read: that content was there at some moment, no earlier than what the same client saw before, and no later than
  anything that was asked for after the answer;
- added to: the file was just the one, by size and time, that its writer knew, and has what was added at its end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode
from journal.image.image import Image
from journal.records.change import AppendChange, CommitChange, DeleteChange, PutChange, RenameChange, decode_change
from journal.records.record import Kind
from journal.records.segment import decode_segment_header
from journal.volume import FileStatus
from sos_client.wire.checksum import crc32c
from tests.simulation.journal_rights import REFUSALS

if TYPE_CHECKING:
    from journal.records.record import Record
    from tests.simulation.journal_rights import JournalRights
    from tests.simulation.world import World

OperationKey = tuple[bytes, int]
FAR: Final = 1 << 62
UNDONE: Final = frozenset({JournalCode.UNAVAILABLE, JournalCode.NO_SPACE})
"""Answers that promise that nothing was changed."""
UNKNOWN: Final = frozenset({JournalCode.OUTCOME_UNKNOWN, JournalCode.EXPIRED})
"""Answers that leave open whether something was changed: nobody can tell any more, or not yet."""


@dataclass(slots=True, kw_only=True)
class Operation:
    """One operation as its client saw it. `answer` None: never answered (its client died, or gave up)."""

    client: str
    kind: str
    path: str
    target: str = ""
    payload: bytes = b""
    based_on: tuple[int, int] | None = None
    """Of an append: size and time of the file that it is for."""
    key: OperationKey | None = None
    asked: int
    asked_at: float = 0.0
    """When, by the time that has really passed."""
    answered_at: float = float("inf")
    answered: int = FAR
    answer: object = None
    refusal: JournalCode | None = None


@dataclass(slots=True)
class History:
    """All operations of a run, in the order in which they were asked. Moments are counted, not timed."""

    operations: list[Operation] = field(default_factory=list)
    _unanswered: list[Operation] = field(default_factory=list)
    _moment: int = 0

    def ask(
        self,
        client: str,
        kind: str,
        path: str,
        *,
        target: str = "",
        payload: bytes = b"",
        based_on: tuple[int, int] | None = None,
        key: OperationKey | None = None,
    ) -> Operation:
        operation = Operation(
            client=client,
            kind=kind,
            path=path,
            target=target,
            payload=payload,
            based_on=based_on,
            key=key,
            asked=self._next(),
        )
        operation.asked_at = trio.current_time()
        self.operations.append(operation)
        self._unanswered.append(operation)
        return operation

    def answered(self, operation: Operation, answer: object, refusal: JournalCode | None = None) -> None:
        operation.answered, operation.answer, operation.refusal = self._next(), answer, refusal
        operation.answered_at = trio.current_time()
        self._unanswered = [one for one in self._unanswered if one is not operation]

    def under_way(self) -> list[str]:
        """What changes that have not been answered yet would change."""
        return [one.target or one.path for one in self._unanswered if one.kind != "read"]

    def _next(self) -> int:
        self._moment += 1
        return self._moment


class LogModel:
    """The tree at every LSN, from the records; and the image, which must say the same."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.places: dict[OperationKey, int] = {}
        """Where each operation is: the LSN at which its record ends."""
        self.begins: dict[OperationKey, int] = {}
        """The LSN at which its record begins: the moment that it ended."""
        self.written_by: dict[OperationKey, int] = {}
        """The epoch of its record."""
        self.chains: dict[int, bytes] = {}
        """The chain value after each record."""
        self.versions: dict[str, list[tuple[int, bytes | None]]] = defaultdict(lambda: [(0, None)])
        """Each path's content from an LSN on."""
        self.times: dict[str, list[tuple[int, int]]] = defaultdict(lambda: [(0, 0)])
        """When each path's file was changed, from an LSN on."""
        self.end = 0
        self.image = Image()
        self._files: dict[str, bytes] = {}
        self._modified_ms: dict[str, int] = {}
        self._uploads: dict[int, bytearray] = {}
        self._epochs: dict[int, bytes] = {}

    def add(self, record: Record) -> None:
        """Take the next record."""
        header, require = record.header, self.world.require
        require(header.lsn == self.end, f"the log has a gap: {self.end} to {header.lsn}")
        later = header.time_ms > self.image.time_ms
        require(later, f"time goes back at LSN {header.lsn}: {self.image.time_ms} to {header.time_ms}")
        self.image.apply_record(record)
        self.end = header.end_lsn
        self.chains[self.end] = header.chain
        if header.kind is Kind.HEADER:
            self._open_segment(record)
            return
        changed = self._apply(record)
        for path, content in changed.items():
            self.versions[path].append((self.end, content))
            self.times[path].append((self.end, self._modified_ms.get(path, 0)))
            self._compare(path, content)
        if header.client != bytes(16) and header.kind not in (Kind.CHUNK, Kind.ABANDON):
            key = (header.client, header.sequence)
            require(key not in self.places, f"operation {header.sequence} of {header.client.hex()} was done twice")
            self.places[key], self.begins[key] = self.end, header.lsn
            self.written_by[key] = max(self._epochs)

    def content_at(self, path: str, lsn: int) -> bytes | None:
        versions = self.versions[path]
        return versions[bisect_left(versions, (lsn + 1,)) - 1][1]

    def time_at(self, path: str, lsn: int) -> int:
        times = self.times[path]
        return times[bisect_left(times, (lsn + 1,)) - 1][1]

    def moments(self, path: str, first: int, last: int) -> list[int]:
        """All LSNs in [first, last] at which the path may look different: the first, and each change."""
        return [first, *(lsn for lsn, _ in self.versions[path] if first < lsn <= last)]

    def _open_segment(self, record: Record) -> None:
        segment = decode_segment_header(record.meta)
        if segment.base is not None:
            same = self.chains.get(segment.base.end) == segment.base.chain
            self.world.require(same, f"{segment.name} goes on from another past than the one that was read")
        if segment.epoch not in self._epochs:
            self._uploads.clear()  # whose writers had connections to the owner of before
        holder = self._epochs.setdefault(segment.epoch, segment.holder)
        self.world.require(holder == segment.holder, f"epoch {segment.epoch} has two holders")
        newest = max(self._epochs)
        self.world.require(segment.epoch == newest, f"epoch {segment.epoch} writes after epoch {newest} has")

    def _apply(self, record: Record) -> dict[str, bytes | None]:
        files, times, payload = self._files, self._modified_ms, bytes(record.payload)
        match decode_change(record.header, record.meta):
            case PutChange(path=path, modified_ms=modified_ms):
                files[path], times[path] = payload, modified_ms or record.header.time_ms
                return {path: payload}
            case AppendChange(path=path, size=size):
                self.world.require(len(files[path]) == size, f"{path} had other than the {size} bytes that it grows by")
                files[path], times[path] = files[path] + payload, record.header.time_ms
                return {path: files[path]}
            case CommitChange(upload=upload, path=path, modified_ms=modified_ms):
                files[path], times[path] = bytes(self._uploads.pop(upload)), modified_ms or record.header.time_ms
                return {path: files[path]}
            case DeleteChange(path=path):
                files.pop(path, None)
                return {path: None}
            case RenameChange(source=source, target=target):
                if source != target:
                    files[target], times[target] = files.pop(source), times.pop(source)
                return {source: None, target: files[target]}
            case change:
                if record.header.kind is Kind.CHUNK:
                    self._uploads.setdefault(change.upload, bytearray()).extend(payload)  # type: ignore[union-attr]
                return {}

    def _compare(self, path: str, content: bytes | None) -> None:
        status = self.image.tree.find(path)
        if content is None:
            self.world.require(status is None, f"at LSN {self.end} the image has {path}, which is gone")
            return
        same = status is not None and status.size == len(content) and status.crc in (None, crc32c(content))
        same = same and status.modified_ms == self._modified_ms[path]  # type: ignore[union-attr]
        self.world.require(same, f"at LSN {self.end} the image has another {path} than the records give")


def check_history(world: World, model: LogModel, history: History, rights: JournalRights | None = None) -> None:
    """Hold everything that clients were told against the log. `rights` None: everybody may do everything."""
    for operation in history.operations:
        _check_rights(world, model, operation, rights)
    floors, ceilings = _bounds(model, history)
    seen: dict[str, int] = defaultdict(int)
    for operation, floor, ceiling in zip(history.operations, floors, ceilings, strict=True):
        if operation.kind == "read":
            _check_read(world, model, operation, seen, ceiling)
        else:
            _check_change(world, model, operation, floor, ceiling, shown=seen[operation.client])
            place = model.places.get(operation.key) if operation.key else None
            if place is not None and operation.answered < FAR and operation.refusal is None:
                seen[operation.client] = max(seen[operation.client], place)


def _check_rights(world: World, model: LogModel, operation: Operation, rights: JournalRights | None) -> None:
    """What is in the log was allowed when it was written, and nobody is refused who may do what he asks for."""
    name = f"{operation.kind} {operation.path} by {operation.client}"
    if operation.refusal in REFUSALS:
        taken = rights is not None and rights.may_refuse(operation, until=operation.answered_at)
        world.require(taken, f"{name} was answered {operation.refusal!r}; nobody had taken that right away")
    place = _place(model, operation)
    if rights is not None and place is not None and operation.key is not None:
        begin, epoch = model.begins[operation.key], model.written_by[operation.key]
        allowed = rights.allowed(operation, epoch, begin)
        world.require(allowed, f"{name} is at {place} in the log, written after its right was taken away")


def _bounds(model: LogModel, history: History) -> tuple[list[int], list[int]]:
    """For each operation: the LSN that was acknowledged when it was asked, and the last one possible for its answer."""
    moments: list[tuple[int, bool, int]] = []
    for number, operation in enumerate(history.operations):
        moments += [(operation.asked, True, number), (operation.answered, False, number)]
    moments.sort()
    floors, ceilings = [0] * len(history.operations), [model.end] * len(history.operations)
    acknowledged = 0
    for _, is_question, number in moments:
        place = _place(model, history.operations[number])
        if is_question:
            floors[number] = acknowledged
        elif place is not None and history.operations[number].answered < FAR:
            acknowledged = max(acknowledged, place)
    first_later = model.end + 1
    for _, is_question, number in reversed(moments):
        place = _place(model, history.operations[number])
        if is_question and place is not None:
            first_later = min(first_later, place)
        elif not is_question:
            ceilings[number] = first_later - 1
    return floors, ceilings


def _place(model: LogModel, operation: Operation) -> int | None:
    return model.places.get(operation.key) if operation.key is not None else None


def _check_change(world: World, model: LogModel, operation: Operation, floor: int, ceiling: int, *, shown: int) -> None:
    """`shown` is what this client has seen before: an answer that changes nothing is as old as a read may be."""
    name = f"{operation.kind} {operation.path} by {operation.client}"
    place = _place(model, operation)
    if place is not None:
        world.require(place > floor, f"{name} is at {place} in the log; {floor} was acknowledged before it was asked")
        world.require(operation.refusal not in UNDONE, f"{name} was said not to be done; it is in the log")
        if operation.answered == FAR or operation.refusal in UNKNOWN:
            return
        world.require(operation.refusal is None, f"{name} was refused ({operation.refusal!r}); it is in the log")
        world.require(_allowed(model, operation, place - 1), f"{name} at {place} should have been refused")
        if isinstance(status := operation.answer, FileStatus):
            file = model.content_at(operation.path, place), model.time_at(operation.path, place)
            told = file[0] is not None and (len(file[0]), file[1]) == (status.size, status.modified_ms)
            world.require(told, f"{name} at {place} was answered {status.size} bytes of {status.modified_ms}, not so")
        return
    if operation.answered == FAR or operation.refusal in UNKNOWN | UNDONE | REFUSALS:
        return
    changes_nothing = operation.refusal is not None or operation.answer is False
    world.require(changes_nothing, f"{name} was acknowledged; it is not in the log")
    right = any(
        not _allowed(model, operation, lsn)
        for path in (operation.path, operation.target or operation.path)
        for lsn in model.moments(path, shown, max(shown, ceiling))
    )
    why = operation.refusal.name if operation.refusal is not None else "that there was nothing to do"
    world.require(right, f"{name} was answered {why}, which was not so at any moment between {shown} and {ceiling}")


def _allowed(model: LogModel, operation: Operation, lsn: int) -> bool:
    """Whether the operation changes something when it comes at this moment."""
    there = model.content_at(operation.path, lsn) is not None
    match operation.kind:
        case "put":
            return True
        case "create":
            return not there
        case "delete":
            return there
        case "rename":
            return there and model.content_at(operation.target, lsn) is None
        case "append":
            content = model.content_at(operation.path, lsn)
            return content is not None and (len(content), model.time_at(operation.path, lsn)) == operation.based_on
        case kind:
            raise AssertionError(kind)


def _check_read(world: World, model: LogModel, operation: Operation, seen: dict[str, int], ceiling: int) -> None:
    absent = operation.refusal is JournalCode.NOT_FOUND
    if operation.answered == FAR or (operation.refusal is not None and not absent):
        return
    wanted = None if absent else operation.answer
    floor = seen[operation.client]
    for lsn in model.moments(operation.path, floor, max(ceiling, floor)):
        if model.content_at(operation.path, lsn) == wanted:
            seen[operation.client] = lsn
            return
    shown = "nothing" if absent else f"{len(operation.answer)} bytes"  # type: ignore[arg-type]
    world.require(
        promise=False,
        sentence=f"{operation.client} read {shown} at {operation.path}, which was not so between {floor} and {ceiling}",
    )
