"""The answers that were given, so that an operation sent again gets the first answer and is never run twice. Pure.

Answers to operations that left a record are rebuilt from records and lie in index snapshots; answers that left none
(refusals, "there was nothing to delete") are in memory only. An operation id older than what is kept is refused
(EXPIRED), never run.

Recorded answers are kept packed, as index snapshots have them: there are up to 65,536, hardly one is ever asked for, a
snapshot takes them all, and the garbage collector need not look at bytes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from journal.errors import JournalCode, JournalError, SupersededError, refused
from journal.volume import FileStatus, OperationId
from sos_client.wire.msgpack_edge import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Answer: TypeAlias = "FileStatus | bool | JournalError | None"

# Clients give up after 120 s; answers are kept five times as long, unless more than ANSWERS_MAX come in that time.
WINDOW_MS: Final = 600_000
# Time from one answer to the next counts as this at most: a wall clock set forward by an hour, or a takeover by a
# service whose clock is ahead, must not expire what somebody is about to ask for again.
STEP_MS_MAX: Final = 60_000
ANSWERS_MAX: Final = 65_536
# After their answers are gone, this many clients are remembered by the last operation that expired: 16 + 8 bytes each.
CLIENTS_MAX: Final = 16_384


class KeptAnswer(NamedTuple):
    """One answer, with the time of its record."""

    operation: OperationId
    time_ms: int
    answer: Answer
    recorded: bool  # whether a record stands for it


Entry: TypeAlias = "bytes | KeptAnswer"  # packed if a record stands for it


@dataclass(slots=True)
class _Client:
    expired: int = 0  # every operation up to this one is older than the window
    answers: dict[int, Entry] = field(default_factory=dict)


class OperationWindow:
    """Answers by operation id, bounded by time and by number."""

    def __init__(self) -> None:
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()
        # Client, sequence, time of the record, age of the window at that time, answer; oldest first.
        self._kept: deque[tuple[bytes, int, int, int, Entry]] = deque()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, operation: OperationId) -> KeptAnswer | None:
        """The first answer, or None if the operation has not been answered.

        SupersededError (EXPIRED) if nobody can tell.
        """
        client = self._clients.get(operation.client)
        if client is None:
            return None
        kept = client.answers.get(operation.sequence)
        if kept is None and operation.sequence <= client.expired:
            raise SupersededError(
                JournalCode.EXPIRED,
                f"operation {operation.sequence} of client {operation.client.hex()} is older than the answers that are "
                "kept: it is not run; whether it was, the files themselves show",
                client=operation.client,
                sequence=operation.sequence,
            )
        return _unpacked(kept) if type(kept) is bytes else cast("KeptAnswer | None", kept)

    def keep(self, operation: OperationId, answer: Answer, *, time_ms: int, recorded: bool) -> None:
        """Remember an answer. The first one stays."""
        name, sequence = operation
        entry: Entry
        if recorded:
            entry = _packed(name, sequence, time_ms, answer)
        else:
            entry = KeptAnswer(operation, time_ms, answer, recorded)
        self._add(name, sequence, time_ms, entry)
        first_age_ms, last_age_ms = self._kept[0][3], self._kept[-1][3]
        if first_age_ms < last_age_ms - WINDOW_MS or len(self._kept) > ANSWERS_MAX:
            self._expire(last_age_ms - WINDOW_MS)
        if len(self._clients) > CLIENTS_MAX:
            self._forget_clients()

    def _add(self, name: bytes, sequence: int, time_ms: int, entry: Entry) -> None:
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = _Client()
        else:
            self._clients.move_to_end(name)
        if sequence in client.answers:
            return
        client.answers[sequence] = entry
        age_ms = 0
        if self._kept:
            _, _, last_ms, last_age_ms, _ = self._kept[-1]
            age_ms = last_age_ms + min(time_ms - last_ms, STEP_MS_MAX)
        self._kept.append((name, sequence, time_ms, age_ms, entry))

    def _expire(self, before_age_ms: int) -> None:
        while self._kept and (self._kept[0][3] < before_age_ms or len(self._kept) > ANSWERS_MAX):
            name, sequence, _, _, _ = self._kept.popleft()
            client = self._clients[name]
            del client.answers[sequence]
            client.expired = max(client.expired, sequence)

    def _forget_clients(self) -> None:
        for _ in range(len(self._clients) - CLIENTS_MAX):
            oldest = next(iter(self._clients))
            if self._clients[oldest].answers:
                break
            del self._clients[oldest]

    def answers(self) -> list[bytes]:
        """What a snapshot must carry, oldest first: msgpack of [client, sequence, time, answer] each."""
        return [kept for _, _, _, _, kept in self._kept if type(kept) is bytes]

    def expired(self) -> Iterator[tuple[bytes, int]]:
        """Each client whose operations have begun to expire, with the last one that did, longest silent first."""
        return ((client, state.expired) for client, state in self._clients.items() if state.expired)

    def restore_expired(self, client: bytes, sequence: int) -> None:
        """Take over what `expired` said, before any answers."""
        self._clients.setdefault(client, _Client()).expired = sequence

    def restore_answers(self, packed: Iterable[tuple[bytes, int, int, bytes]]) -> None:
        """Take over what `answers` gave, oldest first: (client, sequence, time, as it was given). Into an empty window.

        As `keep` of each, but nothing is packed again: a start of the service waits for 65,536 of them.
        """
        for name, sequence, time_ms, entry in packed:
            self._add(name, sequence, time_ms, entry)
        if self._kept:
            self._expire(self._kept[-1][3] - WINDOW_MS)
        self._forget_clients()

    def copy(self, until_ms: int | None = None) -> OperationWindow:
        """An independent copy (answers themselves are shared: they never change), without those after `until_ms`."""
        other = OperationWindow()
        other._kept = self._kept.copy()
        for client, state in self._clients.items():
            other._clients[client] = _Client(expired=state.expired, answers=dict(state.answers))
        while until_ms is not None and other._kept and other._kept[-1][2] > until_ms:
            client, sequence, _, _, _ = other._kept.pop()
            del other._clients[client].answers[sequence]
        return other


def used_already(operation: OperationId) -> JournalError:
    """For a client that gives two changes of different kinds one id: the first one's answer would make no sense."""
    return refused(
        JournalCode.BAD_REQUEST,
        f"operation {operation.sequence} of client {operation.client.hex()} was another kind of change: nothing was "
        "done; each change needs an id of its own",
    )


def _packed(client: bytes, sequence: int, time_ms: int, answer: Answer) -> bytes:
    if type(answer) is FileStatus:  # of a file: no change answers with a directory's
        path, _, size, modified_ms, crc = answer
        return pack((client, sequence, time_ms, (path, size, modified_ms, crc)))
    return pack((client, sequence, time_ms, answer))


def _unpacked(packed: bytes) -> KeptAnswer:
    client, sequence, time_ms, given = cast("list[Any]", unpack(packed))
    answer = given
    if type(given) is list:
        path, size, modified_ms, crc = given
        answer = FileStatus(path=path, is_directory=False, size=size, modified_ms=modified_ms, crc=crc)
    return KeptAnswer(OperationId(client=client, sequence=sequence), time_ms, answer, recorded=True)
