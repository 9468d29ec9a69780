"""What the store holds, in memory: namespaces, objects, and where bytes lie that are still only in the log.

Pure. Rows are applied here in the order in which the log made them durable, by the running store and by recovery
alike; nothing here is ahead of the disk but what `Appender` keeps for itself.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
from array import array
from typing import TYPE_CHECKING, Final, Protocol

from sos_client.wire.errors import DamagedError
from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.storage.rows import (
    Claimed,
    EpochRaised,
    NamespaceMade,
    ObjectDeleted,
    ObjectMade,
    ObjectSealed,
    ObjectState,
    Row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sos_server.storage.run_notes import RunNote

IN_FILE: Final = 0
"""In place of a position in a log file: these bytes lie in the object's own file, the log has only a note of them."""

assert IN_FILE < BLOCK_BYTES, "no payload lies where a log file's header is"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who may change a namespace: the epoch only grows; the holder is 16 random bytes of one writer process."""

    epoch: int
    holder: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedPiece:
    """Bytes of an object in a log file, or (`IN_FILE`) in the object's own file and noted in that log file."""

    offset: int
    length: int
    crc: int
    generation: int
    position: int


class LoggedBytes:
    """An object's bytes that the catalog does not know of yet, by offset: 24 bytes of memory for each append.

    They lie in the log; those of runs in the object's own file, and each part of a run counts as an append.
    """

    __slots__ = ("_table",)

    def __init__(self) -> None:
        # Three numbers a piece: offset, generation and position, length and CRC.
        self._table = array("Q")

    def add(self, offset: int, length: int, crc: int, generation: int, position: int) -> None:
        append = self._table.append
        append(offset)
        append(generation << 32 | position)
        append(length << 32 | crc)

    def add_note(self, note: RunNote, generation: int) -> None:
        for offset, length, crc in note.parts():
            self.add(offset, length, crc, generation, IN_FILE)

    def forget(self, generation: int) -> None:
        """Drop the pieces of this generation and those before."""
        table = self._table
        gone = bisect.bisect_right(range(len(table) // 3), generation, key=lambda row: table[3 * row + 1] >> 32)
        del table[: 3 * gone]

    def is_empty(self) -> bool:
        return not self._table

    def pieces(self, start: int, end: int) -> Iterator[LoggedPiece]:
        """The pieces that hold any byte from `start` to `end`, in order."""
        table = self._table
        count = len(table) // 3
        index = max(0, bisect.bisect_right(range(count), start, key=lambda row: table[3 * row]) - 1)
        while index < count and table[3 * index] < end:
            offset, place, extent = table[3 * index : 3 * index + 3]
            yield LoggedPiece(offset, extent >> 32, extent & 0xFFFFFFFF, place >> 32, place & 0xFFFFFFFF)
            index += 1


class Wakeable(Protocol):
    """What waits for an object to change."""

    def set(self) -> None: ...


class StoredObject:
    """One object. `size` and `crc` are of its synced bytes; the first `copied` of them lie in its own file."""

    __slots__ = (
        "appender",
        "copied",
        "copied_crc",
        "crc",
        "cut_bytes",
        "damaged",
        "epoch",
        "growth",
        "logged",
        "name",
        "namespace",
        "number",
        "read_only",
        "sealed_time",
        "seals_coming",
        "size",
        "tail_crc",
        "unsynced_bytes",
    )

    def __init__(self, number: int, namespace: StoredNamespace, name: str, epoch: int) -> None:
        self.number = number
        self.namespace = namespace
        self.name = name
        self.epoch = epoch
        self.size = self.crc = 0
        self.unsynced_bytes = 0
        """Received and on their way to the disk, whoever sent them."""
        self.copied = self.copied_crc = self.tail_crc = 0
        self.sealed_time: float | None = None
        self.cut_bytes = 0
        self.damaged = False
        self.seals_coming = 0
        """Seals on their way to the disk: nothing may be appended until all of them have failed."""
        self.read_only: str | None = None
        """Why nothing may be appended until a restart: its file could not be written."""
        self.logged: LoggedBytes | None = None
        self.appender: object | None = None
        self.growth: Wakeable | None = None

    def logged_bytes(self) -> LoggedBytes:
        """Where to add what the log has."""
        if self.logged is None:
            self.logged = LoggedBytes()
        return self.logged

    def grow(self, size: int, crc: int) -> None:
        """More bytes are synced."""
        self.size, self.crc = size, crc
        if self.growth is not None:
            self.wake()

    def wake(self) -> None:
        """Something changed that a follower waits for."""
        if self.growth is not None:
            self.growth.set()
            self.growth = None

    def forget_logged(self, generation: int) -> None:
        """What this generation and those before it have is in the object's own file now."""
        if self.logged is not None:
            self.logged.forget(generation)
            if self.logged.is_empty():
                self.logged = None

    def state(self) -> ObjectState:
        """The row for the catalog: what is true without the log."""
        return ObjectState(
            number=self.number,
            namespace=self.namespace.number,
            name=self.name,
            epoch=self.epoch,
            size=self.copied,
            crc=self.copied_crc,
            tail_crc=self.tail_crc,
            sealed_time=self.sealed_time,
            cut_bytes=self.cut_bytes,
            damaged=self.damaged,
        )


class StoredNamespace:
    """One namespace: its claim and its objects by name."""

    __slots__ = ("_names", "claim", "incarnation", "making", "name", "number", "objects", "used_bytes")

    def __init__(self, number: int, name: str, incarnation: bytes) -> None:
        self.number = number
        self.name = name
        self.incarnation = incarnation
        self.claim: Claim | None = None
        self.objects: dict[str, StoredObject] = {}
        self.making: dict[str, StoredObject] = {}
        """Objects whose first row is on its way to the disk: they exist for appenders, not for readers."""
        self.used_bytes = 0
        """Synced bytes and those being appended: what a quota counts."""
        self._names: list[str] | None = None
        """In order, from the first page that was asked for on."""

    def rows(self) -> list[Row]:
        """The namespace's own rows for the catalog."""
        made: list[Row] = [NamespaceMade(self.number, self.name, self.incarnation)]
        if self.claim is not None:
            made.append(Claimed(self.number, self.claim.epoch, self.claim.holder))
        return made

    def page(self, after: str, limit: int) -> list[StoredObject]:
        """The first `limit` objects whose names come after `after`."""
        if self._names is None:
            self._names = sorted(self.objects)
        start = bisect.bisect_right(self._names, after)
        return [self.objects[name] for name in self._names[start : start + limit]]

    def add(self, stored: StoredObject) -> None:
        if self._names is not None:
            bisect.insort(self._names, stored.name)
        self.objects[stored.name] = stored

    def remove(self, stored: StoredObject) -> None:
        if self._names is not None:
            del self._names[bisect.bisect_left(self._names, stored.name)]
        del self.objects[stored.name]


class Contents:
    """All namespaces and objects, and which of them the catalog on disk does not have as they are now."""

    def __init__(self) -> None:
        self.namespaces: dict[str, StoredNamespace] = {}
        self.objects: dict[int, StoredObject] = {}
        self.next_number = 1
        self.changed: set[int] = set()
        """Numbers of namespaces and objects whose rows the next checkpoint has to carry."""
        self._namespaces_by_number: dict[int, StoredNamespace] = {}
        self._making: dict[int, StoredObject] = {}

    @property
    def object_count(self) -> int:
        """Of all namespaces, with those whose first row is on its way to the disk."""
        return len(self.objects) + len(self._making)

    def take_number(self) -> int:
        """A number that nothing has had yet."""
        self.next_number += 1
        return self.next_number - 1

    def expect(self, stored: StoredObject) -> None:
        """This is the object that its row, on the way to the disk, will make."""
        self._making[stored.number] = stored
        stored.namespace.making[stored.name] = stored

    def forget_expected(self) -> list[StoredObject]:
        """No row that is on its way will arrive: these objects never were."""
        never_made = list(self._making.values())
        self._making.clear()
        for stored in never_made:
            del stored.namespace.making[stored.name]
        return never_made

    def apply(self, row: Row) -> None:
        """Make true what the row says, if it is not yet. DamagedError when it contradicts what is there."""
        match row:
            case NamespaceMade():
                self._make_namespace(row)
            case Claimed():
                self._claim(row)
            case ObjectMade():
                self._make_object(row)
            case EpochRaised():
                if (stored := self.objects.get(row.number)) is not None:
                    stored.epoch = max(stored.epoch, row.epoch)
            case ObjectSealed():
                self._seal(row)
            case ObjectDeleted():
                self._delete(row)
            case ObjectState():
                self._restore(row)
        self.changed.add(row.namespace if isinstance(row, Claimed) else row.number)

    def restore(self, row: Row) -> None:
        """As `apply`, of the catalog's rows: of two for one namespace the later one says which incarnation it is."""
        self.apply(row)
        if isinstance(row, NamespaceMade):
            self._namespaces_by_number[row.number].incarnation = row.incarnation

    def make_others(self, salt: bytes) -> None:
        """Every namespace has what it has, but is not the one that its clients knew. The same salt gives the same."""
        for number, namespace in self._namespaces_by_number.items():
            named = salt + namespace.name.encode()
            namespace.incarnation = hashlib.blake2b(named, digest_size=len(namespace.incarnation)).digest()
            self.changed.add(number)

    def rows(self, number: int) -> list[Row]:
        """The catalog rows for what has this number now."""
        if (stored := self.objects.get(number)) is not None:
            return [stored.state()]
        if (namespace := self._namespaces_by_number.get(number)) is not None:
            return namespace.rows()
        return [ObjectDeleted(number)]

    def numbers(self) -> list[int]:
        """Everything there is, namespaces first."""
        return [*self._namespaces_by_number, *self.objects]

    def _make_namespace(self, row: NamespaceMade) -> None:
        self.next_number = max(self.next_number, row.number + 1)
        if row.number in self._namespaces_by_number:
            return
        if row.name in self.namespaces:
            raise DamagedError(f"namespace {row.name} was made twice")
        namespace = StoredNamespace(row.number, row.name, row.incarnation)
        self.namespaces[row.name] = self._namespaces_by_number[row.number] = namespace

    def _claim(self, row: Claimed) -> None:
        namespace = self._namespaces_by_number.get(row.namespace)
        if namespace is None:
            raise DamagedError(f"a claim on namespace number {row.namespace}, which was never made")
        if namespace.claim is None or namespace.claim.epoch <= row.epoch:
            namespace.claim = Claim(epoch=row.epoch, holder=row.holder)

    def _make_object(self, row: ObjectMade) -> StoredObject:
        self.next_number = max(self.next_number, row.number + 1)
        if (stored := self.objects.get(row.number)) is not None:
            return stored
        namespace = self._namespaces_by_number.get(row.namespace)
        if namespace is None:
            raise DamagedError(f"object {row.name} is in namespace number {row.namespace}, which was never made")
        if (older := namespace.objects.get(row.name)) is not None:
            # Only in recovery: the catalog already has the name's later object, whose rows are yet to be replayed.
            return older
        if (stored := self._making.pop(row.number, None)) is not None:
            del namespace.making[row.name]
        else:
            stored = StoredObject(row.number, namespace, row.name, row.epoch)
        self.objects[row.number] = stored
        namespace.add(stored)
        return stored

    def _seal(self, row: ObjectSealed) -> None:
        if (stored := self.objects.get(row.number)) is not None:
            stored.sealed_time = row.time
            stored.wake()

    def _delete(self, row: ObjectDeleted) -> None:
        if (stored := self.objects.pop(row.number, None)) is not None:
            stored.namespace.remove(stored)
            stored.namespace.used_bytes -= stored.size
            stored.logged = None
            stored.wake()

    def _restore(self, row: ObjectState) -> None:
        stored = self._make_object(ObjectMade(row.number, row.namespace, row.name, row.epoch))
        if stored.number != row.number:
            raise DamagedError(f"object {row.name} is there twice, as numbers {stored.number} and {row.number}")
        stored.epoch = row.epoch
        stored.namespace.used_bytes += row.size - stored.size
        stored.size = stored.copied = row.size
        stored.crc = stored.copied_crc = row.crc
        stored.tail_crc = row.tail_crc
        stored.sealed_time, stored.cut_bytes, stored.damaged = row.sealed_time, row.cut_bytes, row.damaged
