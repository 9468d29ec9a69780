"""Holds what clients were told against the log, and says in a sentence each what does not fit. Pure.

A *call* is one thing that a client asked for, from when to when, and what it was told. The log says which changes were
made, and in which order. Then:

- done: its record is in the log, once, and says what was asked for;
- said not to have been done, or refused: it is not in the log;
- nobody asked for it: it is not in the log (a phantom);
- asked for after another one was answered: it comes later in the log, and its time is later;
- a change that was made could be made where it stands: no creation of what is there, no renaming of what is not, no
  append to another file than the one, by size and time, that was named;
- a refusal, or "there was nothing to do": there was a moment at which that was so;
- a read: the path had that content at some moment.

Such a moment is not before what the same client has been shown already, and not after anything that was asked for only
after the answer.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.histories.log_bytes import LogRecord

PUT, CHUNK, COMMIT, APPEND, TRUNCATE, DELETE, RENAME = 2, 3, 4, 6, 7, 8, 9
FAR: Final = float("inf")
DONE: Final = "done"
NOTHING: Final = "nothing"
"""There was nothing to do: a DELETE of what is not there."""
UNKNOWN: Final = frozenset({"OUTCOME_UNKNOWN", "EXPIRED", "no answer"})
"""It may have been done or not."""
UNDONE: Final = frozenset({"UNAVAILABLE", "NO_SPACE", "SHUTTING_DOWN"})
"""It was not done, and nothing is said about the files."""
JUDGED: Final = frozenset({"ALREADY_EXISTS", "NOT_FOUND", "CHANGED"})
"""Refusals that say something about the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a client asked for, and was told. Content is named by its digest; None is not content."""

    client: str
    kind: str
    """put, create, append, delete, rename, read."""
    path: str
    target: str = ""
    asked: float
    answered: float = FAR
    answer: str = "no answer"
    """`done`, `nothing`, or the name of an error code."""
    content: str | None = None
    """Of a put or append what was sent, of a read what came."""
    based_on: tuple[int, int] | None = None
    """Of an append: size and time of the file that it is for."""
    operation: tuple[str, int] | None = None
    """The id of a change: client in hex, sequence."""


def digest_of(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]


def to_lines(calls: Iterable[Call]) -> Iterator[str]:
    """One JSON object a line."""
    return (json.dumps(asdict(call)) for call in calls)


def from_lines(lines: Iterable[str]) -> list[Call]:
    calls = [Call(**json.loads(line)) for line in lines]
    return [_with_tuple(call) for call in calls]


def _with_tuple(call: Call) -> Call:
    operation = None if call.operation is None else (call.operation[0], call.operation[1])
    based_on = None if call.based_on is None else (call.based_on[0], call.based_on[1])
    return Call(**{**asdict(call), "operation": operation, "based_on": based_on})


@dataclass(slots=True)
class _Past:
    """What the log says: where each operation is, and each path's content, size and time over time."""

    places: dict[tuple[str, int], list[LogRecord]] = field(default_factory=lambda: defaultdict(list))
    versions: dict[str, list[tuple[int, str | None]]] = field(default_factory=lambda: defaultdict(lambda: [(0, None)]))
    stamps: dict[str, list[tuple[int, tuple[int, int] | None]]] = field(
        default_factory=lambda: defaultdict(lambda: [(0, None)])
    )
    joined: set[int] = field(default_factory=set)
    """Where a file's content was written again, as an owner does to make one piece of many: nothing is another."""
    findings: list[str] = field(default_factory=list)
    end: int = 0
    _epoch: int = 0
    _times: dict[str, int] = field(default_factory=dict)
    _files: dict[str, bytes] = field(default_factory=dict)
    _uploads: dict[int, bytes] = field(default_factory=dict)

    def take(self, record: LogRecord, last_ms: int) -> None:
        if record.begin != self.end:
            self.findings.append(f"the log has a gap before LSN {record.begin}")
        if record.time_ms <= last_ms:
            self.findings.append(f"time goes back at LSN {record.begin}")
        self.end = record.end
        for path in self._apply(record):
            content = self._files.get(path)
            stamp = None if content is None else (len(content), self._times[path])
            version = None if content is None else digest_of(content)
            if record.kind == COMMIT and (version, stamp) == (self.versions[path][-1][1], self.stamps[path][-1][1]):
                self.joined.add(record.begin)
            self.versions[path].append((record.end, version))
            self.stamps[path].append((record.end, stamp))
        if any(record.client) and record.kind not in (CHUNK, 5):
            self.places[record.client.hex(), record.sequence].append(record)

    def _apply(self, record: LogRecord) -> set[str]:
        """The paths whose content may be another one now."""
        files, times, meta = self._files, self._times, record.meta
        match record.kind:
            case 1:
                if meta[3] != self._epoch:
                    self._uploads.clear()  # a new owner goes on with none
                self._epoch = meta[3]
            case 2:
                files[meta[0]], times[meta[0]] = record.payload, meta[1] or record.time_ms
                return {meta[0]}
            case 3:
                self._uploads[meta[0]] = self._uploads.get(meta[0], b"") + record.payload
            case 4:
                files[meta[1]], times[meta[1]] = self._uploads.pop(meta[0], b""), meta[3] or record.time_ms
                return {meta[1]}
            case 6:
                if len(files.get(meta[0], b"")) != meta[1]:
                    self.findings.append(f"{meta[0]} had other than {meta[1]} bytes when it grew, LSN {record.begin}")
                files[meta[0]], times[meta[0]] = files.get(meta[0], b"") + record.payload, record.time_ms
                return {meta[0]}
            case 7:
                files[meta[0]], times[meta[0]] = files.get(meta[0], b"")[: meta[1]], record.time_ms
                return {meta[0]}
            case 8:
                gone = set(_at_or_below(files, meta[0]))
                for path in gone:
                    del files[path]
                return gone
            case 9:
                gone = set(_at_or_below(files, meta[0]))
                moved = {meta[1] + path[len(meta[0]) :]: (files.pop(path), times.pop(path)) for path in gone}
                files.update({path: content for path, (content, _) in moved.items()})
                times.update({path: time_ms for path, (_, time_ms) in moved.items()})
                return gone | moved.keys()
        return set()

    def content_at(self, path: str, lsn: int) -> str | None:
        versions = self.versions[path]
        return versions[bisect_right(versions, lsn, key=lambda version: version[0]) - 1][1]

    def stamp_at(self, path: str, lsn: int) -> tuple[int, int] | None:
        stamps = self.stamps[path]
        return stamps[bisect_right(stamps, lsn, key=lambda stamp: stamp[0]) - 1][1]

    def moments(self, path: str, first: int, last: int) -> list[int]:
        return [first, *(lsn for lsn, _ in self.versions[path] if first < lsn <= last)]


