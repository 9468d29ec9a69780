"""What must be true of the objects on one server, whatever happens to it: a list of facts that only grows.

Everything that was acknowledged or shown to anybody is a fact: these bytes, this size and CRC, this seal, this claim.
A fact must still be true after every restart; that alone says that nothing acknowledged is lost and that nobody was
shown what a power cut can take back. Beyond facts, every byte found must be one that a client sent at that place,
after exactly those bytes, under a claim that was good when it was sent.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from sos_client.wire.messages import ObjectInfo
    from tests.simulation.world import World

Key = tuple[str, str]
"""Namespace and object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPiece:
    """Bytes that a client put into one DATA frame."""

    data: bytes
    prefix_crc: int
    """Of everything that its sender believed to be before them."""
    epoch: int
    fenced_epoch: int
    """The highest epoch whose claim had been acknowledged to anybody when these bytes were sent."""


@dataclass(slots=True)
class ObjectFacts:
    """One life of an object, from its first byte to its deletion."""

    life: int = 0
    sent: dict[int, list[SentPiece]] = field(default_factory=lambda: defaultdict(list))
    shown: dict[int, bytes] = field(default_factory=dict)
    """Bytes by offset that are acknowledged or were read by someone."""
    crcs: dict[int, int] = field(default_factory=dict)
    """The CRC of the first so many bytes, as STAT, LIST, SEAL or an acknowledgement said."""
    sealed_size: int | None = None
    deleting: bool = False
    """A deletion is under way: the object may be gone at any moment, and another one may have its name."""
    made_anew: bool = False
    deleted: bool = False

    @property
    def size_min(self) -> int:
        """The object has at least so many bytes."""
        ends = [offset + len(data) for offset, data in self.shown.items()]
        return max([0, *ends, *self.crcs])


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What was known of an object at one moment."""

    life: int
    size_min: int
    sealed_size: int | None


class ServerModel:
    """All facts about one server."""

    def __init__(self, world: World, *, calm: bool = False) -> None:
        self.world = world
        self.calm = calm
        """Nothing goes wrong: whoever is not answered soon was forgotten."""
        self.objects: dict[Key, ObjectFacts] = defaultdict(ObjectFacts)
        self.claims: dict[str, tuple[int, bytes]] = {}
        self.contested: set[Key] = set()
        """Objects that several clients append to without a claim: an append that began before a deletion may make the
        object again after it."""
        self.rotted = False
        """Bits were flipped on the drive: reads may be refused as DAMAGED, but must never be wrong."""

    def facts(self, key: Key) -> ObjectFacts:
        return self.objects[key]

    def sent(self, key: Key, offset: int, data: bytes, *, prefix_crc: int, epoch: int) -> None:
        """A client is about to send these bytes; they may or may not arrive."""
        fenced_epoch = self.claim(key[0])[0]
        piece = SentPiece(data=data, prefix_crc=prefix_crc, epoch=epoch, fenced_epoch=fenced_epoch)
        self.objects[key].sent[offset].append(piece)

    def appending(self, key: Key) -> None:
        """A client is about to begin an append, which makes the object if it is not there."""
        facts = self.objects[key]
        facts.deleted = False
        facts.made_anew = facts.deleting

    def shown(self, key: Key, life: int, offset: int, data: bytes) -> None:
        """Somebody was shown these bytes, or told that they are synced."""
        facts = self.objects[key]
        if facts.life == life and data and not facts.deleting:
            before = facts.shown.get(offset, b"")
            common = min(len(before), len(data))
            self.world.require(
                before[:common] == data[:common], f"{_name(key)}: the bytes at {offset} were others a moment ago"
            )
            facts.shown[offset] = max(before, data, key=len)

    def mark(self, key: Key) -> Mark:
        """What is known before a question is asked: no answer to it may know less."""
        facts = self.objects[key]
        return Mark(life=facts.life, size_min=facts.size_min, sealed_size=facts.sealed_size)

    def info(self, key: Key, mark: Mark, info: ObjectInfo) -> None:
        """Somebody who asked at `mark` was told this by STAT or LIST."""
        facts, require, name = self.objects[key], self.world.require, _name(key)
        if facts.life != mark.life or facts.deleting:
            return
        known = facts.crcs.setdefault(info.size, info.crc)
        require(known == info.crc, f"{name}: the CRC of the first {info.size} bytes was another a moment ago")
        require(info.size >= mark.size_min, f"{name}: {mark.size_min} bytes were synced, now it has {info.size}")
        if info.sealed:
            self.sealed(key, mark.life, info.size)
        if mark.sealed_size is not None:
            sealed = info.sealed and info.size == mark.sealed_size
            require(sealed, f"{name}: it was sealed with {mark.sealed_size} bytes, now it has {info.size}")

    def absent(self, key: Key, mark: Mark) -> None:
        """Somebody who asked at `mark` was told that there is no such object."""
        facts = self.objects[key]
        if facts.life != mark.life:
            return
        if facts.deleting:
            self.deleted(key, mark.life)
        else:
            known = mark.size_min or mark.sealed_size is not None
            self.world.require(not known, f"{_name(key)}: {mark.size_min} bytes were synced, it is gone")

    def sealed(self, key: Key, life: int, size: int) -> None:
        facts = self.objects[key]
        if facts.life == life and not facts.deleting:
            facts.sealed_size = size

    def deleting(self, key: Key) -> int:
        """Somebody is about to delete the object; returns the life that ends by it."""
        self.objects[key].deleting = True
        return self.objects[key].life

    def deleted(self, key: Key, life: int) -> None:
        """The deletion is known to have happened: the name is free, and what comes next is another object."""
        facts = self.objects[key]
        if facts.life == life:
            gone = not facts.made_anew and key not in self.contested
            self.objects[key] = ObjectFacts(life=life + 1, sent=facts.sent, deleted=gone)

    def fenced(self, namespace: str, epoch: int, holder: bytes) -> None:
        """A claim was acknowledged."""
        known = self.claim(namespace)
        self.world.require(
            known[0] != epoch or known[1] == holder, f"{namespace}: two holders were granted epoch {epoch}"
        )
        self.claims[namespace] = max(known, (epoch, holder))

    def claim(self, namespace: str) -> tuple[int, bytes]:
        """The newest claim that was acknowledged."""
        return self.claims.get(namespace, (0, b""))

    def claim_seen(self, namespace: str, known: tuple[int, bytes], epoch: int, holder: bytes) -> None:
        """USE said that this is the claim: never older than `known`, which was acknowledged before USE was asked."""
        self.world.require(
            epoch > known[0] or (epoch, holder) == known, f"{namespace}: claim {known[0]} was granted, {epoch} is shown"
        )

    def check_object(self, key: Key, info: ObjectInfo, content: bytes) -> None:
        """The whole object, read back: all facts about it, and where each byte comes from."""
        facts, name, require = self.objects[key], _name(key), self.world.require
        require(not facts.deleted, f"{name}: its deletion was acknowledged, it is back")
        require(len(content) == info.size, f"{name}: STAT says {info.size} bytes, GET gives {len(content)}")
        require(crc32c(content) == info.crc, f"{name}: STAT's CRC is not that of the content")
        self._check_origin(key, facts, content)
        if facts.deleting and facts.made_anew:
            return  # nobody knows which of two objects this is
        require(len(content) >= facts.size_min, f"{name}: {facts.size_min} bytes were synced, {len(content)} are there")
        for offset, data in facts.shown.items():
            require(content[offset : offset + len(data)] == data, f"{name}: other bytes at {offset} than were synced")
        for size, crc in facts.crcs.items():
            require(crc32c(memoryview(content)[:size]) == crc, f"{name}: the first {size} bytes have another CRC")
        if facts.sealed_size is not None:
            require(
                info.sealed and info.size == facts.sealed_size, f"{name}: it was sealed with {facts.sealed_size} bytes"
            )
        facts.shown = {0: content}
        facts.crcs = {info.size: info.crc}

    def _check_origin(self, key: Key, facts: ObjectFacts, content: bytes) -> None:
        """The content must be a row of pieces, each sent after what is before it, under a claim that was good then."""
        crcs = {0: 0}
        reached, waiting = 0, [0]
        while waiting:
            offset = waiting.pop()
            reached = max(reached, offset)
            for piece in facts.sent.get(offset, ()):
                end = offset + len(piece.data)
                good = piece.prefix_crc == crcs[offset] and piece.epoch >= piece.fenced_epoch
                if good and end not in crcs and content[offset:end] == piece.data:
                    crcs[end] = crc32c(piece.data, crcs[offset])
                    waiting.append(end)
        self.world.require(
            len(content) in crcs, f"{_name(key)}: nobody may have sent the bytes at {reached} after those before them"
        )


def _name(key: Key) -> str:
    return "/".join(key)
