"""What a reader is told when bytes are not where they are looked for first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from journal.errors import DamagedJournalError, JournalCode, JournalError, UnavailableError
from journal.image.nodes import Extent
from journal.owner.content import Content
from sos_client.wire.checksum import crc32c

BYTES = b"the bytes"
SEGMENT = "000000000000016f-00000004-13adac293ada74324f2233c8b03ad20b.seg"
EXTENT = Extent(object=SEGMENT, offset=0, length=len(BYTES), crc=crc32c(BYTES))


class OneCopy:
    label = "a copy"

    def __init__(self, held: bytes) -> None:
        self.held = held

    async def read(self, _: str, offset: int, length: int) -> bytes:
        return self.held[offset : offset + length]


class Replicas:
    """Members, of whom some answer."""

    def __init__(self, **held: bytes | None) -> None:
        copies = {member: None if one is None else OneCopy(one) for member, one in held.items()}
        self.replicas = {member: SimpleNamespace(member=member, copy=copy) for member, copy in copies.items()}

    async def wait_connected(self) -> None:
        pass

    def connected(self) -> list[Any]:
        return [replica for replica in self.replicas.values() if replica.copy is not None]


class NothingHere:
    async def read(self, *_: object) -> bytes:
        return b""

    async def keep(self, *_: object) -> None:
        pass


async def read(**held: bytes | None) -> bytes:
    journal: Any = SimpleNamespace(replicas=Replicas(**held), local=NothingHere(), epoch=5)
    return await Content(journal).extent(EXTENT)


async def test_whoever_has_the_bytes_gives_them() -> None:
    assert await read(a=b"", b=b"other stuff", c=BYTES) == BYTES


async def test_bytes_are_lost_when_every_member_says_that_it_has_none() -> None:
    with pytest.raises(DamagedJournalError) as lost:
        await read(a=b"", b=b"", c=b"")
    assert lost.value.code is JournalCode.LOST


async def test_bytes_are_not_lost_while_a_member_has_not_been_asked() -> None:
    with pytest.raises(UnavailableError, match=r"not asked: b, c$") as unavailable:
        await read(a=b"", b=None, c=None)
    assert unavailable.value.code is JournalCode.UNAVAILABLE


async def test_other_bytes_are_damage() -> None:
    with pytest.raises(JournalError) as damaged:
        await read(a=b"", b=b"other stuff", c=None)
    assert damaged.value.code is JournalCode.DAMAGED
