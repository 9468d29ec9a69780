"""What is damaged in a root is never served, and told; what would hide something lost keeps the store from starting."""

from __future__ import annotations

import dataclasses
import os
import shutil
from typing import TYPE_CHECKING

import pytest
import trio

from journal.disk.disk import OpenMode, open_disk
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError, ErrorCode
from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.storage.object_layout import CHUNK_BYTES, data_position
from sos_server.store.checking import check_root
from sos_server.store.namespace import Claim
from sos_server.store.starting import generation_without_header
from tests.sos_server.real_store import NO_IDLE_COPY, Client, flip, refused, running
from tests.sos_server.store_world import read_all

if TYPE_CHECKING:
    from pathlib import Path


async def test_damage_in_an_objects_file_is_never_served_and_told_once(tmp_path: Path) -> None:
    content = os.urandom(2 * CHUNK_BYTES + 100)
    reports: list[str] = []
    async with running(tmp_path / "r", report=reports.append) as store:
        namespace = await store.namespace("n", create=True)
        await Client(namespace).put("o", content)
        await store.copy_everything()
        (file,) = [path for path in (tmp_path / "r/objects").rglob("*") if path.is_file()]
        flip(file, data_position(CHUNK_BYTES + 7))
        assert (await namespace.read("o", 0, CHUNK_BYTES)).content == content[:CHUNK_BYTES]
        with refused(ErrorCode.DAMAGED, offset=CHUNK_BYTES):
            await namespace.read("o", 0, 1 << 20)
        assert (await namespace.read("o", 2 * CHUNK_BYTES, 100)).content == content[2 * CHUNK_BYTES :]
        flip(file, data_position(2 * CHUNK_BYTES + 50))
        with refused(ErrorCode.DAMAGED, offset=2 * CHUNK_BYTES + 10):
            await namespace.read("o", 2 * CHUNK_BYTES + 10, 1)
        file.unlink()
        await store.copy_everything()
        assert store.statistics.damaged_reads == 2
    assert reports == [f"object n/o is damaged at offset {CHUNK_BYTES}"]


async def test_damage_in_the_log_is_loud_and_never_served(tmp_path: Path) -> None:
    async with running(tmp_path / "r", graceful=False) as store:
        client = Client(await store.namespace("n", create=True))
        await client.put("o", b"to be damaged")
        await client.put("o", b"behind it", 13)
    (log,) = [path for path in (tmp_path / "r/log").iterdir() if b"to be damaged" in path.read_bytes()]
    flip(log, log.read_bytes().index(b"to be damaged") + 3)
    with pytest.raises(DamagedError, match="n/o: damaged at offset 0"):
        async with running(tmp_path / "r"):
            pass
    settings = dataclasses.replace(NO_IDLE_COPY, accept_log_damage=True)
    async with running(tmp_path / "r", settings) as store:
        namespace = await store.namespace("n", create=False)
        for _ in range(2):
            info = namespace.stat("o")
            assert (info.size, info.damaged, info.crc) == (22, True, crc32c(b"to be damagedbehind it"))
            with refused(ErrorCode.DAMAGED, offset=0):
                await namespace.read("o", 0, 22)
            await store.copy_everything()
    async with running(tmp_path / "r") as store:
        assert (await store.namespace("n", create=False)).stat("o").damaged


@pytest.mark.parametrize("place", ["header", "directory", "payload", "all of the file"])
async def test_copying_passes_over_no_batch_that_it_cannot_read(tmp_path: Path, place: str) -> None:
    """Where its bytes are is known in memory: they are copied, or what cannot be read of them is marked as damaged."""
    reports: list[str] = []
    async with running(tmp_path / "r", report=reports.append) as store:
        namespace = await store.namespace("n", create=True)
        client = Client(namespace)
        await client.put("o", b"copied ")
        await store.copy_everything()
        await client.put("o", b"whole ", 7)
        await client.put("o", b"to be damaged ", 13)
        await client.put("o", b"behind it", 27)
        await client.put("other", b"whole")
        (log,) = [path for path in (tmp_path / "r/log").iterdir() if b"to be damaged" in path.read_bytes()]
        payload = log.read_bytes().index(b"to be damaged")
        start = payload // BLOCK_BYTES * BLOCK_BYTES
        if place == "all of the file":
            log.write_bytes(bytes(log.stat().st_size))
        else:
            flip(log, {"header": start + 9, "directory": payload + 14 + 3, "payload": payload + 3}[place])
        await store.copy_everything()
        lost = place in {"payload", "all of the file"}
        crc = crc32c(b"copied whole to be damaged behind it")
        info = namespace.stat("o")
        assert (info.size, info.crc, info.damaged) == (36, crc, lost)
        if place != "payload":
            assert any("log generation 2" in line and "cannot be read" in line for line in reports)
        assert any("n/o is damaged" in line for line in reports) == lost
    async with open_disk(tmp_path / "r") as disk:
        assert (await check_root(disk)).is_whole == (not lost)
    async with running(tmp_path / "r") as store:
        namespace = await store.namespace("n", create=False)
        info = namespace.stat("o")
        assert (info.size, info.crc, info.damaged) == (36, crc, lost)
        if not lost:
            assert await read_all(namespace, "o") == b"copied whole to be damaged behind it"
            assert await read_all(namespace, "other") == b"whole"
            return
        with refused(ErrorCode.DAMAGED, offset=0):
            await namespace.read("o", 0, 36)