def _at_or_below(files: dict[str, bytes], path: str) -> list[str]:
    return [one for one in files if one == path or one.startswith(f"{path}/")]


def check(calls: Sequence[Call], records: Sequence[LogRecord], *, strangers: Iterable[str] = ()) -> list[str]:
    """What does not fit, in words; empty if everything does.

    `strangers`: clients (in hex) whose changes are not in `calls`, e.g. of the owner itself.
    """
    past, last_ms = _Past(), -1
    for record in records:
        past.take(record, last_ms)
        last_ms = record.time_ms
    findings = list(past.findings)
    findings += _phantoms(calls, past, set(strangers))
    floors, ceilings = _bounds(calls, past)
    shown: dict[str, int] = defaultdict(int)
    for call in sorted(calls, key=lambda one: one.asked):
        number = id(call)
        if call.kind == "read":
            findings += _check_read(call, past, shown, ceilings[number])
        else:
            findings += _check_change(call, past, floors[number], shown[call.client], ceilings[number])
            place = _place(call, past)
            if place is not None and call.answer == DONE:
                shown[call.client] = max(shown[call.client], place.end)
    return findings


def _place(call: Call, past: _Past) -> LogRecord | None:
    found = past.places.get(call.operation) if call.operation is not None else None
    return found[0] if found else None


def _phantoms(calls: Sequence[Call], past: _Past, strangers: set[str]) -> Iterator[str]:
    asked = {call.operation: call for call in calls if call.operation is not None}
    for operation, records in past.places.items():
        if operation[0] in strangers:
            continue
        name = f"operation {operation[1]} of {operation[0]}"
        if len(records) > 1:
            yield f"{name} was done {len(records)} times, at LSN {', '.join(str(one.begin) for one in records)}"
        call = asked.get(operation)
        if call is None and records[0].begin in past.joined:
            continue
        if call is None:
            yield f"{name} at LSN {records[0].begin} was never asked for"
        elif (what := _differs(call, records[0])) is not None:
            yield f"{name} at LSN {records[0].begin} is not what was asked for: {what}"


