"""All members of a volume are full: it can be read, and cleared as docs/journal-service.md says, with real disks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest
import trio

from journal.errors import UnavailableError
from journal.gateway.client.client import ClientSettings, open_volume
from journal.takeover.volume_creation import create_volume
from tests.system.server_process import ServerProcess
from tests.system.service_process import VOLUME, ServiceProcess
from tests.system.test_server_disk_full import small_disk

if TYPE_CHECKING:
    from pathlib import Path

    from journal.gateway.client.client import RemoteVolume

CONTENT: Final = bytes(range(256)) * 1024
IMPATIENT: Final = ClientSettings(seconds=6)


def settle(config: Path, *, reserve_bytes: int) -> None:
    config.write_text(f"[storage]\nreserve_bytes = {reserve_bytes}\n")


async def fill(volume: RemoteVolume) -> int:
    """Put files until no more are taken; how many were acknowledged."""
    for number in range(1000):
        try:
            await volume.put(f"big/{number}", CONTENT, overwrite=False, operation=volume.new_operation())
        except UnavailableError:
            return number
    raise AssertionError("the disks are never full")


def command(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "journal", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
async def test_a_volume_on_full_disks_is_read_and_cleared(tmp_path: Path) -> None:
    config = tmp_path / "server.toml"
    settle(config, reserve_bytes=16 << 20)
    with ExitStack() as stack:
        disks = [stack.enter_context(small_disk(tmp_path / name)) for name in "abc"]
        servers = [ServerProcess(disk, "--config", str(config)) for disk in disks]
        for server in servers:
            server.start()
            stack.callback(server.kill)
        addresses = [server.address for server in servers]
        await create_volume(VOLUME, addresses)
        service = ServiceProcess(tmp_path / "service", addresses)
        await trio.to_thread.run_sync(service.start)
        stack.callback(service.kill)

        async with open_volume([service.address], VOLUME, settings=IMPATIENT) as volume:
            count = await fill(volume)
            assert count > 20
            service.forget_directory()
            for number in range(0, count, 5):
                with trio.fail_after(300):
                    assert b"".join([bytes(piece) async for piece in volume.read(f"big/{number}")]) == CONTENT

        service.kill()
        service.begin()
        with trio.fail_after(300):
            while "storage.reserve_bytes" not in service.log_path.read_text():  # noqa: ASYNC110 - another process
                await trio.sleep(0.1)
        assert len(command("ls", f"sos://{VOLUME}/big", "--servers", ",".join(addresses)).split()) >= count
        service.kill()

        settle(config, reserve_bytes=0)
        for server in servers:
            server.signal(signal.SIGHUP)
        service.flags += ["--keep-for", "20s"]
        await trio.to_thread.run_sync(service.start)
        command("rm", "-r", "--yes", f"sos://{VOLUME}/big", "--service", service.address)
        with trio.fail_after(600):
            while any(free_bytes(server) < 40 << 20 for server in servers):  # noqa: ASYNC110 - other processes
                await trio.sleep(1)
        settle(config, reserve_bytes=16 << 20)
        for server in servers:
            server.signal(signal.SIGHUP)
        async with open_volume([service.address], VOLUME, settings=IMPATIENT) as volume:
            await volume.put("after", CONTENT, overwrite=False, operation=volume.new_operation())
        command("verify", VOLUME, "--servers", ",".join(addresses))
        assert json.loads(command("status", VOLUME, "--servers", ",".join(addresses), "--json").splitlines()[-1])


def free_bytes(server: ServerProcess) -> int:
    done = subprocess.run(["df", "-B1", "--output=avail", str(server.root)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])
