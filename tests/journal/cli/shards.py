"""A volume of two shards whose services and server are real, and a checkpoint as Spark writes it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.checkpoint.layout import state_file_of
from journal.gateway.client.opening import open_whole_volume
from journal.gateway.client.sharded_volume import ShardedVolume
from journal.volume import PathClaim
from tests.journal.checkpoints import checkpoint
from tests.journal.cli.conftest import Cli

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

OVER = PathClaim(application="app-over", start_time=1_790_000_000_000)
BATCHES = 5
NAMES = ["payments.shard-0-of-2", "payments.shard-1-of-2"]


def place(name: str) -> tuple[int, int]:
    """As Spark writes: batch after batch, the plan first, then the state, the commit last."""
    last = name.rpartition("/")[2].split(".")[0]
    number = int(last) if last.isdecimal() else -1
    if name.startswith("state/") and number >= 0:
        return number - 1, 1
    return number, 2 if name.startswith("commits/") else 0


def files_up_to(batch: int, run: bytes = b"") -> dict[str, bytes]:
    """What the checkpoint has right after a batch was committed; what `run` wrote can be told apart."""
    files = sorted(checkpoint("hdfs", batches=BATCHES).items(), key=lambda item: place(item[0]))
    kept = {name: data for name, data in files if place(name) <= (batch, 2)}
    return {name: data + run if is_state(name) and not name.endswith("crc") else data for name, data in kept.items()}


def is_state(name: str) -> bool:
    return state_file_of(name.removesuffix(".crc")) is not None


async def write(services: str, files: dict[str, bytes]) -> None:
    async with open_whole_volume(services.split(","), "payments") as volume:
        assert isinstance(volume, ShardedVolume)
        await volume.claim("q", OVER, operation=volume.new_operation())
        for name, data in files.items():
            await volume.put(f"q/{name}", data, overwrite=False, operation=volume.new_operation(), claim=OVER)


class Shards:
    """A volume of two shards on one server, whose services are supervised by one command."""

    def __init__(self, root: Path, server: str, services: str, supervisor: int) -> None:
        self.root, self.server, self.services, self.supervisor = root, server, services, supervisor
        self.cli = Cli(root)

    def at_server(self, *arguments: str) -> Result:
        return self.cli(*arguments, "--servers", self.server)

    def at_services(self, *arguments: str) -> Result:
        return self.cli(*arguments, "--service", self.services)

    def at_both(self, *arguments: str) -> Result:
        return self.at_server(*arguments, "--service", self.services)

    def restored(self, name: str, *arguments: str, path: str = "q") -> dict[str, bytes]:
        target = self.root / name
        result = self.at_server("restore", f"sos://payments/{path}", str(target), *arguments)
        assert result.exit_code == 0, result.output
        return {str(f.relative_to(target)): f.read_bytes() for f in target.rglob("*") if f.is_file()}
