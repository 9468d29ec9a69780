"""What a reader is told when bytes are not where they are looked for first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from journal.copies.extents import read_extent
from journal.copies.local_log import LocalLog
from journal.errors import DamagedJournalError, JournalCode, JournalError, UnavailableError, damaged
from journal.image.image import Image
from journal.image.nodes import Extent
from journal.owner.content import Content
from sos_client.client import SosClient
from sos_client.wire.checksum import crc32c
from tests.journal.cluster import content as all_of
from tests.journal.cluster import create, memory_cluster, new_disk, open_on

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trio.testing import MockClock

    from sos_client.wire.messages import ObjectInfo

BYTES = b"the bytes"
SEGMENT = "000000000000016f-00000004-13adac293ada74324f2233c8b03ad20b.seg"
EXTENT = Extent(object=SEGMENT, offset=0, length=len(BYTES), crc=crc32c(BYTES))


class OneCopy:
    def __init__(self, label: str, held: bytes | JournalError) -> None:
        self.label = label
        self.held = held

    async def read(self, _: str, offset: int, length: int) -> bytes:
        if isinstance(self.held, JournalError):
            raise self.held
        return self.held[offset : offset + length]

    async def read_at_once(self, name: str, offset: int, length: int) -> bytes:
        return await self.read(name, offset, length)


class Replicas:
    """Members, of whom some answer."""

    def __init__(self, **held: bytes | JournalError | None) -> None:
        self.replicas = {member: None if one is None else OneCopy(member, one) for member, one in held.items()}

    async def wait_connected(self) -> None:
        pass

    def copies(self) -> dict[str, OneCopy]:
        return {member: copy for member, copy in self.replicas.items() if copy is not None}


class NothingHere:
    async def read(self, *_: object) -> bytes:
        return b""

    def keep_later(self, *_: object) -> None:
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
@pytest.mark.parametrize(("silent", "said"), [(None, "not asked: b"), (GONE, "no answer from: b")])
async def test_damage_is_not_the_last_word_while_a_member_is_silent(
    held: bytes | JournalError, silent: JournalError | None, said: str
) -> None:
    with pytest.raises(UnavailableError, match=rf"(damaged|rotten) bytes.*; {said}$"):
        await read(a=held, b=silent, c=b"")


async def test_who_did_not_answer_is_told_apart_from_who_could_not_be_asked() -> None:
    with pytest.raises(UnavailableError, match=r"; not asked: b; no answer from: c$"):
        await read(a=b"", b=None, c=GONE)


async def test_a_cold_read_lists_nothing_and_does_not_wait_for_the_local_copy(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = 0

    async def counted(client: SosClient, namespace: str) -> AsyncGenerator[ObjectInfo, None]:
        nonlocal listed
        listed += 1
        async for entry in every(client, namespace):
            yield entry

    async def for_ever(*_: object) -> None:
        await trio.sleep_forever()

    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", BYTES)
        async with open_on(servers, disk=new_disk()) as journal:
            await trio.sleep(5)  # members follow
            every = SosClient.list_all
            monkeypatch.setattr(SosClient, "list_all", counted)
            monkeypatch.setattr(LocalLog, "keep", for_ever)
            with trio.fail_after(1):
                assert await all_of(journal, "a") == BYTES
            assert listed == 0


async def test_what_was_written_again_beside_a_damaged_object_is_found(autojump_clock: MockClock) -> None:
    """A cold read believes nothing but the bytes: only when they are wrong does it ask which object stands for this."""

    class Mended:
        label = "a member"

        async def read_at_once(self, *_: object) -> bytes:
            return b"other stuff"

        async def read(self, *_: object) -> bytes:
            return BYTES

    assert await read_extent(EXTENT, [cast("Any", Mended())]) == BYTES


async def test_a_file_that_is_opened_stays_what_it_was(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", BYTES)
            status, pieces = await journal.open_read("a", 4)
            await journal.put("a", b"replaced", overwrite=True)
            assert status.size == len(BYTES)
            assert b"".join([piece async for piece in pieces]) == BYTES[4:]
