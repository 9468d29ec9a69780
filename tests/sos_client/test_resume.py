"""Lost connections: nothing acknowledged is lost, nothing is doubled, another past is an error, every wait ends."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import trio

from sos_client.wire.errors import (
    ConnectionLostError,
    ErrorCode,
    HistoryError,
    MisuseError,
    RefusedError,
    SosError,
)
from sos_server.storage.contents import Claim
from tests.sos_client.memory_server import MemoryServer, memory_server, started

if TYPE_CHECKING:
    from trio.testing import MockClock

    from sos_client.append_stream import AppendStream

CONTENT = bytes(range(256)) * 64


@pytest.mark.parametrize("seed", range(25))
async def test_random_cuts_lose_and_double_nothing(seed: int, autojump_clock: MockClock) -> None:
    chance = random.Random(seed)
    expected = bytearray()
    async with memory_server(commits_at_once=False) as server, server.client() as client:
        await client.use("n", create=True)

        async def disturb() -> None:
            while True:
                await trio.sleep(chance.uniform(0, 0.3))
                server.store.commit()
                await trio.sleep(chance.uniform(0, 0.3))
                if chance.random() < 0.5:
                    server.cut(commit=chance.random() < 0.5)
                if server.streams and chance.random() < 0.3:
                    server.streams[-1].cut_after_bytes = chance.randrange(1, 5000)
                if server.streams and chance.random() < 0.1:
                    server.streams[-1].half_open = True
                server.down = chance.random() < 0.2

        async with trio.open_nursery() as nursery:
            nursery.start_soon(disturb)
            async with client.append("n", "o", size=0) as stream:
                for _ in range(60):
                    piece = chance.randbytes(chance.randrange(1, 3000))
                    expected += piece
                    await stream.send(piece)
                    if chance.random() < 0.2:
                        await stream.wait_synced()
                        assert server.content("n", "o") == expected
                    await trio.sleep(chance.uniform(0, 0.1))
            nursery.cancel_scope.cancel()
        assert stream.synced == len(expected)
        assert server.content("n", "o") == expected


async def broken_append(server: MemoryServer, *, change: bytes | None, resume: bool = True) -> AppendStream:
    """Append, lose the connection with unsynced bytes under way, find the object changed, go on."""
    async with server.client() as client, client.append("n", "o", size=6, resume=resume) as stream:
        await stream.send(b"unsynced")
        await trio.sleep(0.1)
        server.cut()
        if change is not None:
            server.namespace("n").objects["o"].content[:] = change
        await stream.send(b"more")
        await stream.wait_synced()
        return stream


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (b"", "bytes are lost"),
        (b"synce", "bytes are lost"),
        (b"sYnced", "another past"),
        (b"syncedunsYnced", "another past"),
        (b"syncedunsyncedmore and more", "somebody else has appended"),
    ],
)
async def test_another_past_is_never_spliced(change: bytes, sentence: str, autojump_clock: MockClock) -> None:
    async with memory_server(commits_at_once=False) as server:
        server.store.commits_at_once = True
        async with server.client() as client:
            await started(server, client)
        server.store.commits_at_once = False
        with pytest.raises(HistoryError, match=sentence):
            await broken_append(server, change=change)
        assert server.content("n", "o") == change, "nothing was appended to it"


@pytest.mark.parametrize("kept", [b"synced", b"syncedun", b"syncedunsynced"])
async def test_a_resume_goes_on_from_what_the_server_has(kept: bytes, autojump_clock: MockClock) -> None:
    async with memory_server() as server:
        async with server.client() as client:
            await started(server, client)
        server.store.commits_at_once = False

        async def commit_later() -> None:
            while True:
                await trio.sleep(1)
                server.store.commit()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit_later)
            stream = await broken_append(server, change=kept)
            nursery.cancel_scope.cancel()
        assert server.content("n", "o") == b"syncedunsyncedmore"
        assert stream.synced == stream.size == 18


async def test_without_resume_the_loss_is_the_callers(autojump_clock: MockClock) -> None:
    async with memory_server() as server:
        async with server.client() as client:
            await started(server, client)
        server.store.commits_at_once = False
        with pytest.raises(ConnectionLostError):
            await broken_append(server, change=None, resume=False)
        assert server.content("n", "o") == b"synced"


async def test_the_append_of_a_half_open_connection_is_taken_over(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await started(server, client)
        async with client.append("n", "o", size=6) as stream:
            await trio.sleep(0.1)
            server.streams[-1].half_open = True
            await stream.send(b" and more")
            before = trio.current_time()
            await stream.wait_synced()
            assert trio.current_time() - before < 15, "one answer's deadline, and no wait for the server's"
        assert server.content("n", "o") == b"synced and more"


async def test_a_resend_into_a_connection_that_takes_nothing_is_given_up_in_time(autojump_clock: MockClock) -> None:
    async with memory_server(commits_at_once=False) as server, server.client() as client:
        await client.use("n", create=True)
        async with client.append("n", "o", size=0) as stream:
            await stream.send(CONTENT)
            await trio.sleep(0.1)
            server.stuck_after_bytes = 1000  # enough for HELLO, USE and APPEND
            server.cut()
            server.store.commits_at_once = True
            before = trio.current_time()
            await stream.wait_synced()
            assert trio.current_time() - before < 15
        assert len(server.streams) == 3
        assert server.content("n", "o") == CONTENT


async def test_stale_connections_cost_one_attempt_altogether(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await started(server, client)
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(client.stat, "n", "o")
        assert len(server.streams) > 3
        server.cut()
        before = trio.current_time()
        async with client.append("n", "o", size=6) as stream:
            await stream.send(b"!")
        assert trio.current_time() - before < 0.2


async def test_a_buffer_that_changes_after_send_changes_nothing(autojump_clock: MockClock) -> None:
    async with memory_server(commits_at_once=False) as server, server.client() as client:
        await client.use("n", create=True)
        async with client.append("n", "o", size=0) as stream:
            buffer = bytearray(b"before")
            await stream.send(buffer)
            buffer[:] = b"behind"
            server.cut()
            server.store.commits_at_once = True
        assert server.content("n", "o") == b"before"


async def test_another_claim_ends_a_resume(autojump_clock: MockClock) -> None:
    async with memory_server() as server:
        async with server.client() as client:
            await started(server, client)

            async def lose_and_write() -> None:
                async with client.append("n", "o", size=6) as stream:
                    server.cut()
                    await server.namespace("n").fence(Claim(epoch=5, holder=bytes(16)))
                    await stream.send(b"zombie")

            with pytest.raises(RefusedError) as caught:
                await lose_and_write()
            assert caught.value.code is ErrorCode.FENCED
        assert server.content("n", "o") == b"synced"


async def test_a_server_that_stays_away_is_given_up_in_time(autojump_clock: MockClock) -> None:
    async def append() -> None:
        async with client.append("n", "o", size=6) as stream:
            server.down = True
            server.cut()
            await stream.send(b"never")
            await stream.wait_synced()

    async with memory_server() as server, server.client() as client:
        await started(server, client)
        before = trio.current_time()
        with pytest.raises(ConnectionLostError, match="connection refused"):
            await append()
        assert 25 < trio.current_time() - before < 45
        before = trio.current_time()
        with pytest.raises(ConnectionLostError):
            await client.stat("n", "o")
        assert 25 < trio.current_time() - before < 45
        server.down = False
        assert (await client.stat("n", "o")).size == 6, "the client is as good as before"


async def test_an_append_with_nothing_to_do_waits_for_its_server_as_long_as_it_takes(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await started(server, client)
        async with client.append("n", "o", size=6) as stream:
            server.down = True
            server.cut()
            await trio.sleep(3600)
            server.down = False
            await stream.send(b" much later")
        assert server.content("n", "o") == b"synced much later"


async def test_a_cancelled_send_leaves_the_append_usable(autojump_clock: MockClock) -> None:
    async with memory_server(commits_at_once=False) as server, server.client() as client:
        await client.use("n", create=True)
        async with client.append("n", "o", size=0, window_bytes=1000) as stream:
            with trio.move_on_after(1) as scope:
                await stream.send(bytes(900))
                await stream.send(bytes(900))
            assert scope.cancelled_caught, "the window is full, and nothing is synced"
            server.store.commits_at_once = True
            server.store.commit()
            await stream.send(b"end")
        assert server.content("n", "o") == bytes(900) + b"end"


async def test_nothing_follows_half_a_frame_on_its_connection(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await client.use("n", create=True)
        async with client.append("n", "o", size=0) as stream:
            first = server.streams[-1]
            first.stuck_after_bytes = 100
            with trio.move_on_after(0.1) as scope:
                await stream.send(CONTENT)
            assert scope.cancelled_caught
            await stream.send(b"more")
            await stream.wait_synced()
            assert first.sends_stuck == 1
        assert server.content("n", "o") == CONTENT + b"more"


async def test_an_abandoned_append_says_so(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await started(server, client)
        with pytest.raises(ZeroDivisionError):
            async with client.append("n", "o", size=6) as stream:
                raise ZeroDivisionError
        await trio.sleep(0.1)
        with pytest.raises(MisuseError, match="abandoned"):
            await stream.send(b"x")
        with pytest.raises(MisuseError, match="abandoned"):
            await stream.end()


async def test_the_window_bounds_what_is_kept(autojump_clock: MockClock) -> None:
    async with memory_server(commits_at_once=False) as server, server.client() as client:
        await client.use("n", create=True)
        async with client.append("n", "o", size=0, window_bytes=10_000) as stream:
            with trio.move_on_after(5):
                while True:
                    await stream.send(bytes(900))
            assert stream.size == 9900
            server.store.commits_at_once = True
            server.store.commit()


async def test_an_object_that_keeps_changing_is_given_up(autojump_clock: MockClock) -> None:
    """Each time the append wants to go on, the server has other bytes of it: it never settles, so this ends."""

    def change(*_: object, **__: object) -> None:
        content = server.namespace("n").objects["o"].content
        content[:] = CONTENT[: len(content) + 1]

    async with memory_server(commits_at_once=False) as server, server.client() as client:
        await client.use("n", create=True)
        async with client.append("n", "other", size=0):
            pass

        async def lose() -> None:
            async with client.append("n", "o", size=0) as stream:
                await stream.send(CONTENT)
                await trio.sleep(0.1)
                start_append = server.namespace("n").start_append

                async def changing(*arguments: object, **options: object) -> object:
                    change()
                    return await start_append(*arguments, **options)  # type: ignore[arg-type]

                server.namespace("n").start_append = changing  # type: ignore[assignment, method-assign]
                server.cut()
                await stream.wait_synced()

        with pytest.raises(HistoryError, match="changes its size each time"):
            await lose()


async def test_a_refusal_in_the_middle_ends_the_append(autojump_clock: MockClock) -> None:
    async with memory_server(commits_at_once=False) as server, server.client() as client:
        await client.use("n", create=True)

        async def append() -> None:
            async with client.append("n", "o", size=0) as stream:
                await stream.send(b"x")
                await trio.sleep(1)
                appender = server.namespace("n").objects["o"].appender
                assert appender is not None
                appender.close(RefusedError(ErrorCode.NO_SPACE, free=0))
                await stream.wait_synced()

        with pytest.raises(SosError, match="the server's disk is full"):
            await append()
