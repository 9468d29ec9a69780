"""`check` finds every changed bit in what counts, and changes nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from journal.disk.disk import DiskLockedError, open_disk
from sos_server.storage.object_layout import CHUNK_BYTES, checksum_position, data_position
from sos_server.store.checking import CheckReport, check_root
from tests.sos_server.real_store import NO_IDLE_COPY, Client, flip, running

if TYPE_CHECKING:
    from pathlib import Path


async def check(root: Path) -> CheckReport:
    before = fingerprint(root)
    async with open_disk(root) as disk:
        report = await check_root(disk)
    assert fingerprint(root) == before
    return report


def fingerprint(root: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and path.name != "lock"
    }


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    """Object `a` of two chunks and a bit in its file, `b` in the log; killed before anything says `b` was synced."""
    settings = dataclasses.replace(NO_IDLE_COPY, closing_seconds=3600.0)
    async with running(tmp_path / "root", settings, graceful=False) as store:
        client = Client(await store.namespace("n", create=True))
        await client.put("a", os.urandom(2 * CHUNK_BYTES + 10))
        await store.copy_everything()
        await client.put("b", b"in the log")
    return tmp_path / "root"


def object_file(root: Path) -> Path:
    (file,) = [path for path in (root / "objects").rglob("*") if path.is_file()]
    return file


async def test_what_is_whole(root: Path) -> None:
    progress: list[tuple[int, int]] = []
    async with open_disk(root) as disk:
        report = await check_root(disk, on_progress=lambda done, total: progress.append((done, total)))
    assert (report.is_whole, report.namespaces, report.objects, report.remarks) == (True, 1, 2, [])
    assert progress[-1] == (2 * CHUNK_BYTES + 10, 2 * CHUNK_BYTES + 10)
    assert report.verified_bytes > 2 * CHUNK_BYTES


@pytest.mark.parametrize(
    "position",
    [data_position(0), data_position(CHUNK_BYTES - 1), data_position(2 * CHUNK_BYTES + 9), checksum_position(1) + 3],
)
async def test_a_bit_in_an_objects_file(root: Path, position: int) -> None:
    flip(object_file(root), position)
    report = await check(root)
    assert len(report.damage) == 1
    assert "n/a" in report.damage[0]


async def test_a_missing_and_a_short_file(root: Path) -> None:
    os.truncate(object_file(root), data_position(CHUNK_BYTES))
    assert "n/a" in (await check(root)).damage[0]
    object_file(root).unlink()
    assert "is not there" in (await check(root)).damage[0]


async def test_a_bit_in_a_synced_batch(root: Path) -> None:
    async with running(root, graceful=False) as store:
        await Client(await store.namespace("n", create=False)).put("b", b" and more", 10)
        await Client(await store.namespace("n", create=False)).put("b", b" and more", 19)
    (log,) = [path for path in (root / "log").iterdir() if b"and more" in path.read_bytes()]
    flip(log, log.read_bytes().index(b"and more"))
    assert "n/b" in (await check(root)).damage[0]


async def test_a_torn_tail_is_remarked(root: Path) -> None:
    (log,) = [path for path in (root / "log").iterdir() if b"in the log" in path.read_bytes()]
    flip(log, log.read_bytes().index(b"in the log"))
    report = await check(root)
    assert report.is_whole
    assert "never synced" in report.remarks[0]


async def test_a_surplus_file_is_remarked(root: Path) -> None:
    (object_file(root).parent / "ff").write_bytes(b"")
    report = await check(root)
    assert report.is_whole
    assert "belongs to no object" in report.remarks[0]


FOREIGN = (
    "log/0001.bak",
    "log/notes",
    "catalog/0000000000000001.bak",
    "objects/README",
    "objects/0/zz",
    "objects/0/x/y",
)


async def test_files_of_somebody_else_are_remarked_and_left_alone(root: Path) -> None:
    copied = [(root / "log" / "0001", root / FOREIGN[0]), *((path, root / FOREIGN[2]) for path in catalogs(root))]
    for source, target in copied:
        shutil.copyfile(source, target)
    for name in FOREIGN:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    report = await check(root)
    assert report.is_whole
    assert report.objects == 2
    for name in FOREIGN:
        shown = name.removesuffix("/y")
        assert any(remark.startswith(shown) for remark in report.remarks), shown
    async with running(root) as store:
        namespace = await store.namespace("n", create=False)
        assert namespace.stat("b").size == len(b"in the log")
        await store.copy_everything()
    for name in FOREIGN:
        assert (root / name).exists(), name


def catalogs(root: Path) -> list[Path]:
    return sorted((root / "catalog").iterdir())


@pytest.mark.parametrize("position", [20, 40, 41, 47])  # the sequence, and how long its rows are
async def test_damaged_catalog(root: Path, position: int) -> None:
    for catalog in (root / "catalog").iterdir():
        flip(catalog, position)
    assert "catalog" in (await check(root)).damage[0]


async def test_not_while_a_server_runs(root: Path) -> None:
    async with running(root), open_disk(root) as disk:
        with pytest.raises(DiskLockedError):
            await check_root(disk)


async def test_an_empty_root(tmp_path: Path) -> None:
    report = await check(tmp_path)
    assert report.is_whole
    assert "no server was ever started" in report.remarks[0]
