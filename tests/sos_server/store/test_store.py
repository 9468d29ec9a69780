"""What the store promises, on a real disk: who may append, what is seen when, and what a restart finds."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.disk.disk import DiskLockedError, open_disk
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.limits import EPOCHS_AHEAD_MAX, OFFSET_MAX
from sos_server.storage.object_layout import CHUNK_BYTES
from sos_server.store.namespace import Claim, Namespace
from sos_server.store.object_store import ObjectStore
from tests.sos_server.real_store import NO_IDLE_COPY, ONE, TWO, Client, refused, running
from tests.sos_server.store_world import SMALL, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with running(tmp_path / "root") as store:
        yield store


@pytest.fixture
async def namespace(store: ObjectStore) -> Namespace:
    return await store.namespace("n", create=True)


@pytest.fixture
def client(namespace: Namespace) -> Client:
    return Client(namespace)


async def test_appended_bytes_are_seen_when_synced_and_not_before(client: Client, namespace: Namespace) -> None:
    appender = await client.start("o")
    with refused(ErrorCode.NOT_FOUND, what="object", name="o"):
        namespace.stat("o")
    appender.append(0, crc32c(b"hello"), memoryview(b"hello"))
    assert (appender.written, appender.synced) == (5, 0)
    assert namespace.list("", 10) == []
    await appender.end()
    assert client.progress == [(5, 5)]
    info = namespace.stat("o")
    assert (info.size, info.crc, info.sealed, info.epoch) == (5, crc32c(b"hello"), False, 0)
    assert (await namespace.read("o", 0, 100)).content == b"hello"
    assert (await namespace.read("o", 1, 3)).content == b"ell"
    assert (await namespace.read("o", 5, 3)).content == b""
    with refused(ErrorCode.RANGE, size=5):
        await namespace.read("o", 6, 1)


async def test_an_empty_object_is_durable_when_its_append_has_ended(client: Client, namespace: Namespace) -> None:
    await client.put("empty", b"")
    assert namespace.stat("empty").size == 0


async def test_the_callers_buffer_may_be_used_again_at_once(client: Client, namespace: Namespace) -> None:
    buffer = bytearray(b"first")
    appender = await client.start("o")
    appender.append(0, crc32c(buffer), memoryview(buffer))
    buffer[:] = b"other"
    await appender.end()
    assert (await namespace.read("o", 0, 10)).content == b"first"


async def test_wrong_size_and_wrong_prefix_say_what_is_there(client: Client) -> None:
    await client.put("o", b"hello")
    real = {"size": 5, "crc": crc32c(b"hello"), "epoch": 0}
    for size in (0, 4, 6):
        with refused(ErrorCode.WRONG_SIZE, **real):
            await client.start("o", size)
    with refused(ErrorCode.WRONG_SIZE, size=0):
        await client.start("new", 3)
    with refused(ErrorCode.WRONG_PREFIX, **real):
        await client.start("o", 5, prefix_crc=crc32c(b"hallo"))
    (await client.start("o", 5, prefix_crc=crc32c(b"hello"))).abandon()
    appender = await client.start("o", 5)
    with refused(ErrorCode.WRONG_SIZE, size=5):
        appender.append(4, 0, memoryview(b""))


@pytest.mark.parametrize("name", ["", "..", "a/b", ".a", "a" * 129, "ä", "a\n"])
async def test_names_that_are_none(store: ObjectStore, client: Client, name: str) -> None:
    for call in (lambda: store.namespace(name, create=True), lambda: client.start(name), lambda: client.put(name, b"")):
        with refused(ErrorCode.BAD_NAME):
            await call()


async def test_missing_things(store: ObjectStore, namespace: Namespace) -> None:
    with refused(ErrorCode.NOT_FOUND, what="namespace"):
        await store.namespace("other", create=False)
    with refused(ErrorCode.NOT_FOUND, what="object"):
        await namespace.read("o", 0, 1)
    with refused(ErrorCode.NOT_FOUND):
        await namespace.seal("o", size=0, claim=None)
    with refused(ErrorCode.NOT_FOUND):
        await namespace.delete("o", claim=None)


async def test_another_client_is_busy_the_same_one_takes_over(namespace: Namespace) -> None:
    first, again, other = Client(namespace), Client(namespace), Client(namespace, instance=TWO)
    appender = await first.start("o")
    appender.append(0, crc32c(b"sent"), memoryview(b"sent"))
    with refused(ErrorCode.BUSY, object="o"):
        await other.start("o")
    with refused(ErrorCode.WRONG_SIZE, size=4, crc=crc32c(b"sent")):
        await again.start("o", 0)
    assert [refusal.code for refusal in first.evicted] == [ErrorCode.BUSY]
    with refused(ErrorCode.BUSY):
        appender.append(4, crc32c(b"late"), memoryview(b"late"))
    successor = await again.start("o", 4)
    with refused(ErrorCode.BUSY):
        await appender.end()
    await successor.end()
    (await other.start("o", 4)).abandon()
    assert namespace.stat("o").size == 4


async def test_two_clients_cannot_make_one_object(namespace: Namespace) -> None:
    first = await Client(namespace).start("o")
    with refused(ErrorCode.BUSY):
        await Client(namespace, instance=TWO).start("o")
    await first.end()


async def test_a_fence_evicts_syncs_and_shuts_out(namespace: Namespace) -> None:
    old = Client(namespace)
    appender = await old.start("o")
    appender.append(0, crc32c(b"sent"), memoryview(b"sent"))
    claim = Claim(epoch=3, holder=ONE)
    await namespace.fence(claim)
    assert namespace.claim == claim
    assert namespace.stat("o").size == 4
    assert [refusal.code for refusal in old.evicted] == [ErrorCode.FENCED]
    with refused(ErrorCode.FENCED, epoch=3, holder=ONE):
        appender.append(4, 0, memoryview(b""))
    for wrong in (None, Claim(epoch=2, holder=ONE), Claim(epoch=3, holder=TWO)):
        with refused(ErrorCode.FENCED, epoch=3, holder=ONE):
            await Client(namespace, claim=wrong).start("o", 4)
        with refused(ErrorCode.FENCED):
            await namespace.seal("o", size=4, claim=wrong)
        with refused(ErrorCode.FENCED):
            await namespace.delete("o", claim=wrong)
    assert (await Client(namespace, claim=claim).put("o", b"more", 4)).epoch == 3


async def test_claims_only_grow(namespace: Namespace) -> None:
    await namespace.fence(Claim(epoch=3, holder=ONE))
    await namespace.fence(Claim(epoch=3, holder=ONE))
    for epoch in (1, 3):
        with refused(ErrorCode.STALE_EPOCH, epoch=3, holder=ONE):
            await namespace.fence(Claim(epoch=epoch, holder=TWO))
    await namespace.fence(Claim(epoch=4, holder=TWO))


@pytest.mark.parametrize("seconds", [1000.0, 1_900_000_000.0])
async def test_no_claim_uses_up_the_epochs(seconds: float, tmp_path: Path) -> None:
    """One for each second since 1970, and some more, whatever the present one is; a journal's have 32 bits."""
    last = int(seconds) + EPOCHS_AHEAD_MAX
    clock = [seconds]
    async with running(tmp_path / "root", time=lambda: clock[-1]) as store:
        namespace = await store.namespace("n", create=True)
        await namespace.fence(Claim(epoch=3, holder=ONE))
        for epoch in (last + 1, 1 << 31, 1 << 62, OFFSET_MAX):
            with refused(ErrorCode.STALE_EPOCH, epoch=3, holder=ONE):
                await namespace.fence(Claim(epoch=epoch, holder=TWO))
        await namespace.fence(Claim(epoch=last, holder=TWO))
        with refused(ErrorCode.STALE_EPOCH, epoch=last, holder=TWO):
            await namespace.fence(Claim(epoch=last + 1, holder=ONE))
        clock.append(seconds + 1)
        await namespace.fence(Claim(epoch=last + 1, holder=ONE))
        clock.append(seconds - 3600)
        await namespace.fence(Claim(epoch=last + 1, holder=ONE))


