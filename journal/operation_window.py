"""The answers that were given, so that an operation sent again gets the first answer and is never run twice. Pure.

Answers to operations that left a record are rebuilt from records and lie in index snapshots; answers that left none
(refusals, "there was nothing to delete") are in memory only. An operation id older than what is kept is refused
(EXPIRED), never run.

A client may ask again until its deadline, so an answer is kept for longer than that, however many there are. When there
are too many, those go first whose clients have had so many later ones that they do not wait for these any more; when
there are none of these, no further change is taken for a while.

Recorded answers are kept packed, as index snapshots have them: there are up to 65,536, hardly one is ever asked for, a
snapshot takes them all, and the garbage collector need not look at bytes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from journal.errors import JournalCode, JournalError, SupersededError, UnavailableError, refused
from journal.paths import PATH_BYTES_MAX
from journal.volume import FileStatus, OperationId
from sos_client.wire.msgpack_edge import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from journal.volume import Answer

# Clients give up after 120 s; answers are kept five times as long, unless more than ANSWERS_MAX come in that time.
WINDOW_MS: Final = 600_000
DEADLINE_MS: Final = 125_000
# The last answers of each client are kept until its deadline: it must not be further ahead of what it still waits for.
CLIENT_ANSWERS_MIN: Final = 16
# Time from one answer to the next counts as this at most: a wall clock set forward by an hour, or a takeover by a
# service whose clock is ahead, must not expire what somebody is about to ask for again.
STEP_MS_MAX: Final = 60_000
ANSWERS_MAX: Final = 65_536
# When all answers are the last ones of so many clients, as many again are kept. It is full then: 8,192 clients at least
# have made 16 changes each in two minutes, twice as many as a service has connections.
FULL_ANSWERS: Final = 2 * ANSWERS_MAX
# After their answers are gone, this many clients are remembered by the last operation that expired: as many as can come
# while answers must be kept, so that an id is refused for that long again.
CLIENTS_MAX: Final = FULL_ANSWERS


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


_NOBODY: Final = _Client()


class OperationWindow:
    """Answers by operation id, bounded by time and by number."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        """`clock`: milliseconds that nobody sets; without it ages are counted by the records' times."""
        self._clock = clock
        self._now_ms = 0  # of the clock, or the record, that the last answer is from
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()
        # Client, sequence, time of the record, age of the window at that time, answer; oldest first. Some that have
        # gone before their time lie among them.
        self._kept: deque[tuple[bytes, int, int, int, Entry]] = deque()
        self._count = 0
        self._busy: dict[bytes, None] = {}  # clients with more than CLIENT_ANSWERS_MIN answers

    def __len__(self) -> int:
        return self._count

    def run_by(self, clock: Callable[[], int]) -> None:
        """From now on ages are counted by this clock: records' times run ahead of it when there are many."""
        self._clock, self._now_ms = clock, clock()

    @property
    def full(self) -> bool:
        """Whether another answer would have to take the place of one that its client may still ask for."""
        if self._count < FULL_ANSWERS or self._busy:
            return False
        return self._clock is not None and self._age_ms(self._clock()) - self._kept[0][3] < DEADLINE_MS

    def find(self, operation: OperationId) -> KeptAnswer | None:
        """The first answer, or None if the operation has not been answered and may be run.

        SupersededError (EXPIRED) if nobody can tell; UnavailableError if it must not be run before there is room.
        """
        client = self._clients.get(operation.client) or _NOBODY
        kept = client.answers.get(operation.sequence)
        if kept is None and operation.sequence > client.expired and self.full:
            raise _too_many_changes()
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
        last_age_ms = self._kept[-1][3]
        if self._kept[0][3] < last_age_ms - WINDOW_MS or self._count > ANSWERS_MAX:
            self._expire(last_age_ms)
        if len(self._clients) > CLIENTS_MAX:
            self._forget_clients()

    def _add(self, name: bytes, sequence: int, time_ms: int, entry: Entry) -> None:
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = _Client()
        else:
            self._clients.move_to_end(name)
        answers = client.answers
        if sequence in answers:
            return
        answers[sequence] = entry
        self._count += 1
        if len(answers) > CLIENT_ANSWERS_MIN:
            self._busy[name] = None
        now_ms = time_ms if self._clock is None else self._clock()
        self._kept.append((name, sequence, time_ms, self._age_ms(now_ms), entry))
        self._now_ms = now_ms

    def _age_ms(self, now_ms: int) -> int:
        if not self._kept:
            return 0
        step_ms = now_ms - self._now_ms
        return self._kept[-1][3] + (min(step_ms, STEP_MS_MAX) if self._clock is None else step_ms)

    def _expire(self, age_ms: int) -> None:
        """Drop what is older than the window; what is too much, of busy clients first, then what no client asks for."""
        while self._count > ANSWERS_MAX and self._busy:
            name = next(iter(self._busy))
            self._drop(name, next(iter(self._clients[name].answers)))
        if len(self._kept) > 2 * FULL_ANSWERS:
            self._kept = deque(one for one in self._kept if self._has(one[0], one[1], one[4]))
        while True:  # the newest stays
            name, sequence, _, its_age_ms, entry = self._kept[0]
            if self._has(name, sequence, entry):
                too_many = self._count > ANSWERS_MAX and its_age_ms < age_ms - DEADLINE_MS
                if its_age_ms >= age_ms - WINDOW_MS and not too_many and self._count <= FULL_ANSWERS:
                    return
                self._drop(name, sequence)
            self._kept.popleft()

    def _drop(self, name: bytes, sequence: int) -> None:
        client = self._clients[name]
        del client.answers[sequence]
        self._count -= 1
        if len(client.answers) <= CLIENT_ANSWERS_MIN:
            self._busy.pop(name, None)
        client.expired = max(client.expired, sequence)

    def _forget_clients(self) -> None:
        for _ in range(len(self._clients) - CLIENTS_MAX):
            oldest = next(iter(self._clients))
            if self._clients[oldest].answers:
                break
            del self._clients[oldest]

    def answers(self) -> list[bytes]:
        """What a snapshot must carry, oldest first: msgpack of [client, sequence, time, answer] each."""
        return [
            kept for name, sequence, _, _, kept in self._kept if type(kept) is bytes and self._has(name, sequence, kept)
        ]

    def _has(self, name: bytes, sequence: int, entry: Entry) -> bool:
        client = self._clients.get(name)
        return client is not None and client.answers.get(sequence) is entry

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
            self._expire(self._kept[-1][3])
        self._forget_clients()

    def copy(self, until_ms: int | None = None) -> OperationWindow:
        """An independent copy (answers themselves are shared: they never change), without those after `until_ms`."""
        other = OperationWindow(self._clock)
        other._kept, other._count, other._now_ms = self._kept.copy(), self._count, self._now_ms
        other._busy = self._busy.copy()
        for client, state in self._clients.items():
            other._clients[client] = _Client(expired=state.expired, answers=dict(state.answers))
        while until_ms is not None and other._kept and other._kept[-1][2] > until_ms:
            client, sequence, _, _, entry = other._kept.pop()
            if other._has(client, sequence, entry):
                del other._clients[client].answers[sequence]
                other._count -= 1
                if len(other._clients[client].answers) <= CLIENT_ANSWERS_MIN:
                    other._busy.pop(client, None)
        return other


def _too_many_changes() -> JournalError:
    return UnavailableError(
        JournalCode.UNAVAILABLE,
        f"{FULL_ANSWERS} answers are kept for clients that may ask for them again; the change was not made: ask again "
        "in a moment, and use one client for many changes",
    )


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
    client, sequence, time_ms, given = cast("list[Any]", unpack(packed, string_bytes_max=PATH_BYTES_MAX))
    answer = given
    if type(given) is list:
        path, size, modified_ms, crc = given
        answer = FileStatus(path=path, is_directory=False, size=size, modified_ms=modified_ms, crc=crc)
    return KeptAnswer(OperationId(client=client, sequence=sequence), time_ms, answer, recorded=True)
