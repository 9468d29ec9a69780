"""The service as a process (its volumes in memory): the ready line, signals, the pipe of its parent, supervision."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from journal.gateway.client.client import ClientSettings, RemoteVolume, open_volume
from sos_client.net.addresses import parse_address
from sos_client.retry import RetryPolicy
from tests.system.service_process import children_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

SECONDS_MAX = 600
IMPATIENT = ClientSettings(seconds=15.0, retry=RetryPolicy(pause_seconds_max=0.2))


@dataclass
class Running:
    process: trio.Process
    address: str

    async def line(self) -> str:
        assert self.process.stdout is not None
        with trio.fail_after(SECONDS_MAX):
            data = b""
            while not data.endswith(b"\n"):
                more = await self.process.stdout.receive_some()
                if not more:
                    break
                data += more
        return data.decode()

    async def ended(self) -> int:
        with trio.fail_after(SECONDS_MAX):
            return await self.process.wait()

    async def child(self) -> int:
        """The process that the supervisor started."""
        with trio.fail_after(SECONDS_MAX):
            while not (pids := children_of(self.process.pid)):  # noqa: ASYNC110 - nobody tells us
                await trio.sleep(0.05)
        return pids[0]


@asynccontextmanager
async def service(*options: str, pass_fds: Sequence[int] = ()) -> AsyncIterator[Running]:
    command = [sys.executable, "-m", "tests.fakes.serve_memory_volume", *options]
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=pass_fds
    )
    running = Running(process, "")
    try:
        running.address = (await running.line()).removeprefix("ready ").strip()
        yield running
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def _put(volume: RemoteVolume, path: str) -> int:
    return (await volume.put(path, b"x", overwrite=False, operation=volume.new_operation())).size


async def test_it_says_where_it_serves_and_serves_there() -> None:
    async with service("--volume", "a", "--volume", "b") as running:
        for name in ("a", "b"):
            async with open_volume([running.address], name, settings=IMPATIENT) as volume:
                assert await _put(volume, "f") == 1
        async with open_volume([running.address], "c", settings=IMPATIENT) as volume:
            with pytest.raises(JournalError) as caught:
                await volume.stat("")
        assert caught.value.code is JournalCode.VOLUME_NOT_FOUND


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_in_order_when_told(number: signal.Signals) -> None:
    async with service() as running, open_volume([running.address], "payments", settings=IMPATIENT) as volume:
        await _put(volume, "f")
        running.process.send_signal(number)
        assert await running.ended() == 0


async def test_it_ends_with_the_pipe_of_its_parent() -> None:
    reading, writing = os.pipe()
    async with service("--exit-with-fd", str(reading), pass_fds=[reading]) as running:
        os.close(reading)
        assert running.address
        os.close(writing)
        assert await running.ended() == 0


async def test_a_handle_that_is_no_pipe_is_refused() -> None:
    async with service("--exit-with-fd", "97") as running:
        assert running.address == ""
        assert await running.ended() != 0


async def test_a_volume_that_does_not_exist_ends_it_before_it_is_ready() -> None:
    for options in ((), ("--supervise",)):
        async with service("--volume", "payments", "--volume", "missing", *options) as running:
            assert running.address == ""
            assert await running.ended() == 3


async def test_a_supervised_service_comes_back_at_its_address() -> None:
    async with service("--supervise") as running:
        async with open_volume([running.address], "payments", settings=IMPATIENT) as volume:
            for round_number in range(2):
                await _put(volume, f"f{round_number}")
                os.kill(await running.child(), signal.SIGKILL)
                await trio.sleep(0.02)
            assert await _put(volume, "after") == 1
        child = await running.child()
        running.process.send_signal(signal.SIGTERM)
        assert await running.ended() == 0
        assert not _alive(child)


async def test_nobody_else_gets_the_port_of_a_supervised_service_while_it_is_started_again() -> None:
    async with service("--supervise") as running:
        where = parse_address(running.address, what="served")
        child = await running.child()
        os.kill(child, signal.SIGKILL)
        while _alive(child):
            await trio.lowlevel.checkpoint()
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                stranger.bind((where.host, where.port))


async def test_a_supervised_service_whose_port_somebody_has_complains_as_without_supervision() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        async with service("--supervise", "--listen", f"127.0.0.1:{stranger.getsockname()[1]}") as running:
            assert running.address == ""
            assert await running.ended() != 0


async def test_a_supervised_service_ends_with_its_supervisor_and_with_the_pipe() -> None:
    for how in ("kill", "pipe"):
        async with service("--supervise", "--until-stdin-ends") as running:
            child = await running.child()
            if how == "kill":
                running.process.kill()
            else:
                assert running.process.stdin is not None
                await running.process.stdin.aclose()
                assert await running.ended() == 0
            with trio.fail_after(SECONDS_MAX):
                while _alive(child):  # noqa: ASYNC110 - of another process nobody tells us
                    await trio.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go between opening and reading
        return False