async def test_a_namespace_never_claimed_has_epoch_0_and_no_holder(namespace: Namespace) -> None:
    with refused(ErrorCode.STALE_EPOCH, epoch=0, holder=b""):
        await namespace.fence(Claim(epoch=0, holder=ONE))
    assert namespace.claim is None
    for claim in (Claim(epoch=0, holder=ONE), Claim(epoch=7, holder=ONE), Claim(epoch=7, holder=b"")):
        with refused(ErrorCode.FENCED, epoch=0, holder=b""):
            await Client(namespace, claim=claim).start("o")
    await Client(namespace).put("o", b"more")


async def test_under_a_claim_the_newer_append_wins(namespace: Namespace) -> None:
    claim = Claim(epoch=1, holder=ONE)
    await namespace.fence(claim)
    first = Client(namespace, claim=claim)
    appender = await first.start("o")
    appender.append(0, crc32c(b"sent"), memoryview(b"sent"))
    await (await Client(namespace, claim=claim, instance=TWO).start("o", 4)).end()
    assert len(first.evicted) == 1
    assert namespace.stat("o").size == 4


async def test_fences_at_the_same_time_let_one_win(namespace: Namespace) -> None:
    outcomes: list[object] = []

    async def fence(holder: bytes) -> None:
        try:
            await namespace.fence(Claim(epoch=1, holder=holder))
            outcomes.append(holder)
        except RefusedError as refusal:
            outcomes.append(refusal.code)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(fence, bytes([number]) * 16)
    assert outcomes.count(ErrorCode.STALE_EPOCH) == 4
    assert namespace.claim is not None
    assert namespace.claim.holder in outcomes


