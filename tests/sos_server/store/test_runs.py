"""Runs: what goes straight to an object's own file is there, whole and in order, whatever happens on the way."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import random
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.disk.disk import FileWrite, RealDisk, open_disk
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError, ErrorCode, RefusedError
from sos_server.objects.object_files import path_of
from sos_server.storage.contents import IN_FILE
from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.storage.object_layout import GROUP_BYTES, data_position
from sos_server.store.checking import check_root
from sos_server.store.namespace import Claim, Namespace
from sos_server.store.object_store import ObjectStore
from sos_server.store.settings import StoreSettings
from tests.fakes.simulated_disk import SimulatedDisk
from tests.fakes.simulated_drive import SimulatedDrive
from tests.sos_server.real_store import NO_IDLE_COPY, ONE, TWO, Client, flip, refused, running
from tests.sos_server.store_world import RUNS, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from sos_server.store.appender import Appender

SETTINGS = dataclasses.replace(NO_IDLE_COPY, run_log_part=0.0, run_bytes_min=4096, run_bytes_max=200_000)
FRAME_BYTES = 30_000


class HeldDisk(RealDisk):
    """Writes of objects' files wait until they are let go, or fail."""

    held: trio.Event | None = None
    error: int | None = None
    waiting = 0

    async def write_files(self, writes: Sequence[FileWrite]) -> list[OSError | None]:
        if self.held is not None and writes:
            self.waiting += 1
            await self.held.wait()
        if self.error is not None:
            return [OSError(self.error, "made up") for _ in writes]
        return await super().write_files(writes)


@contextlib.asynccontextmanager
async def on_a_disk(
    tmp_path: Path, settings: StoreSettings = SETTINGS
) -> AsyncIterator[tuple[ObjectStore, Namespace, HeldDisk]]:
    """A store with a namespace; killed at the end."""
    async with open_disk(tmp_path / "r", create=True) as real:
        disk = HeldDisk(real._root)
        store = await ObjectStore.open(disk, settings=settings, wall_clock=lambda: 0.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            yield store, await store.namespace("n", create=True), disk
            nursery.cancel_scope.cancel()
        await disk.close()
        real._root = -1


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.002)


async def send(appender: Appender, content: bytes) -> None:
    for start in range(0, len(content), FRAME_BYTES):
        await appender.wait_room()
        frame = content[start : start + FRAME_BYTES]
        appender.append(appender.written, crc32c(frame), frame)


async def hurry(client: Client, name: str, content: bytes, size: int = 0) -> None:
    """Append without waiting for anything but room."""
    appender = await client.start(name, size)
    await send(appender, content)
    await appender.end()
    assert appender.synced == appender.written == size + len(content)


async def pieces_are_right(namespace: Namespace, name: str, content: bytes) -> None:
    found = bytearray()
    while piece := (await namespace.read(name, len(found), 1 << 20)).content:
        found += piece
    assert found == content
    rng = random.Random(1)
    for _ in range(30):
        start = rng.randrange(len(content))
        piece, crc = await namespace.read(name, start, rng.randrange(1, 200_000))
        assert bytes(piece) == content[start : start + len(piece)]
        assert crc == crc32c(piece)
    info = namespace.stat(name)
    assert (info.size, info.crc) == (len(content), crc32c(content))


async def test_a_long_append_is_read_before_it_is_copied_and_after_and_after_a_restart(tmp_path: Path) -> None:
    content = os.urandom(1_000_001)
    async with running(tmp_path / "r", SETTINGS) as store:
        client = Client(await store.namespace("n", create=True))
        await hurry(client, "o", content)
        assert store.statistics.straight_bytes > 700_000
        assert store.statistics.log_bytes < 400_000
        await pieces_are_right(client.namespace, "o", content)
        await store.copy_everything()
        assert store.log.files.uncopied_bytes() < 10_000
        await pieces_are_right(client.namespace, "o", content)
    async with running(tmp_path / "r", SETTINGS) as store:
        await pieces_are_right(await store.namespace("n", create=False), "o", content)


