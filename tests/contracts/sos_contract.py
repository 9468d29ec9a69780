"""What a client of any SOS server may rely on: the same tests for the server in memory, over TCP, and over TLS.

Each is given `open`, which opens a client of one running server; each uses a namespace of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trio

from sos_client.client import SosClient
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, MisuseError, RefusedError

Open = Callable[[], AbstractAsyncContextManager[SosClient]]
Check = Callable[[Open], Awaitable[None]]
HOLDER = bytes(range(16))
OTHER = bytes(16)


async def refused(code: ErrorCode, call: Awaitable[object]) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        await call
    assert caught.value.code is code, caught.value
    return caught.value


async def put(client: SosClient, namespace: str, object: str, content: bytes) -> None:
    await client.use(namespace, create=True)
    async with client.append(namespace, object, size=0) as stream:
        await stream.send(content)


async def put_more(client: SosClient, namespace: str, object: str, size: int) -> None:
    async with client.append(namespace, object, size=size) as stream:
        await stream.send(b"more")


async def check_greeting(open: Open) -> None:
    async with open() as one, open() as two:
        assert one.server_identity == two.server_identity
        assert len(one.server_identity) == 16
        assert one.server_time > 1_000_000_000
        assert await one.ping() < 10


async def check_namespaces(open: Open) -> None:
    async with open() as client:
        refusal = await refused(ErrorCode.NOT_FOUND, client.use("namespaces"))
        assert refusal.fields["name"] == "namespaces"
        made = await client.use("namespaces", create=True)
        assert (made.epoch, made.holder) == (0, b"")
        assert await client.use("namespaces") == made
        assert (await client.use("other", create=True)).incarnation != made.incarnation
        for name in ("../up", "a/b", ".", "", "x" * 129):
            await refused(ErrorCode.BAD_NAME, client.use(name, create=True))


async def check_append_and_read(open: Open) -> None:
    content = bytes(range(256)) * 5000
    async with open() as client:
        await client.use("append", create=True)
        async with client.append("append", "log", size=0) as stream:
            for start in range(0, len(content), 7777):
                await stream.send(content[start : start + 7777])
            await stream.wait_synced(7777)
            assert stream.synced >= 7777
            assert stream.size == len(content)
        assert stream.synced == stream.written == len(content)
        info = await client.stat("append", "log")
        assert (info.name, info.size, info.sealed, info.epoch) == ("log", len(content), False, 0)
        assert info.crc == crc32c(content)
        assert await client.get("append", "log") == content
        assert await client.get("append", "log", 1000, 300_000) == content[1000:301_000]
        assert await client.get("append", "log", len(content)) == b""
        async with client.append("append", "log", size=len(content), prefix_crc=info.crc) as stream:
            await stream.send(b"more")
        assert await client.get("append", "log", len(content) - 1) == content[-1:] + b"more"
        await refused(ErrorCode.RANGE, client.get("append", "log", len(content) + 5))
        await refused(ErrorCode.NOT_FOUND, client.get("append", "nothing"))


async def check_refused_appends(open: Open) -> None:
    async def append(size: int, **rest: object) -> None:
        async with client.append("refused", "o", size=size, resume=False, **rest):  # type: ignore[arg-type]
            pass

    async with open() as client, open() as other:
        await put(client, "refused", "o", b"12345")
        expected = {"size": 5, "crc": crc32c(b"12345"), "epoch": 0}
        for size in (0, 4, 6):
            refusal = await refused(ErrorCode.WRONG_SIZE, append(size))
            assert refusal.fields == expected
        refusal = await refused(ErrorCode.WRONG_PREFIX, append(5, prefix_crc=1))
        assert refusal.fields == expected
        await refused(ErrorCode.FENCED, append(5, epoch=1, holder=HOLDER))
        async with other.append("refused", "o", size=5) as stream:
            await stream.send(b"6")
            await refused(ErrorCode.BUSY, append(5))
        await append(6)
        assert await client.get("refused", "o") == b"123456"


async def check_same_instance_takes_over(open: Open) -> None:
    async def take_over() -> None:
        async with client.append("instance", "o", size=0, resume=False) as first:
            await first.send(b"one")
            await first.wait_synced()
            async with client.append("instance", "o", size=3, resume=False) as second:
                await second.send(b"two")
            with pytest.raises(RefusedError):
                await first.end()

    async with open() as client:
        await client.use("instance", create=True)
        with pytest.raises(RefusedError):
            await take_over()
        assert await client.get("instance", "o") == b"onetwo"


async def check_fencing(open: Open) -> None:
    async with open() as client, open() as other:
        await put(client, "fencing", "o", b"old")
        await client.fence("fencing", 3, HOLDER)
        await client.fence("fencing", 3, HOLDER)
        using = await client.use("fencing")
        assert (using.epoch, using.holder) == (3, HOLDER)
        for epoch, holder in ((2, HOLDER), (3, OTHER)):
            refusal = await refused(ErrorCode.STALE_EPOCH, other.fence("fencing", epoch, holder))
            assert refusal.fields == {"epoch": 3, "holder": HOLDER}
        async with client.append("fencing", "o", size=3, epoch=3, holder=HOLDER) as stream:
            await stream.send(b"!")
        assert (await client.stat("fencing", "o")).epoch == 3
        refusal = await refused(ErrorCode.FENCED, write_until_fenced(client, other))
        assert refusal.fields == {"epoch": 4, "holder": OTHER}
        assert await client.get("fencing", "o") == b"old!?"
        await refused(ErrorCode.FENCED, client.seal("fencing", "o", size=5, epoch=3, holder=HOLDER))


async def write_until_fenced(client: SosClient, other: SosClient) -> None:
    async with client.append("fencing", "o", size=4, epoch=3, holder=HOLDER) as stream:
        await stream.send(b"?")
        await stream.wait_synced()
        await other.fence("fencing", 4, OTHER)
        await stream.send(b"zombie")
        await stream.wait_synced()


async def check_sealing_and_deleting(open: Open) -> None:
    async with open() as client:
        await put(client, "sealing", "o", b"sealed")
        await refused(ErrorCode.WRONG_SIZE, client.seal("sealing", "o", size=5))
        await refused(ErrorCode.NOT_SEALED, client.delete("sealing", "o"))
        sealed = await client.seal("sealing", "o", size=6)
        assert (sealed.size, sealed.crc) == (6, crc32c(b"sealed"))
        assert await client.seal("sealing", "o", size=6) == sealed, "again is fine"
        await refused(ErrorCode.WRONG_SIZE, client.seal("sealing", "o", size=7))
        assert (await client.stat("sealing", "o")).sealed
        await refused(ErrorCode.SEALED, put_more(client, "sealing", "o", size=6))
        assert await client.get("sealing", "o") == b"sealed"
        await client.delete("sealing", "o")
        await refused(ErrorCode.NOT_FOUND, client.stat("sealing", "o"))
        await refused(ErrorCode.NOT_FOUND, client.delete("sealing", "o"))


async def check_listing_of_namespaces(open: Open) -> None:
    async with open() as client:
        await put(client, "spaces-1", "o", b"eight by")
        await client.use("spaces-2", create=True)
        await client.fence("spaces-2", 3, HOLDER)
        await client.stat("spaces-1", "o")  # a connection that is in a namespace is not the one that is asked
        found = {one.name: (one.used_bytes, one.epoch) async for one in client.list_namespaces()}
        assert list(found) == sorted(found)
        assert (found["spaces-1"], found["spaces-2"]) == ((8, 0), (0, 3))


async def check_listing(open: Open) -> None:
    names = [f"o{number:03}" for number in range(25)]
    async with open() as client:
        await client.use("listing", create=True)
        assert [info async for info in client.list_all("listing")] == []
        for name in reversed(names):
            await put(client, "listing", name, name.encode())
        page = await client.list_page("listing", limit=10)
        assert ([info.name for info in page.entries], page.more) == (names[:10], True)
        page = await client.list_page("listing", after="o019", limit=10)
        assert ([info.name for info in page.entries], page.more) == (names[20:], False)
        assert [(info.name, info.size) async for info in client.list_all("listing")] == [(name, 4) for name in names]


async def check_following(open: Open) -> None:
    async with open() as client:
        await put(client, "following", "o", b"before ")
        seen = bytearray()

        async def follow() -> None:
            async with client.read_stream("following", "o", follow=True) as pieces:
                async for piece in pieces:
                    seen.extend(piece)

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow)
                async with client.append("following", "o", size=7) as stream:
                    for word in (b"one ", b"two ", b"three"):
                        await stream.send(word)
                        await stream.wait_synced()
                        await trio.sleep(0.02)
                await client.seal("following", "o", size=stream.size)
        assert seen == b"before one two three"


async def check_leaving_a_follow(open: Open) -> None:
    async with open() as client:
        await put(client, "leaving", "o", b"something")
        with trio.fail_after(120):
            async with client.read_stream("leaving", "o", 4, follow=True) as pieces:
                async for piece in pieces:
                    assert bytes(piece) == b"thing"
                    break
        assert await client.ping() < 10


async def check_many_tasks(open: Open) -> None:
    async def write(number: int) -> None:
        await put(client, "many", f"o{number}", str(number).encode() * 1000)

    async with open() as client:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(write, number)
        for number in range(20):
            assert await client.get("many", f"o{number}") == str(number).encode() * 1000


async def write_and_fail(client: SosClient) -> None:
    async with client.append("abandoned", "o", size=0) as stream:
        await stream.send(b"kept")
        await stream.wait_synced()
        raise ZeroDivisionError


async def check_abandoned_appends(open: Open) -> None:
    async with open() as client:
        await client.use("abandoned", create=True)
        with pytest.raises(ZeroDivisionError):
            await write_and_fail(client)
        async with client.append("abandoned", "o", size=4) as stream:
            await stream.send(b" and more")
        with pytest.raises(MisuseError):
            await stream.send(b"too late")
        assert await client.get("abandoned", "o") == b"kept and more"


CHECKS: list[Check] = [check for name, check in sorted(globals().items()) if name.startswith("check_")]