async def test_a_sealed_object_never_changes(client: Client, namespace: Namespace) -> None:
    await client.put("o", b"hello")
    with refused(ErrorCode.WRONG_SIZE, size=5):
        await namespace.seal("o", size=4, claim=None)
    info = await namespace.seal("o", size=5, claim=None)
    assert (info.sealed, info.size, info.crc) == (True, 5, crc32c(b"hello"))
    assert await namespace.seal("o", size=5, claim=None) == info
    with refused(ErrorCode.SEALED, size=5):
        await client.start("o", 5)


async def test_deleting_needs_a_seal_and_time(tmp_path: Path) -> None:
    now = 1000.0
    settings = dataclasses.replace(NO_IDLE_COPY, retention_seconds=60)
    async with running(tmp_path / "r", settings, time=lambda: now) as store:
        client = Client(await store.namespace("n", create=True))
        await client.put("o", b"hello")
        with refused(ErrorCode.NOT_SEALED, size=5):
            await client.namespace.delete("o", claim=None)
        await client.namespace.seal("o", size=5, claim=None)
        now = 1030.5
        with refused(ErrorCode.RETAINED, seconds=30):
            await client.namespace.delete("o", claim=None)
    async with running(tmp_path / "r", settings, time=lambda: now) as store:
        client = Client(await store.namespace("n", create=False))
        now = 1060.0
        await client.namespace.delete("o", claim=None)
        with refused(ErrorCode.NOT_FOUND):
            client.namespace.stat("o")
        assert (await client.put("o", b"anew")).size == 4
        assert client.namespace.used_bytes == 4
    async with running(tmp_path / "r", settings) as store:
        assert (await (await store.namespace("n", create=False)).read("o", 0, 10)).content == b"anew"