async def test_short_and_long_appends_take_turns_in_one_object(tmp_path: Path) -> None:
    rng, content = random.Random(2), b""
    async with on_a_disk(tmp_path) as (store, namespace, _):
        client = Client(namespace)
        for _ in range(40):
            more = rng.randbytes(rng.choice([1, 100, 5000, 40_000, 300_000]))
            await hurry(client, "o", more, len(content))
            content += more
            if rng.random() < 0.2:
                await store.copy_everything()
        assert store.statistics.straight_bytes > 1_000_000
        await pieces_are_right(namespace, "o", content)
    async with open_disk(tmp_path / "r") as disk:
        report = await check_root(disk)
        assert (report.damage, report.verified_bytes >= len(content)) == ([], True)
    async with running(tmp_path / "r", SETTINGS) as store:
        namespace = await store.namespace("n", create=False)
        await pieces_are_right(namespace, "o", content)
        await hurry(Client(namespace), "o", b"more", len(content))
        await store.copy_everything()
        await pieces_are_right(namespace, "o", content + b"more")


async def test_a_run_goes_around_a_checksum_page(tmp_path: Path) -> None:
    content = os.urandom(1 << 20) * (GROUP_BYTES // (1 << 20)) + os.urandom(500_000)
    settings = dataclasses.replace(SETTINGS, run_bytes_max=2 << 20, log_bytes_max=16 << 20)
    async with on_a_disk(tmp_path, settings) as (store, namespace, _):
        await hurry(Client(namespace), "o", content)
        assert store.statistics.straight_bytes > GROUP_BYTES - (4 << 20)
        await pieces_are_right(namespace, "o", content)
        await store.copy_everything()
        await pieces_are_right(namespace, "o", content)


async def test_a_run_that_rots_is_never_served_and_found_by_check(tmp_path: Path) -> None:
    content = os.urandom(500_000)
    async with on_a_disk(tmp_path) as (_, namespace, _):
        await hurry(Client(namespace), "o", content)
        number = namespace._stored.objects["o"].number
        flip(tmp_path / "r" / path_of(number), data_position(200_000))
        with refused(ErrorCode.DAMAGED):
            await read_all(namespace, "o")
    async with open_disk(tmp_path / "r") as disk:
        (damage,) = (await check_root(disk)).damage
        assert damage.startswith("object n/o: the chunk at offset 196608 does not match its CRC")
    async with running(tmp_path / "r", SETTINGS) as store:
        namespace = await store.namespace("n", create=False)
        await store.copy_everything()
        with refused(ErrorCode.DAMAGED):
            await read_all(namespace, "o")


async def test_a_note_that_rots_under_a_running_server_is_known_from_memory(tmp_path: Path) -> None:
    """A start, however, has nothing but the note, and says so."""
    content = os.urandom(400_000)
    reports: list[str] = []
    for restarts in (False, True):
        root = tmp_path / str(restarts)
        async with running(root, SETTINGS, graceful=False, report=reports.append) as store:
            client = Client(await store.namespace("n", create=True))
            await hurry(client, "o", content)
            await hurry(client, "p", b"after it")
            number = client.namespace._stored.objects["o"].number
            logged = client.namespace._stored.objects["o"].logged_bytes()
            first = next(piece for piece in logged.pieces(0, 400_000) if piece.position == IN_FILE)
            (log,) = [path for path in (root / "log").iterdir() if first.crc.to_bytes(4, "big") in path.read_bytes()]
            flip(log, log.read_bytes().index(first.crc.to_bytes(4, "big")))
            if not restarts:
                await store.copy_everything()
                assert client.namespace._stored.objects["o"].copied == 400_000
                assert number not in {stored.number for stored in store.contents.objects.values() if stored.damaged}
                await pieces_are_right(client.namespace, "o", content)
                assert any("the note at byte" in report for report in reports)
    with pytest.raises(DamagedError, match="n/o: what the log says of a run at offset"):
        async with running(tmp_path / "True", SETTINGS):
            pass
    accepting = dataclasses.replace(SETTINGS, accept_log_damage=True)
    async with running(tmp_path / "True", accepting) as store:
        namespace = await store.namespace("n", create=False)
        assert await read_all(namespace, "o") == content[: first.offset]
        assert namespace.stat("o").damaged
        assert await read_all(namespace, "p") == b"after it"


def test_bytes_then_name_then_note() -> None:
    """Each is synced before the next is written."""
    calls: list[tuple[str, str]] = []

    async def main() -> None:
        disk = SimulatedDisk(SimulatedDrive(random.Random(1)), observe=lambda call, path: calls.append((call, path)))
        settings = dataclasses.replace(RUNS, idle_copy_seconds=3600.0, run_bytes_min=60_000)
        store = await ObjectStore.open(disk, settings=settings, wall_clock=trio.current_time)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            client = Client(await store.namespace("n", create=True))
            appender = await client.start("o")
            for _ in range(6):
                appender.append(appender.written, crc32c(bytes(40_000)), bytes(40_000))
            calls.clear()
            await appender.end()
            assert store.statistics.straight_bytes > 100_000
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    places = [path.partition("/")[0] for call, path in calls if call in {"write", "sync", "sync_directory"}]
    told = [(call, path) for call, path in calls if path.startswith("objects")]
    last = len(places) - places[::-1].index("objects")
    assert [call for call, _ in told[-4:]] == ["open", "write", "sync", "sync_directory"]
    assert places[last:] == ["log", "log"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
async def test_a_run_that_cannot_be_written_goes_through_the_log(tmp_path: Path, error: int) -> None:
    content = os.urandom(400_000)
    async with on_a_disk(tmp_path) as (store, namespace, disk):
        disk.error = error
        await hurry(Client(namespace), "o", content)
        await pieces_are_right(namespace, "o", content)
        assert store.statistics.straight_bytes == 0
        stored = namespace._stored.objects["o"]
        assert (stored.read_only is not None) == (error == errno.EIO)
        disk.error = None
        await store.copy_everything()
        assert stored.copied == (0 if error == errno.EIO else 400_000)
        if error == errno.EIO:
            with refused(ErrorCode.IO_ERROR, reason="made up"):
                await Client(namespace).start("o", 400_000)
            await hurry(Client(namespace), "p", content)
            assert store.statistics.straight_bytes > 0
    async with running(tmp_path / "r", SETTINGS) as store:
        namespace = await store.namespace("n", create=False)
        await pieces_are_right(namespace, "o", content)
        await hurry(Client(namespace), "o", b"more", 400_000)


async def test_the_log_files_that_have_only_notes_of_a_file_that_fails_stay(tmp_path: Path) -> None:
    """The catalog knows of the first block, and only the notes of the others: without them they are lost at a start."""
    content = os.urandom(16 * BLOCK_BYTES)
    async with on_a_disk(tmp_path) as (store, namespace, disk), trio.open_nursery() as nursery:
        appender = await Client(namespace).start("o")
        disk.held = trio.Event()
        for start in range(0, len(content), 4 * BLOCK_BYTES):
            piece = content[start : start + 4 * BLOCK_BYTES]
            appender.append(start, crc32c(piece), piece)
        await until(lambda: disk.waiting)
        nursery.start_soon(store.copy_everything)  # of the first piece, as soon as the run is over
        await until(lambda: store.log.files.full)
        disk.held.set()
        await appender.end()
        stored = namespace._stored.objects["o"]
        await until(lambda: stored.copied)
        assert stored.logged is not None
        assert {piece.position for piece in stored.logged.pieces(stored.copied, stored.size)} == {IN_FILE}
        disk.error = errno.EIO
        await store.copy_everything()
        assert stored.read_only is not None
        disk.error = None
        await hurry(Client(namespace), "p", content)
        await store.copy_everything()
    async with running(tmp_path / "r", SETTINGS) as store:
        await pieces_are_right(await store.namespace("n", create=False), "o", content)


async def test_a_claim_does_not_wait_for_a_run_and_its_bytes_come_to_nothing(tmp_path: Path) -> None:
    """What the successor appends is there, although the predecessor's run reaches the file later than it reached the
    log."""
    async with on_a_disk(tmp_path) as (store, namespace, disk):
        first = Client(namespace)
        appender = await first.start("o")
        disk.held = trio.Event()
        await send(appender, b"a" * 150_000)
        await until(lambda: disk.waiting)
        claim = Claim(epoch=1, holder=bytes(16))
        with trio.fail_after(300):
            await namespace.fence(claim)
        assert [refusal.code for refusal in first.evicted] == [ErrorCode.FENCED]
        size = namespace.stat("o").size
        assert appender.written == appender.synced == size < 150_000
        await Client(namespace, instance=TWO, claim=claim).put("o", b"b" * 1000, size)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.copy_everything)
            await until(lambda: store._copier._writer._copied)
            disk.held.set()
        content = b"a" * size + b"b" * 1000
        await pieces_are_right(namespace, "o", content)
        assert namespace._stored.objects["o"].copied == len(content)
        assert (namespace._stored.objects["o"].unsynced_bytes, namespace.used_bytes) == (0, len(content))
    async with running(tmp_path / "r", SETTINGS) as store:
        await pieces_are_right(await store.namespace("n", create=False), "o", content)


async def test_who_is_evicted_while_the_file_is_copied_to_never_writes_to_it(tmp_path: Path) -> None:
    async with on_a_disk(tmp_path) as (store, namespace, disk):
        client = Client(namespace, instance=ONE)
        await client.put("o", b"logged")
        disk.held = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.copy_everything)
            await until(lambda: disk.waiting)
            appender = await client.start("o", 6)
            await send(appender, b"a" * 150_000)
            await until(lambda: appender._run_append is not None and not appender._run_append._gathered.fill)
            successor = await client.start("o", appender.synced)
            assert appender.closed_by is not None
            await successor.end()
            disk.held.set()
            await until(lambda: not store.runs._active)
        assert (store.statistics.straight_bytes, disk.waiting) == (0, 1)
        assert namespace.stat("o").size == appender.synced


