"""Requests, reads and the client itself when connections are lost, silent, or lead to another server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from sos_client.attempts import Deadlines
from sos_client.wire import messages as m
from sos_client.wire.errors import (
    ConnectionLostError,
    DeadlineError,
    HistoryError,
    MisuseError,
)
from sos_client.wire.limits import LIST_ENTRIES_MAX
from tests.fakes.memory_store import MemoryObject
from tests.sos_client.memory_server import MemoryServer, memory_server, started

if TYPE_CHECKING:
    from trio.testing import MockClock


CONTENT = bytes(range(256)) * 64


async def test_another_server_at_the_address_is_noticed(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await started(server, client)
        server.cut()
        server.store.identity = b"another identity"
        with pytest.raises(HistoryError, match="another server than before"):
            await client.stat("n", "o")


async def test_a_namespace_made_anew_is_noticed(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await started(server, client)
        server.cut()
        server.namespace("n").incarnation = b"another namespace"[:16]
        with pytest.raises(HistoryError, match="has been made again"):
            await client.stat("n", "o")


async def test_reads_and_follows_go_on_after_a_loss(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await client.use("n", create=True)
        async with client.append("n", "o", size=0) as stream:
            await stream.send(CONTENT)
        seen = b""
        async with client.read_stream("n", "o", 10, len(CONTENT) - 20) as pieces:
            async for piece in pieces:
                seen += bytes(piece)
                server.cut()
        assert seen == CONTENT[10:-10]
        followed = bytearray()

        async def follow() -> None:
            async with client.read_stream("n", "o", follow=True) as pieces:
                async for piece in pieces:
                    followed.extend(piece)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            async with client.append("n", "o", size=len(CONTENT)) as stream:
                for number in range(10):
                    await trio.sleep(1)
                    if number % 3 == 1:
                        server.cut()
                    if number % 3 == 2:
                        for half in server.streams:
                            half.half_open = True
                    await stream.send(b"more")
            await client.seal("n", "o", size=stream.size)
        assert followed == CONTENT + b"more" * 10


async def test_a_quiet_follow_asks_for_signs_of_life(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await started(server, client)
        async with client.read_stream("n", "o", 6, follow=True) as pieces:
            with trio.move_on_after(300):
                await pieces.__anext__()
            assert pieces.next_offset == 6
        assert len(server.streams) <= 2, "PONGs kept the connection; it was not made again"


async def test_an_answer_that_comes_slowly_is_not_silence(autojump_clock: MockClock) -> None:
    """A DATA frame, and a page of a listing, may take longer than anybody waits for a sign of life."""
    deadlines = Deadlines(connect_seconds=5, answer_seconds=10, retry_seconds=0)
    async with memory_server() as server, server.client(deadlines=deadlines) as client:
        await started(server, client)
        objects = server.namespace("n").objects
        for number in range(LIST_ENTRIES_MAX):
            objects[f"{'name' * 30}-{number}"] = objects["o"]
        content = bytes(range(256)) * 4096
        async with client.append("n", "large", size=0) as stream:
            await stream.send(content)
        for stream_of_client in server.streams:
            stream_of_client.bytes_a_second = 8 << 10
        before = trio.current_time()
        assert await client.get("n", "large") == content
        assert len((await client.list_page("n")).entries) == LIST_ENTRIES_MAX
        assert trio.current_time() - before > 10 * deadlines.answer_seconds
        for stream_of_client in server.streams:
            stream_of_client.bytes_a_second = 1000  # less than a sign of life in that time
        with pytest.raises(DeadlineError):
            await client.get("n", "large")


async def test_a_silent_server_costs_one_deadline(autojump_clock: MockClock) -> None:
    deadlines = Deadlines(connect_seconds=5, answer_seconds=10, retry_seconds=0)
    async with memory_server() as server, server.client(deadlines=deadlines) as client:
        await started(server, client)
        for stream in server.streams:
            stream.half_open = True
        before = trio.current_time()
        with pytest.raises(DeadlineError):
            await client.stat("n", "o")
        assert trio.current_time() - before < 11
        assert (await client.stat("n", "o")).size == 6


async def test_what_had_taken_effect_before_the_loss_is_a_success(autojump_clock: MockClock) -> None:
    """The answers of SEAL and DELETE are lost; asked again, the server refuses, which shows that it was done."""
    async with memory_server() as server, server.client() as client:
        await started(server, client)
        for expected, call in (
            (m.Sealed, lambda: client.seal("n", "o", size=6)),
            (type(None), lambda: client.delete("n", "o")),
        ):
            server.streams[-1].half_open = False
            lose_next_answer(server)
            assert isinstance(await call(), expected)


def lose_next_answer(server: MemoryServer) -> None:
    stream = server.streams[-1]
    receive = stream.receive_some

    async def lost(max_bytes: int | None = None) -> bytes | bytearray:
        await receive(max_bytes)
        stream.cut()
        raise trio.BrokenResourceError("the answer is lost")

    stream.receive_some = lost  # type: ignore[method-assign]


async def test_listings_go_on_page_by_page(autojump_clock: MockClock) -> None:
    names = [f"o{number:04}" for number in range(2500)]
    async with memory_server() as server, server.client() as client:
        await client.use("n", create=True)
        namespace = server.namespace("n")
        namespace.objects.update({name: MemoryObject(server.store, name) for name in names})
        seen = []
        async for info in client.list_all("n"):
            seen.append(info.name)
            if len(seen) % 700 == 0:
                server.cut()
        assert seen == names


async def test_many_requests_at_once_share_few_connections(autojump_clock: MockClock) -> None:
    async with memory_server() as server, server.client() as client:
        await started(server, client)
        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(client.stat, "n", "o")
        assert 1 < len(server.streams) <= 16


async def test_a_closed_client_says_so(autojump_clock: MockClock) -> None:
    async with memory_server() as server:
        async with server.client() as client:
            await started(server, client)
        with pytest.raises(MisuseError, match="has been closed"):
            await client.ping()


async def test_the_first_connection_is_not_retried(autojump_clock: MockClock) -> None:
    async with memory_server() as server:
        server.down = True
        before = trio.current_time()
        client = server.client()
        with pytest.raises(ConnectionLostError, match="memory: connection refused"):
            await client.__aenter__()
        assert trio.current_time() == before


async def test_cancelling_the_block_closes_everything(autojump_clock: MockClock) -> None:
    async with memory_server() as server:
        with trio.move_on_after(5):
            async with server.client() as client:
                await started(server, client)
                async with client.append("n", "o", size=6), client.append("n", "p", size=0):
                    await trio.sleep_forever()
        await trio.sleep(1)
        assert not server.service.sessions


async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    async with memory_server() as server:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with server.client() as client:
                await started(server, client)
                async with client.append("n", "o", size=6):
                    raise ZeroDivisionError