async def test_deleted_files_are_gone_at_once(client: Client, store: ObjectStore, tmp_path: Path) -> None:
    await client.put("o", b"x" * 100_000)
    await store.copy_everything()
    (file,) = [path for path in (tmp_path / "root/objects").rglob("*") if path.is_file()]
    await client.namespace.seal("o", size=100_000, claim=None)
    await client.namespace.read("o", 0, 10)
    await client.namespace.delete("o", claim=None)
    with trio.fail_after(300):
        while file.exists():  # noqa: ASYNC110
            await trio.sleep(0.01)
    open_files = [
        os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd.isdigit() and _is_open(fd)
    ]
    assert not [path for path in open_files if path.endswith("(deleted)") and str(tmp_path) in path]


def _is_open(descriptor: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{descriptor}")


async def test_quota(tmp_path: Path) -> None:
    settings = dataclasses.replace(NO_IDLE_COPY, quota_bytes=10, quotas={"large": 1 << 20})
    async with running(tmp_path / "r", settings) as store:
        client = Client(await store.namespace("n", create=True))
        appender = await client.start("o")
        appender.append(0, crc32c(b"12345678"), memoryview(b"12345678"))
        with refused(ErrorCode.QUOTA, used=8, quota=10):
            appender.append(8, crc32c(b"abc"), memoryview(b"abc"))
        appender.append(8, crc32c(b"ab"), memoryview(b"ab"))
        await appender.end()
        with refused(ErrorCode.QUOTA, used=10, quota=10):
            await client.start("other")
        await Client(await store.namespace("large", create=True)).put("o", bytes(5000))
        await client.namespace.seal("o", size=10, claim=None)
        await client.namespace.delete("o", claim=None)
        await client.put("other", b"0123456789")
    async with running(tmp_path / "r", settings) as store:
        assert (await store.namespace("n", create=False)).used_bytes == 10


async def test_a_namespace_has_so_many_objects_empty_ones_too(tmp_path: Path) -> None:
    settings = dataclasses.replace(NO_IDLE_COPY, namespace_objects_max=2)
    async with running(tmp_path / "r", settings) as store:
        client = Client(await store.namespace("n", create=True))
        await client.put("a", b"")
        on_its_way = await client.start("b")
        with refused(ErrorCode.QUOTA, used=2, quota=2) as caught:
            await client.start("c")
        assert "raise storage.namespace_objects_max" in caught.value.message
        await on_its_way.end()
        await client.put("a", b"what is there may grow")
        await Client(await store.namespace("other", create=True)).put("c", b"")
        await client.namespace.seal("b", size=0, claim=None)
        await client.namespace.delete("b", claim=None)
        await client.put("c", b"")
    fewer = dataclasses.replace(NO_IDLE_COPY, namespace_objects_max=1)
    async with running(tmp_path / "r", fewer) as store:
        client = Client(await store.namespace("n", create=False))
        assert [info.name for info in client.namespace.list("", 10)] == ["a", "c"]
        with refused(ErrorCode.QUOTA, used=2, quota=1):
            await client.start("d")
        store.use_settings(NO_IDLE_COPY)
        await client.put("d", b"")


async def test_all_namespaces_together_have_so_many_objects(tmp_path: Path) -> None:
    settings = dataclasses.replace(NO_IDLE_COPY, objects_max=2)
    async with running(tmp_path / "r", settings) as store:
        one = Client(await store.namespace("one", create=True))
        two = Client(await store.namespace("two", create=True))
        await one.put("a", b"")
        on_its_way = await two.start("a")
        with refused(ErrorCode.QUOTA, used=2, quota=2) as caught:
            await one.start("b")
        assert "raise storage.objects_max" in caught.value.message
        await on_its_way.end()
        await two.namespace.seal("a", size=0, claim=None)
        await two.namespace.delete("a", claim=None)
        await one.put("b", b"")


async def test_a_server_has_so_many_namespaces(tmp_path: Path) -> None:
    settings = dataclasses.replace(NO_IDLE_COPY, namespaces_max=2)
    async with running(tmp_path / "r", settings) as store:
        for name in "one", "two":
            await store.namespace(name, create=True)
        with refused(ErrorCode.QUOTA, used=2, quota=2) as caught:
            await store.namespace("three", create=True)
        assert "raise storage.namespaces_max" in caught.value.message
        with refused(ErrorCode.NOT_FOUND):
            await store.namespace("three", create=False)
        assert (await store.namespace("two", create=True)).name == "two"


async def test_listing_pages_in_order(client: Client, namespace: Namespace) -> None:
    names = [f"o{number}" for number in (3, 1, 20, 2)]
    for name in names:
        await client.put(name, name.encode())
    assert [info.name for info in namespace.list("", 100)] == sorted(names)
    assert [info.name for info in namespace.list("o1", 2)] == ["o2", "o20"]
    await namespace.seal("o2", size=2, claim=None)
    await namespace.delete("o2", claim=None)
    await client.put("o0", b"")
    assert [info.name for info in namespace.list("", 100)] == ["o0", "o1", "o20", "o3"]


async def test_growth_wakes_followers(client: Client, namespace: Namespace) -> None:
    await client.put("o", b"abc")
    await namespace.wait_growth("o", 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(namespace.wait_growth, "o", 3)
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        await client.put("o", b"d", 3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(namespace.wait_growth, "o", 4)
        await trio.testing.wait_all_tasks_blocked()
        await namespace.seal("o", size=4, claim=None)


@pytest.mark.parametrize("copied", [False, True], ids=["in the log", "in its file"])
@pytest.mark.parametrize("graceful", [False, True], ids=["killed", "closed"])
async def test_a_restart_finds_everything(tmp_path: Path, *, graceful: bool, copied: bool) -> None:
    content = os.urandom(3 * CHUNK_BYTES + 777)
    async with running(tmp_path / "r", graceful=graceful) as store:
        identity = store.identity
        namespace = await store.namespace("n", create=True)
        incarnation = namespace.incarnation
        await Client(namespace).put("o", content[: CHUNK_BYTES + 5])
        if copied:
            await store.copy_everything()
        await Client(namespace).put("o", content[CHUNK_BYTES + 5 :], CHUNK_BYTES + 5)
        await namespace.seal("o", size=len(content), claim=None)
        await namespace.fence(Claim(epoch=9, holder=TWO))
        before = namespace.list("", 10)
    async with running(tmp_path / "r") as store:
        namespace = await store.namespace("n", create=False)
        assert store.identity == identity
        assert namespace.incarnation == incarnation
        assert namespace.claim == Claim(epoch=9, holder=TWO)
        assert namespace.list("", 10) == before
        assert await read_all(namespace, "o") == content
        assert store.damage == []


async def test_reads_across_file_and_log(client: Client, store: ObjectStore, namespace: Namespace) -> None:
    content = os.urandom(2 * CHUNK_BYTES)
    await client.put("o", content[:70_000])
    await store.copy_everything()
    await client.put("o", content[70_000:], 70_000)
    for offset, length in [(0, 1 << 20), (69_990, 20), (69_999, 1), (70_000, 1), (65_530, 10), (131_000, 72)]:
        there = content[offset : offset + length]
        assert await namespace.read("o", offset, length) == (there, crc32c(there))


async def test_what_was_copied_is_read_into_the_memory_that_is_given(
    client: Client, store: ObjectStore, namespace: Namespace
) -> None:
    content = os.urandom(2 * CHUNK_BYTES + 7)
    await client.put("o", content)
    await store.copy_everything()
    given: list[memoryview] = []

    def memory(length: int) -> memoryview:
        given.append(memoryview(bytearray(length)))
        return given[-1]

    read, _ = await namespace.read("o", CHUNK_BYTES + 5, CHUNK_BYTES, memory)
    assert read == content[CHUNK_BYTES + 5 : 2 * CHUNK_BYTES + 5]
    assert given == [content[CHUNK_BYTES:]]
    assert isinstance(read, memoryview)
    assert read.obj is given[0].obj


async def test_reads_go_on_while_the_log_is_written_over(tmp_path: Path) -> None:
    async with running(tmp_path / "r", SMALL) as store:
        client = Client(await store.namespace("n", create=True))
        content = b""

        async def read_over_and_over() -> None:
            while len(content) < 20 << 20:
                with contextlib.suppress(RefusedError):
                    size = client.namespace.stat("o").size
                    start = max(0, size - 200_000)
                    there = await client.namespace.read("o", start, size - start)
                    assert there == (content[start:size], crc32c(content[start:size]))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_over_and_over)
            while len(content) < 20 << 20:
                piece = os.urandom(500_000)
                before, content = len(content), content + piece
                await client.put("o", piece, before)
        assert store.statistics.copied_bytes > 4 << 20
        assert store.statistics.damaged_reads == 0


async def test_log_files_are_used_again(tmp_path: Path) -> None:
    async with running(tmp_path / "r", SMALL) as store:
        client = Client(await store.namespace("n", create=True))
        for number in range(40):
            await client.put(f"o{number % 7}", bytes(300_000), 300_000 * (number // 7))
        assert sum(path.stat().st_size for path in (tmp_path / "r/log").iterdir()) <= SMALL.log_bytes_max


async def test_memory_for_waiting_bytes_is_bounded(client: Client) -> None:
    appender = await client.start("o")
    taken = 0
    while appender.has_room:
        appender.append(appender.written, crc32c(b"x" * 5000), memoryview(b"x" * 5000))
        taken += 5000
    assert taken <= SMALL.batch_bytes_max + 5000
    with trio.fail_after(300):
        await appender.wait_room()
    await appender.end()


async def test_a_seal_or_fence_that_nobody_waits_for_still_counts(client: Client, namespace: Namespace) -> None:
    """The connection that asked is gone, and its request is on its way to the disk: nothing may slip in after it."""
    await client.put("o", b"hello")
    with trio.move_on_after(0):
        await namespace.seal("o", size=5, claim=None)
    with refused(ErrorCode.SEALED):
        await client.start("o", 5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(namespace.fence, Claim(epoch=1, holder=ONE))
        while namespace._coming_claim is None:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    with refused(ErrorCode.FENCED):
        await client.start("other")


async def test_nobody_waits_for_a_store_that_stopped(tmp_path: Path) -> None:
    async with open_disk(tmp_path / "r", create=True) as disk:
        store = await ObjectStore.open(disk, settings=NO_IDLE_COPY, wall_clock=lambda: 0.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            client = Client(await store.namespace("n", create=True))
            appender = await client.start("o")
            nursery.cancel_scope.cancel()
        while appender.has_room:
            appender.append(appender.written, crc32c(b"late" * 1000), b"late" * 1000)
        with trio.fail_after(300):
            with refused(ErrorCode.SHUTTING_DOWN):
                await appender.wait_room()
            await store.copy_everything()
            with refused(ErrorCode.SHUTTING_DOWN):
                await appender.end()
            with refused(ErrorCode.SHUTTING_DOWN):
                await client.namespace.fence(Claim(epoch=1, holder=ONE))
        await store.close()


async def test_a_crowd_that_does_not_wait_for_room_is_served(store: ObjectStore, namespace: Namespace) -> None:
    clients = [Client(namespace) for _ in range(100)]
    appenders = [await client.start(f"o{number}") for number, client in enumerate(clients)]
    payload = os.urandom(80 << 10)
    for _ in range(2):
        for appender in appenders:
            appender.append(appender.written, crc32c(payload), payload)
    for appender in appenders:
        await appender.end()
    for number in range(100):
        assert await read_all(namespace, f"o{number}") == payload * 2
    await store.copy_everything()
    assert await read_all(namespace, "o99") == payload * 2


async def test_a_root_has_one_owner(store: ObjectStore, tmp_path: Path) -> None:
    assert store.identity
    async with open_disk(tmp_path / "root") as disk:
        with pytest.raises(DiskLockedError):
            await ObjectStore.open(disk, settings=NO_IDLE_COPY, wall_clock=lambda: 0.0)