async def test_the_file_of_an_object_that_is_deleted_meanwhile_goes(tmp_path: Path) -> None:
    async with on_a_disk(tmp_path) as (store, namespace, disk):
        appender = await Client(namespace).start("o")
        disk.held = trio.Event()
        await send(appender, b"a" * 150_000)
        await until(lambda: disk.waiting)
        appender.abandon()
        number = namespace._stored.objects["o"].number
        await namespace.seal("o", size=namespace.stat("o").size, claim=None)
        await namespace.delete("o", claim=None)
        await store._copier.sweep()
        disk.held.set()
        await until(lambda: not store.runs._active)
        await store._copier.sweep()
        assert not (tmp_path / "r" / path_of(number)).exists()


async def test_few_appends_have_runs_at_a_time_and_none_in_a_log_of_an_older_version(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, run_appends_max=2)
    async with on_a_disk(tmp_path, settings) as (store, namespace, disk):
        assert store.log.files.current is not None
        store.log.files.current.version = 2
        await hurry(Client(namespace), "old", bytes(300_000))
        assert store.statistics.straight_bytes == 0
        store.log.files.current.version = 3
        disk.held = trio.Event()
        appenders = [await Client(namespace).start(f"o{number}") for number in range(4)]
        for appender in appenders:
            appender.append(0, crc32c(bytes(60_000)), bytes(60_000))
            appender.append(60_000, crc32c(bytes(60_000)), bytes(60_000))
        with trio.fail_after(300):
            await appenders[2].end()
            await appenders[3].end()
        assert [appender.synced for appender in appenders[:2]] == [60_000, 60_000]
        disk.held.set()
        for appender in appenders[:2]:
            await appender.end()


