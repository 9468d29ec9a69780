"""What a reader is told when bytes are not where they are looked for first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from journal.errors import DamagedJournalError, JournalCode, JournalError, UnavailableError, damaged
from journal.image.image import Image
from journal.image.nodes import Extent
from journal.owner.content import Content
from sos_client.wire.checksum import crc32c

BYTES = b"the bytes"
SEGMENT = "000000000000016f-00000004-13adac293ada74324f2233c8b03ad20b.seg"
EXTENT = Extent(object=SEGMENT, offset=0, length=len(BYTES), crc=crc32c(BYTES))


class OneCopy:
    label = "a copy"

    def __init__(self, held: bytes | JournalError) -> None:
        self.held = held

    async def read(self, _: str, offset: int, length: int) -> bytes:
        if isinstance(self.held, JournalError):
            raise self.held
        return self.held[offset : offset + length]


class Replicas:
    """Members, of whom some answer."""

    def __init__(self, **held: bytes | JournalError | None) -> None:
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


async def read(**held: bytes | JournalError | None) -> bytes:
    log, replicas, nothing = SimpleNamespace(epoch=5), Replicas(**held), NothingHere()
    content = Content(log=cast("Any", log), shown=Image(), local=cast("Any", nothing), replicas=cast("Any", replicas))
    return await content.extent(EXTENT)


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


ROTTEN = damaged("c has rotten bytes")
GONE = UnavailableError(JournalCode.UNAVAILABLE, "c does not answer")


@pytest.mark.parametrize("held", [b"other stuff", ROTTEN])
async def test_other_bytes_are_damage(held: bytes | JournalError) -> None:
    with pytest.raises(DamagedJournalError) as caught:
        await read(a=b"", b=held, c=b"")
    assert caught.value.code is JournalCode.DAMAGED


@pytest.mark.parametrize("held", [b"other stuff", ROTTEN])
@pytest.mark.parametrize("silent", [None, GONE])
async def test_damage_is_not_the_last_word_while_a_member_is_silent(
    held: bytes | JournalError, silent: JournalError | None
) -> None:
    with pytest.raises(UnavailableError, match=r"(damaged|rotten) bytes.*; not asked: b$"):
        await read(a=held, b=silent, c=b"")