@pytest.mark.parametrize("place", ["header", "directory", "payload"])
async def test_the_last_batch_is_no_tail_when_the_log_has_been_quiet_since(tmp_path: Path, place: str) -> None:
    """A crash's tail and damage look alike where nothing comes after: so something small does, soon."""
    async with running(tmp_path / "r", graceful=False) as store:
        await Client(await store.namespace("n", create=True)).put("o", b"acknowledged")
        written = store.statistics.commits
        while store.statistics.commits == written:  # noqa: ASYNC110
            await trio.sleep(store.settings.closing_seconds)
        await trio.sleep(3 * store.settings.closing_seconds)
        assert store.statistics.commits == written + 1, "it is closed once"
    (log,) = [path for path in (tmp_path / "r/log").iterdir() if b"acknowledged" in path.read_bytes()]
    payload = log.read_bytes().index(b"acknowledged")
    start = payload // BLOCK_BYTES * BLOCK_BYTES
    flip(log, {"header": start + 9, "directory": payload + 12 + 3, "payload": payload + 3}[place])
    with pytest.raises(DamagedError, match="damaged"):
        async with running(tmp_path / "r"):
            pass
    async with open_disk(tmp_path / "r") as disk:
        assert not (await check_root(disk)).is_whole


async def test_a_lost_directory_in_the_log_keeps_the_store_from_starting(tmp_path: Path) -> None:
    async with running(tmp_path / "r", graceful=False) as store:
        client = Client(await store.namespace("n", create=True))
        await client.put("o", b"to be lost")
        await client.put("o", b"behind it", 10)
        await client.put("other", b"whole")
    (log,) = [path for path in (tmp_path / "r/log").iterdir() if b"to be lost" in path.read_bytes()]
    flip(log, log.read_bytes().index(b"to be lost") // 4096 * 4096)
    with pytest.raises(DamagedError, match="synced batch at byte"):
        async with running(tmp_path / "r"):
            pass
    settings = dataclasses.replace(NO_IDLE_COPY, accept_log_damage=True)
    async with running(tmp_path / "r", settings) as store:
        namespace = await store.namespace("n", create=False)
        assert await read_all(namespace, "other") == b"whole"


@pytest.mark.parametrize("lost", ["a directory", "a row"])
async def test_who_accepts_that_claims_may_be_lost_gets_other_namespaces(tmp_path: Path, lost: str) -> None:
    """By the name a claim is made, by the incarnation it is known whether what was claimed is still there."""
    async with running(tmp_path / "r", graceful=False) as store:
        namespace = await store.namespace("n", create=True)
        before = namespace.incarnation
        claim = Claim(epoch=7, holder=b"h" * 16)
        await namespace.fence(claim)
        await Client(namespace, claim=claim).put("o", b"behind it")
    (log,) = [path for path in (tmp_path / "r/log").iterdir() if b"h" * 16 in path.read_bytes()]
    place = log.read_bytes().index(b"h" * 16)
    flip(log, place // BLOCK_BYTES * BLOCK_BYTES if lost == "a directory" else place)
    with pytest.raises(DamagedError):
        async with running(tmp_path / "r"):
            pass
    settings = dataclasses.replace(NO_IDLE_COPY, accept_log_damage=True)
    seen = set()
    for _ in range(2):  # the second start finds the same damage: nothing was copied before the first one ended
        async with running(tmp_path / "r", settings, graceful=False) as store:
            namespace = await store.namespace("n", create=False)
            assert namespace.claim is None
            seen.add(namespace.incarnation)
    async with running(tmp_path / "r", settings) as store:
        await store.copy_everything()
    async with running(tmp_path / "r") as store:
        seen.add((await store.namespace("n", create=False)).incarnation)
    (after,) = seen
    assert after != before


async def test_who_accepts_damaged_bytes_alone_keeps_the_namespace(tmp_path: Path) -> None:
    """It is known which bytes they are: no claim, no name and no seal is lost with them."""
    async with running(tmp_path / "r", graceful=False) as store:
        namespace = await store.namespace("n", create=True)
        before = namespace.incarnation
        await Client(namespace).put("o", b"to be damaged")
        await Client(namespace).put("o", b"behind it", 13)
    (log,) = [path for path in (tmp_path / "r/log").iterdir() if b"to be damaged" in path.read_bytes()]
    flip(log, log.read_bytes().index(b"to be damaged") + 3)
    async with running(tmp_path / "r", dataclasses.replace(NO_IDLE_COPY, accept_log_damage=True)) as store:
        assert (await store.namespace("n", create=False)).incarnation == before


async def test_damage_in_the_catalog_keeps_the_store_from_starting(tmp_path: Path) -> None:
    async with running(tmp_path / "r") as store:
        await Client(await store.namespace("n", create=True)).put("o", b"x")
    (catalog,) = (tmp_path / "r/catalog").iterdir()
    flip(catalog, 20)
    with pytest.raises(DamagedError, match="catalog"):
        async with running(tmp_path / "r"):
            pass
    catalog.unlink()
    with pytest.raises(DamagedError, match="catalog"):
        async with running(tmp_path / "r"):
            pass


async def test_a_lost_log_file_keeps_the_store_from_starting(tmp_path: Path) -> None:
    async with running(tmp_path / "r", graceful=False) as store:
        client = Client(await store.namespace("n", create=True))
        for number in range(6):
            await client.put("o", bytes(300_000), number * 300_000)
    (log,) = [p for p in (tmp_path / "r/log").iterdir() if p.read_bytes()[8:16] == (1).to_bytes(8, "big")]
    log.unlink()
    with pytest.raises(DamagedError, match="generation 1"):
        async with running(tmp_path / "r"):
            pass


@pytest.mark.parametrize("with_bytes", [False, True])
async def test_a_damaged_header_of_the_newest_log_file(tmp_path: Path, *, with_bytes: bool) -> None:
    """Its bytes would look like those of an older generation, and what was acknowledged would be gone in silence."""
    async with running(tmp_path / "r", graceful=False) as store:
        client = Client(await store.namespace("n", create=True))
        await client.put("o", b"copied")
        await store.copy_everything()
        if with_bytes:
            await store.copy_everything()
            await client.put("o", b" and logged", 6)
    generations = {path.read_bytes()[8:16]: path for path in (tmp_path / "r/log").iterdir()}
    flip(generations[max(generations)], 12)
    with pytest.raises(DamagedError, match="generation 2 is needed"):
        async with running(tmp_path / "r"):
            pass
    settings = dataclasses.replace(NO_IDLE_COPY, accept_log_damage=True)
    async with running(tmp_path / "r", settings) as store:
        assert (await (await store.namespace("n", create=False)).read("o", 0, 100)).content == b"copied"


async def test_a_log_file_that_claims_a_batch_larger_than_itself(tmp_path: Path) -> None:
    async with running(tmp_path / "r", graceful=False) as store:
        await Client(await store.namespace("n", create=True)).put("o", b"content")
    log = tmp_path / "r/log/0001"
    with log.open("r+b") as file:
        file.write(bytes(BLOCK_BYTES))
        file.seek(BLOCK_BYTES + 4)
        file.write(b"\xff" * 4)  # entries
    async with open_disk(tmp_path / "r") as disk:
        file_of_log = await disk.open("log/0001", OpenMode.READ)
        assert await generation_without_header(file_of_log) == 0
        file_of_log.close()


@pytest.mark.parametrize("lost", ["log", "catalog", "objects", "log catalog", "log catalog objects"])
@pytest.mark.parametrize("directories_too", [True, False])
async def test_a_root_that_has_lost_a_part_is_not_taken_for_a_new_one(
    tmp_path: Path, lost: str, *, directories_too: bool
) -> None:
    async with running(tmp_path / "r") as store:
        client = Client(await store.namespace("n", create=True))
        await client.put("o", b"content")
        await store.copy_everything()
    for directory in lost.split():
        shutil.rmtree(tmp_path / "r" / directory)
        if not directories_too:
            (tmp_path / "r" / directory).mkdir()
    if lost == "objects" and not directories_too:  # the catalog knows what was there: reads are refused
        async with running(tmp_path / "r") as store:
            with refused(ErrorCode.DAMAGED):
                await (await store.namespace("n", create=False)).read("o", 0, 7)
        return
    if lost == "log catalog objects" and not directories_too:
        return  # so a new root looks, too, for a moment
    for _ in range(2):
        with pytest.raises(DamagedError):
            async with running(tmp_path / "r"):
                pass
        async with open_disk(tmp_path / "r") as disk:
            assert not (await check_root(disk)).is_whole


async def test_lost_or_strange_identity(tmp_path: Path) -> None:
    async with running(tmp_path / "r"):
        pass
    identity = tmp_path / "r/identity"
    for content in ('{"format": 2, "identity": "00"}', "{}", "[]", "\0"):
        identity.write_text(content)
        with pytest.raises(DamagedError):
            async with running(tmp_path / "r"):
                pass
    identity.unlink()
    with pytest.raises(DamagedError, match="no file 'identity'"):
        async with running(tmp_path / "r"):
            pass