async def test_while_the_log_has_room_everything_goes_through_it(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, run_log_part=0.25)
    async with on_a_disk(tmp_path, settings) as (store, namespace, disk):
        disk.held = trio.Event()
        await hurry(Client(namespace), "o", bytes(900_000))
        assert (store.statistics.straight_bytes, store.log.files.pressed) == (0, False)
        size = 900_000
        while not store.log.files.pressed:
            await hurry(Client(namespace), "o", bytes(60_000), size)
            size += 60_000
        disk.held.set()
        await hurry(Client(namespace), "o", bytes(900_000), size)
        assert store.statistics.straight_bytes > 500_000
        await store.copy_everything()
        assert not store.log.files.pressed


async def test_a_store_that_is_closed_drops_what_the_log_was_not_given(tmp_path: Path) -> None:
    async with on_a_disk(tmp_path) as (store, namespace, disk):
        client = Client(namespace)
        appender = await client.start("o")
        disk.held = trio.Event()
        await send(appender, b"a" * 150_000)
        await until(lambda: disk.waiting)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_refused_at_its_end, appender)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert store._tasks is not None
            store._tasks.cancel()
            disk.held.set()
        assert [refusal.code for refusal in client.evicted] == [ErrorCode.SHUTTING_DOWN]


async def _refused_at_its_end(appender: Appender) -> None:
    with pytest.raises(RefusedError, match="SHUTTING_DOWN"):
        await appender.end()


@pytest.mark.parametrize("sizes", [(4095, 8192), (8192, 4096), (4096, 1 << 31)])
def test_sizes_that_make_no_sense_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="run_bytes_min"):
        StoreSettings(run_bytes_min=sizes[0], run_bytes_max=sizes[1])
