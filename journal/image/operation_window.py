"""The answers that were given, so that an operation sent again gets the first answer and is never run twice. Pure.

Answers to operations that left a record are rebuilt from records and lie in index snapshots; answers that left none
(refusals, "there was nothing to delete") are in memory only. An operation id older than what is kept is refused
(EXPIRED), never run.

A client may ask again until its deadline, so an answer is kept for longer than that, however many there are. When they
take too much memory, those go first whose clients have had many later ones, so that they no longer wait for these.
When there are none of these, whoever has most of what is kept may make no further change for a while: each token may
have as much as it leaves free, so that clients invented by one of them do not keep the others out.

Answers are kept packed, recorded ones as index snapshots have them: there are tens of thousands, hardly one is ever
asked for, a snapshot takes them all, and the garbage collector need not look at bytes. A refusal that was raised would
hold the frames that it passed through, and with them what was refused.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from journal.errors import JournalCode, JournalError, SupersededError, UnavailableError, journal_error, refused
from journal.volume import FileStatus, OperationId
from sos_client.wire.msgpack_edge import array_header, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from journal.volume import Answer

# Clients give up after 120 s; answers are kept five times as long, unless they take more than KEPT_BYTES_MAX.
WINDOW_MS: Final = 600_000
DEADLINE_MS: Final = 125_000
# The last answers of each client are kept until its deadline: it must not be further ahead of what it still waits for.
CLIENT_ANSWERS_MIN: Final = 16
# Time from one answer to the next counts as this at most: a wall clock set forward by an hour, or a takeover by a
# service whose clock is ahead, must not expire what somebody is about to ask for again.
STEP_MS_MAX: Final = 60_000
# 50,000 answers with paths of a usual length.
KEPT_BYTES_MAX: Final = 32 << 20
# When each answer is the last one of its client, as much again is kept, for all tokens together.
FULL_BYTES: Final = 2 * KEPT_BYTES_MAX
# What one answer takes at most: a refusal that names two paths, twice.
ANSWER_BYTES_MAX: Final = 32 << 10
# What an answer takes besides its packed bytes, and its client besides that (measured in the tests).
ANSWER_BYTES: Final = 512
CLIENT_BYTES: Final = 512
# After their answers are gone, this many clients are remembered by the last operation that expired: as many as can come
# while answers must be kept, so that an id is refused for that long again.
CLIENTS_MAX: Final = FULL_BYTES // (ANSWER_BYTES + CLIENT_BYTES)
# Answers that went before their time leave a trace until this many have: each takes a tenth of an answer.
TRACES_MAX: Final = 1 << 15

_OF_RECORD: Final = array_header(4)  # a packed answer begins with it if a record stands for it; others have a 5th item


NOT_ASKED: Final = object()
"""In the place of an answer: the operation is new."""


class KeptAnswer(NamedTuple):
    """One answer, with the time of its record."""

    operation: OperationId
    time_ms: int
    answer: Answer


@dataclass(slots=True)
class _Client:
    whose: Hashable = None
    expired: int = 0  # every operation up to this one is older than the window
    kept_bytes: int = 0
    answers: dict[int, bytes] = field(default_factory=dict)  # packed


_NOBODY: Final = _Client()


class OperationWindow:
    """Answers by operation id, bounded by time and by the memory that they take."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        """`clock`: milliseconds that nobody sets; without it ages are counted by the records' times."""
        self._clock = clock
        self._now_ms = 0  # of the clock, or the record, that the last answer is from
        self._clients: dict[bytes, _Client] = {}  # with answers
        self._idle: OrderedDict[bytes, _Client] = OrderedDict()  # without any; longest silent first
        # Client, sequence, time of the record, age of the window at that time; oldest first. Some whose answers have
        # gone before their time lie among them.
        self._kept: deque[tuple[bytes, int, int, int]] = deque()
        self._count = 0
        self._shares: dict[Hashable, int] = {}  # bytes kept of each token's clients
        self._busy: dict[bytes, None] = {}  # clients with more than CLIENT_ANSWERS_MIN answers
        self.kept_bytes = 0

    def __len__(self) -> int:
        return self._count

    def run_by(self, clock: Callable[[], int]) -> None:
        """From now on ages are counted by this clock: records' times run ahead of it when there are many."""
        self._clock, self._now_ms = clock, clock()

    def full(self, whose: Hashable = None) -> bool:
        """Whether another answer for these would have to take the place of one that its client may still ask for."""
        share = self._shares.get(whose, 0)
        if self.kept_bytes + share <= FULL_BYTES - ANSWER_BYTES_MAX or self._busy:
            return False
        return self._clock is not None and self._age_ms(self._clock()) - self._kept[0][3] < DEADLINE_MS

    def admit(self, operation: OperationId, whose: Hashable) -> None:
        """Before an operation is run: from now on its client counts as one of these, unless it is known as another's.

        UnavailableError if there is no room for one more client of theirs.
        """
        client = self._clients.get(operation.client) or self._idle.get(operation.client)
        if client is None:
            if self.full(whose):
                raise _too_many_changes()
            self._rest(operation.client, _Client(whose))
        elif client.whose is None and whose is not None:  # from before this service had the volume
            self._count_share(None, -client.kept_bytes)
            self._count_share(whose, client.kept_bytes)
            client.whose = whose

    def find(self, operation: OperationId) -> KeptAnswer | None:
        """The first answer, or None if the operation has not been answered and may be run.

        SupersededError (EXPIRED) if nobody can tell; UnavailableError if it must not be run before there is room.
        """
        client = self._clients.get(operation.client) or self._idle.get(operation.client, _NOBODY)
        kept = client.answers.get(operation.sequence)
        if kept is not None:
            return _unpacked(kept)
        if operation.sequence <= client.expired:
            raise SupersededError(
                JournalCode.EXPIRED,
                f"operation {operation.sequence} of client {operation.client.hex()} is older than the answers that are "
                "kept: it is not run; whether it was, the files themselves show",
                client=operation.client,
                sequence=operation.sequence,
            )
        if self.full(client.whose):
            raise _too_many_changes()
        return None

    def first_answer(self, operation: OperationId, kind: type) -> object:
        """What the operation was answered, if it was; else NOT_ASKED. Raises as `find`.

        If that is not of this kind, and no refusal: the refusal to take one id for two changes.
        """
        kept = self.find(operation)
        if kept is None:
            return NOT_ASKED
        return kept.answer if isinstance(kept.answer, (kind, JournalError)) else _used_already(operation)

    def keep_refusal(self, operation: OperationId, refusal: JournalError, *, time_ms: int) -> JournalError:
        """As `keep`; gives the refusal back."""
        refusal.__traceback__ = None  # its frames hold what was refused
        self.keep(operation, refusal, time_ms=time_ms, recorded=False)
        return refusal

    def keep(self, operation: OperationId, answer: Answer, *, time_ms: int, recorded: bool) -> None:
        """Remember an answer. The first one stays."""
        name, sequence = operation
        self._add(name, sequence, time_ms, _packed(name, sequence, time_ms, answer, recorded=recorded))
        last_age_ms = self._kept[-1][3]
        if self.kept_bytes > KEPT_BYTES_MAX or self._kept[0][3] < last_age_ms - WINDOW_MS:
            self._expire(last_age_ms)

    def _add(self, name: bytes, sequence: int, time_ms: int, packed: bytes) -> None:
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = self._idle.pop(name) if name in self._idle else _Client()
        answers = client.answers
        if sequence in answers:
            return
        answers[sequence] = packed
        self._count += 1
        size, answer_count, whose = len(packed) + ANSWER_BYTES, len(answers), client.whose
        if answer_count == 1:
            size += CLIENT_BYTES
        elif answer_count > CLIENT_ANSWERS_MIN:
            self._busy[name] = None
        client.kept_bytes += size
        self.kept_bytes += size
        self._shares[whose] = self._shares.get(whose, 0) + size
        now_ms = time_ms if self._clock is None else self._clock()
        self._kept.append((name, sequence, time_ms, self._age_ms(now_ms)))
        self._now_ms = now_ms

    def _count_bytes(self, client: _Client, size: int) -> None:
        client.kept_bytes += size
        self.kept_bytes += size
        self._count_share(client.whose, size)

    def _count_share(self, whose: Hashable, size: int) -> None:
        share = self._shares.get(whose, 0) + size
        if share:
            self._shares[whose] = share
        else:
            self._shares.pop(whose, None)

    def _age_ms(self, now_ms: int) -> int:
        if not self._kept:
            return 0
        step_ms = now_ms - self._now_ms
        return self._kept[-1][3] + (min(step_ms, STEP_MS_MAX) if self._clock is None else step_ms)

    def _expire(self, age_ms: int) -> None:
        """Drop what is older than the window; what is too much, of busy clients first, then what no client asks for."""
        while self.kept_bytes > KEPT_BYTES_MAX and self._busy:
            name = next(iter(self._busy))
            self._drop(name, next(iter(self._clients[name].answers)))
        if len(self._kept) > self._count + TRACES_MAX:
            self._kept = deque(one for one in self._kept if self._packed(one[0], one[1]))
        while len(self._kept) > 1:  # the newest stays
            name, sequence, _, its_age_ms = self._kept[0]
            if self._packed(name, sequence):
                too_much = self.kept_bytes > KEPT_BYTES_MAX and its_age_ms < age_ms - DEADLINE_MS
                if its_age_ms >= age_ms - WINDOW_MS and not too_much and self.kept_bytes <= FULL_BYTES:
                    return
                self._drop(name, sequence)
            self._kept.popleft()

    def _drop(self, name: bytes, sequence: int) -> None:
        client = self._clients[name]
        client.expired = max(client.expired, sequence)
        self._take_out(name, client, sequence)

    def _take_out(self, name: bytes, client: _Client, sequence: int) -> None:
        packed = client.answers.pop(sequence)
        self._count -= 1
        self._count_bytes(client, -len(packed) - (ANSWER_BYTES if client.answers else ANSWER_BYTES + CLIENT_BYTES))
        if len(client.answers) <= CLIENT_ANSWERS_MIN:
            self._busy.pop(name, None)
        if not client.answers:
            del self._clients[name]
            self._rest(name, client)

    def _rest(self, name: bytes, client: _Client) -> None:
        client.answers = {}  # one that was emptied would keep its room
        self._idle[name] = client
        if len(self._idle) > CLIENTS_MAX:
            self._idle.popitem(last=False)

    def answers(self) -> list[bytes]:
        """What a snapshot must carry, oldest first: msgpack of [client, sequence, time, answer] each."""
        every = (self._packed(name, sequence) for name, sequence, _, _ in self._kept)
        return [packed for packed in every if packed.startswith(_OF_RECORD)]

    def _packed(self, name: bytes, sequence: int) -> bytes:
        """The answer that is still kept, or nothing."""
        client = self._clients.get(name)
        return b"" if client is None else client.answers.get(sequence, b"")

    def expired(self) -> Iterator[tuple[bytes, int]]:
        """Each client whose operations have begun to expire, with the last one that did, longest silent first."""
        every = chain(self._idle.items(), self._clients.items())
        return ((name, client.expired) for name, client in every if client.expired)

    def restore_expired(self, client: bytes, sequence: int) -> None:
        """Take over what `expired` said, before any answers."""
        self._rest(client, _Client(expired=sequence))

    def restore_answers(self, packed: Iterable[tuple[bytes, int, int, bytes]]) -> None:
        """Take over what `answers` gave, oldest first: (client, sequence, time, as it was given). Into an empty window.

        As `keep` of each, but nothing is packed again: a start of the service waits for tens of thousands of them.
        """
        for name, sequence, time_ms, entry in packed:
            self._add(name, sequence, time_ms, entry)
        if self._kept:
            self._expire(self._kept[-1][3])

    def copy(self, until_ms: int | None = None) -> OperationWindow:
        """An independent copy (answers themselves are shared: they never change), without those after `until_ms`."""
        other = OperationWindow(self._clock)
        other._kept, other._count, other._now_ms = self._kept.copy(), self._count, self._now_ms
        other._busy, other._shares, other.kept_bytes = self._busy.copy(), self._shares.copy(), self.kept_bytes
        for name, client in self._clients.items():
            other._clients[name] = _Client(client.whose, client.expired, client.kept_bytes, client.answers.copy())
        other._idle.update((name, _Client(client.whose, client.expired)) for name, client in self._idle.items())
        while until_ms is not None and other._kept and other._kept[-1][2] > until_ms:
            name, sequence, _, _ = other._kept.pop()
            if other._packed(name, sequence):
                other._take_out(name, other._clients[name], sequence)
        return other