def _differs(call: Call, record: LogRecord) -> str | None:
    kinds = {
        "put": (PUT, COMMIT),
        "create": (PUT, COMMIT),
        "append": (APPEND,),
        "delete": (DELETE,),
        "rename": (RENAME,),
    }
    if record.kind not in kinds[call.kind]:
        return f"a record of kind {record.kind} for a {call.kind}"
    paths = record.meta[1:2] if record.kind == COMMIT else record.meta[: 2 if record.kind == RENAME else 1]
    wanted = [call.path, call.target] if call.kind == "rename" else [call.path]
    if list(paths) != wanted:
        return f"{paths} for {wanted}"
    if record.kind in (PUT, APPEND) and digest_of(record.payload) != call.content:
        return "other content"
    return None


def _bounds(calls: Sequence[Call], past: _Past) -> tuple[dict[int, int], dict[int, int]]:
    """For each call: what was acknowledged when it was asked, and the last moment that its answer can be of."""
    moments = sorted(
        [(call.asked, 1, number) for number, call in enumerate(calls)]
        + [(call.answered, 0, number) for number, call in enumerate(calls) if call.answered < FAR]
    )
    floors, ceilings = {id(call): 0 for call in calls}, {id(call): past.end for call in calls}
    highest = 0
    for _, is_question, number in moments:
        call, place = calls[number], _place(calls[number], past)
        if is_question:
            floors[id(call)] = highest
        elif place is not None and call.answer == DONE:
            highest = max(highest, place.end)
    lowest = past.end + 1
    for _, is_question, number in reversed(moments):
        call, place = calls[number], _place(calls[number], past)
        if is_question:
            lowest = lowest if place is None else min(lowest, place.end)
        else:
            ceilings[id(call)] = lowest - 1
    return floors, ceilings


def _check_change(call: Call, past: _Past, floor: int, shown: int, ceiling: int) -> Iterator[str]:
    name, place = f"{call.kind} {call.path} by {call.client}, asked at {call.asked:.3f}", _place(call, past)
    if place is None:
        if call.answer == DONE:
            yield f"{name}, was acknowledged; it is not in the log"
        elif call.answer in JUDGED | {NOTHING} and not _was_so(call, past, shown, max(shown, ceiling)):
            yield f"{name}, was answered {call.answer}, which was never so between LSN {shown} and {ceiling}"
        return
    if call.answer not in UNKNOWN and call.answer != DONE:
        yield f"{name}, was answered {call.answer}; it is in the log at LSN {place.begin}"
    if place.end <= floor:
        yield f"{name}, is at LSN {place.begin}; up to {floor} all was acknowledged before it was asked for"
    if not _could(call, past, place.begin):
        yield f"{name}, at LSN {place.begin} should have been refused"


def _could(call: Call, past: _Past, lsn: int) -> bool:
    """Whether the change does something at this moment."""
    there = past.content_at(call.path, lsn) is not None
    match call.kind:
        case "put":
            return True
        case "create":
            return not there
        case "delete":
            return there
        case "append":
            return there and past.stamp_at(call.path, lsn) == call.based_on
        case _:
            return there and past.content_at(call.target, lsn) is None


def _was_so(call: Call, past: _Past, first: int, last: int) -> bool:
    paths = [call.path, call.target] if call.target else [call.path]
    return any(not _could(call, past, lsn) for path in paths for lsn in past.moments(path, first, last))


def _check_read(call: Call, past: _Past, shown: dict[str, int], ceiling: int) -> Iterator[str]:
    if call.answer not in (DONE, "NOT_FOUND"):
        return
    wanted, first = (call.content if call.answer == DONE else None), shown[call.client]
    for lsn in past.moments(call.path, first, max(first, ceiling)):
        if past.content_at(call.path, lsn) == wanted:
            shown[call.client] = lsn
            return
    yield (
        f"{call.client} read {'nothing' if wanted is None else wanted} at {call.path}, asked at {call.asked:.3f}, "
        f"which was never so between LSN {first} and {ceiling}"
    )
