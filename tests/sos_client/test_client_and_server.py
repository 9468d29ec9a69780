"""The client against a real server process that is killed, stopped and started again under it."""

from __future__ import annotations

import random
import ssl
from typing import TYPE_CHECKING

import pytest
import trio

from sos_client.attempts import Deadlines
from sos_client.client import open_client
from sos_client.net.addresses import split_address
from sos_client.wire.errors import ConnectionLostError, HistoryError, MisuseError
from tests.system.server_process import serving

if TYPE_CHECKING:
    from pathlib import Path

DEADLINES = Deadlines(connect_seconds=50, answer_seconds=100, retry_seconds=50)
TEST_SECONDS = 60
"""Less than one answer's deadline: a connection that hangs until then fails the test."""


@pytest.mark.parametrize("how", ["kill", "terminate"])
async def test_appends_survive_a_server_that_dies(how: str, tmp_path: Path) -> None:
    chance = random.Random(1)
    with serving(tmp_path) as server:
        async with open_client(server.address, deadlines=DEADLINES) as client:
            await client.use("n", create=True)
            contents = [bytearray() for _ in range(5)]

            async def write(number: int) -> None:
                async with client.append("n", f"o{number}", size=0) as stream:
                    for _ in range(400):
                        piece = chance.randbytes(chance.randrange(1, 20_000))
                        contents[number] += piece
                        await stream.send(piece)
                        await trio.sleep(0.002)

            with trio.fail_after(TEST_SECONDS):
                async with trio.open_nursery() as nursery:
                    for number in range(len(contents)):
                        nursery.start_soon(write, number)
                    for _ in range(2):
                        await trio.sleep(0.3)
                        await trio.to_thread.run_sync(getattr(server, how))
                        await trio.to_thread.run_sync(server.start)
            for number, content in enumerate(contents):
                assert await client.get("n", f"o{number}") == content


async def test_one_client_alone_never_waits_for_another_ones_commit(tmp_path: Path) -> None:
    """It fills its window on the server, and nobody else makes the server commit."""
    content = bytes(2_560_000)
    with serving(tmp_path) as server:
        async with open_client(server.address, deadlines=DEADLINES) as client:
            await client.use("n", create=True)
            with trio.fail_after(TEST_SECONDS):
                for number in range(30):
                    async with client.append("n", f"o{number}", size=0) as stream:
                        await stream.send(content)


async def test_an_empty_server_at_the_same_address_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with serving(tmp_path / "first") as first:
        async with open_client(first.address, deadlines=DEADLINES) as client:
            await client.use("n", create=True)
            first.terminate()
            other = serving(tmp_path / "second", port=first.port)
            with other, pytest.raises(HistoryError, match="another server than before"):
                await client.use("n", create=True)


async def test_sends_cancelled_in_the_middle_of_a_frame_are_made_good(tmp_path: Path) -> None:
    content = random.Random(2).randbytes(1 << 20)
    with serving(tmp_path) as server:
        async with open_client(server.address, deadlines=DEADLINES) as client:
            await client.use("n", create=True)
            async with client.append("n", "o", size=0, window_bytes=1 << 30) as stream:
                cancelled = 0
                for _ in range(40):
                    with trio.move_on_after(0.0005) as scope:
                        await stream.send(content)
                    cancelled += scope.cancelled_caught
            data = await client.get("n", "o")
            assert len(data) == stream.size
            assert cancelled, "some sends were cut short"


async def test_nobody_there() -> None:
    with pytest.raises(ConnectionLostError, match=r"127\.0\.0\.1:9: connection refused"):
        await open_client("127.0.0.1:9").__aenter__()
    with pytest.raises(ConnectionLostError, match=r"no-such-host\.invalid: "):
        await open_client("no-such-host.invalid").__aenter__()


async def test_plain_and_tls_do_not_mix(tmp_path: Path) -> None:
    with serving(tmp_path) as server, pytest.raises(ConnectionLostError, match="does not speak TLS"):
        await open_client(server.address, tls=ssl.create_default_context()).__aenter__()


def test_addresses() -> None:
    assert split_address("host") == ("host", 7400)
    assert split_address("host:1") == ("host", 1)
    assert split_address("[::1]:7") == ("::1", 7)
    assert split_address("[::1]") == ("::1", 7400)
    for wrong in ("", ":1", "host:", "host:0", "host:65536", "::1", "::1:7400", "[host", "a:b", "host:٣"):
        with pytest.raises(MisuseError):
            split_address(wrong)