def _too_many_changes() -> JournalError:
    return UnavailableError(
        JournalCode.UNAVAILABLE,
        "clients of this token may ask again for so many answers that there is no room to keep another one; the change "
        "was not made: ask again in a moment, and use one client for many changes",
    )


def _used_already(operation: OperationId) -> JournalError:
    """For a client that gives two changes of different kinds one id: the first one's answer would make no sense."""
    return refused(
        JournalCode.BAD_REQUEST,
        f"operation {operation.sequence} of client {operation.client.hex()} was another kind of change: nothing was "
        "done; each change needs an id of its own",
    )


def _packed(client: bytes, sequence: int, time_ms: int, answer: Answer, *, recorded: bool) -> bytes:
    shown: object = answer
    if type(answer) is FileStatus:  # of a file: no change answers with a directory's
        path, _, size, modified_ms, crc = answer
        shown = (path, size, modified_ms, crc)
    elif isinstance(answer, JournalError):
        shown = (answer.code, answer.message, answer.fields)
    if recorded:
        return pack((client, sequence, time_ms, shown))
    return pack((client, sequence, time_ms, shown, None))


def _unpacked(packed: bytes) -> KeptAnswer:
    most = len(packed)
    values = unpack(packed, map_max=most, string_bytes_max=most, binary_bytes_max=most)
    client, sequence, time_ms, given, *_ = cast("list[Any]", values)
    answer = given
    if type(given) is list and len(given) == 3:
        code, message, fields = given
        answer = journal_error(JournalCode(code), message, fields)
    elif type(given) is list:
        path, size, modified_ms, crc = given
        answer = FileStatus(path=path, is_directory=False, size=size, modified_ms=modified_ms, crc=crc)
    return KeptAnswer(OperationId(client=client, sequence=sequence), time_ms, answer)
