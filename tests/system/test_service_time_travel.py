"""Going back on real processes: every batch of a recorded history, byte for byte; forks under load."""

from __future__ import annotations

import os
import random
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from click.testing import CliRunner

from journal.cli import command
from journal.gateway.client.client import RemoteVolume, open_volume
from tests.system.file_load import tree_of
from tests.system.service_process import VOLUME, Cluster, running_cluster

if TYPE_CHECKING:
    from click.testing import Result

BATCHES = 500
MEMORY = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None  # each restore syncs its file system
KEPT = 12  # batches that the query keeps, as Spark does 100


async def sos_journal(*arguments: str) -> Result:
    """The command in this process: 500 interpreters would take minutes."""
    result = await trio.to_thread.run_sync(partial(CliRunner().invoke, command, arguments))
    assert result.exit_code == 0, f"{arguments}: {result.output} {result.exception!r}"
    return result


class Query:
    """Writes batches as Spark does, and remembers what its directory had in it after each."""

    def __init__(self, volume: RemoteVolume, root: str) -> None:
        self.files: dict[str, bytes] = {}
        self.copies: list[dict[str, bytes]] = []
        self._volume = volume
        self._root = root
        self._chance = random.Random(root)

    async def put(self, path: str, data: bytes) -> None:
        operation = self._volume.new_operation()
        await self._volume.put(f"{self._root}/{path}", data, overwrite=True, operation=operation)
        self.files[path] = data

    async def delete(self, path: str) -> None:
        operation = self._volume.new_operation()
        assert await self._volume.delete(f"{self._root}/{path}", recursive=False, operation=operation)
        del self.files[path]

    async def run_batch(self) -> None:
        batch = len(self.copies)
        await self.put(f"offsets/{batch}", b"v1\n{}\n%d" % batch)
        for partition in range(2):
            await self.put(f"state/0/{partition}/{batch + 1}.delta", self._chance.randbytes(3000))
        await self.put("sources/0/latest", b"%d" % batch)
        await self.put(f"commits/{batch}", b"v1\n{}")
        self.copies.append(dict(self.files))
        if batch >= KEPT:
            old = batch - KEPT
            for path in (f"offsets/{old}", f"commits/{old}", *(f"state/0/{p}/{old + 1}.delta" for p in range(2))):
                await self.delete(path)


def tree(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


async def wait_readable(cluster: Cluster, path: str) -> None:
    """Until what was acknowledged last is known to readers of the log, which take a mark for it."""
    servers = ",".join(server.address for server in cluster.servers)
    with trio.fail_after(600):
        while not await trio.to_thread.run_sync(_has, path, servers):  # noqa: ASYNC110
            await trio.sleep(0.2)


def _has(path: str, servers: str) -> bool:
    return CliRunner().invoke(command, ["stat", path, "--servers", servers]).exit_code == 0


@pytest.mark.slow
async def test_every_batch_can_be_restored_as_it_was(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        async with open_volume(cluster.service_addresses, VOLUME) as volume:
            query = Query(volume, "q")
            for batch in range(BATCHES):
                if batch in (150, 350):  # the past outlives its owners
                    cluster.service.kill()
                    await trio.to_thread.run_sync(cluster.service.start)
                await query.run_batch()
        servers = ",".join(server.address for server in cluster.servers)
        await wait_readable(cluster, f"sos://{VOLUME}/q/commits/{BATCHES - 1}")
        await sos_journal("backup", VOLUME, str(tmp_path / "backup"), "--servers", servers)
        for batch, copy in enumerate(query.copies):
            # From the servers themselves now and then; all others from a copy of the log, for the sake of time.
            where = ("--servers", servers) if batch % 50 == 0 else ("--dir", str(tmp_path / "backup"))
            with tempfile.TemporaryDirectory(dir=MEMORY) as target:
                restored = Path(target) / "restored"
                await sos_journal("restore", f"sos://{VOLUME}/q", str(restored), "--at", f"batch:{batch}", *where)
                assert tree(restored) == copy, f"batch {batch}"


async def test_a_fork_of_a_volume_that_is_written_to_is_one_moment_of_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        servers = ",".join(server.address for server in cluster.servers)
        where = ("--service", cluster.service.address, "--servers", servers)
        async with open_volume(cluster.service_addresses, VOLUME) as volume:
            query = Query(volume, "q")
            stop = trio.Event()

            async def write() -> None:
                while not stop.is_set():
                    await query.run_batch()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                for number in range(4):
                    goal = len(query.copies) + 15
                    with trio.fail_after(600):
                        while len(query.copies) < goal:  # noqa: ASYNC110
                            await trio.sleep(0.02)
                    await sos_journal("fork", f"sos://{VOLUME}/q", f"sos://{VOLUME}/fork{number}", *where)
                    at = goal - 5
                    forked = (f"sos://{VOLUME}/q", f"sos://{VOLUME}/at{number}", "--at", f"batch:{at}")
                    await sos_journal("fork", *forked, *where)
                    assert await tree_of(volume, f"at{number}") == below(f"at{number}", query.copies[at])
                stop.set()
            for number in range(4):
                check_one_moment(await tree_of(volume, f"fork{number}"), f"fork{number}", query)


def below(root: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{root}/{path}": data for path, data in files.items()}


def check_one_moment(found: dict[str, bytes], root: str, query: Query) -> None:
    """A tree that the query had while it ran: everything of the last batch that is committed, parts of the next."""
    last = max(int(path.rpartition("/")[2]) for path in found if "/commits/" in path)
    copy = below(root, query.copies[last])
    later = below(root, query.copies[last + 1])
    for path, data in found.items():
        assert data in (copy.get(path), later.get(path)), path
    missing = copy.keys() - found.keys()
    assert all(path.endswith((f"/{last - KEPT}", f"/{last - KEPT + 1}.delta")) for path in missing), missing
