"""Real processes for the command to talk to:

SOS servers with a volume's objects on them, a service with a volume in memory.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from journal.records.membership import Configuration, Member, Membership
from sos_client.client import open_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.journal.histories import History


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A Python module as a process that says `ready HOST:PORT`; its address."""
    started = subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert started.stdout is not None
        word, address = started.stdout.readline().split()
        assert word == "ready"
        yield started, address
    finally:
        started.kill()
        started.wait()
        if started.stdout is not None:
            started.stdout.close()


@contextlib.contextmanager
def memory_service(*volumes: str) -> Iterator[str]:
    """A journal service whose volumes are in memory."""
    names = [argument for volume in volumes for argument in ("--volume", volume)]
    with process("tests.fakes.serve_memory_volume", "--listen", "127.0.0.1:0", *names) as (_, address):
        yield address


@dataclass
class Servers:
    """SOS servers of one volume."""

    addresses: list[str]
    roots: list[Path]
    volume: str
    membership: Membership

    @property
    def option(self) -> str:
        return ",".join(self.addresses)

    def store(self, number: int, objects: dict[str, bytes], history: History) -> None:
        """Put objects on one server, as the history's holder."""

        async def run() -> None:
            async with open_client(self.addresses[number]) as client:
                claim = {"epoch": history.epoch, "holder": history.holder}
                await client.fence(self.volume, history.epoch, history.holder)
                for name, data in objects.items():
                    async with client.append(self.volume, name, size=0, **claim) as stream:  # type: ignore[arg-type]
                        for at in range(0, len(data), 65_536):
                            await stream.send(data[at : at + 65_536])
                            await stream.wait_synced()  # what is synced together is damaged together

        trio.run(run)

    def fence(self, number: int, epoch: int) -> None:
        """Claim one server, as somebody who may fence and serves nothing."""

        async def run() -> None:
            async with open_client(self.addresses[number]) as client:
                await client.fence(self.volume, epoch, b"somebody else...")

        trio.run(run)

    def flip(self, number: int, content: bytes) -> None:
        """Flip one bit of this content wherever it lies on a server's disk."""
        hit = 0
        for file in self.roots[number].rglob("*"):
            at = file.read_bytes().find(content) if file.is_file() else -1
            if at >= 0:
                with file.open("r+b") as opened:
                    opened.seek(at)
                    opened.write(bytes([content[0] ^ 4]))
                hit += 1
        assert hit, "it is nowhere on the disk"

    def fetch(self, number: int, name: str) -> bytes:
        async def run() -> bytes:
            async with open_client(self.addresses[number]) as client:
                return await client.get(self.volume, name)

        return trio.run(run)


@contextlib.contextmanager
def sos_servers(root: Path, volume: str, count: int = 3) -> Iterator[Servers]:
    """Servers with an empty namespace on each, and the membership that they make."""
    with contextlib.ExitStack() as stack:
        addresses = []
        roots = [root / f"server-{number}" for number in range(count)]
        for path in roots:
            started = process("sos_server", "--root", str(path), "--listen", "127.0.0.1:0")
            addresses.append(stack.enter_context(started)[1])

        async def members() -> list[Member]:
            found = []
            for address in addresses:
                async with open_client(address) as client:
                    info = await client.use(volume, create=True)
                    found.append(Member(identity=client.server_identity, incarnation=info.incarnation, address=address))
            return found

        configuration = Configuration(members=tuple(trio.run(members)), acknowledgements=count // 2 + 1)
        yield Servers(addresses, roots, volume, Membership(configuration=configuration))
