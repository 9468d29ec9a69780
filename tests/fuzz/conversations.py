"""Stateful fuzzing of a real process: many connections, valid HELLO, every right, legal and nearly legal sequences.

    python -m tests.fuzz.conversations sos --minutes 30 --seed 1
    python -m tests.fuzz.conversations files --minutes 30

Found is: a process that ends or logs an error, an answer that cannot be, a legal request without an answer, a client of
the project that is held up, memory beyond the bound. The seed repeats what is sent, not how it meets at the server.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from journal.gateway.client.client import open_volume
from journal.takeover.volume_creation import create_volume
from sos_client.client import open_client
from sos_client.serving.access import Right, append_token, new_token
from tests.fuzz.gateway_talk import FileTalk, FileWorld
from tests.fuzz.sos_talk import SosTalk, SosWorld
from tests.fuzz.talking import FoundError, Talk, Tally, talk_over
from tests.system.server_process import ServerProcess, serving
from tests.system.service_process import VOLUME, ServiceProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

CONNECTIONS: Final = 12
GROWTH_BYTES_MAX: Final = 256 << 20
"""What any token may make a process keep, with default limits (docs/operations.md)."""
BYSTANDER_SECONDS_MAX: Final = 20.0

RIGHTS: Final = (frozenset(Right), *(frozenset({right}) for right in Right), frozenset({Right.READ, Right.APPEND}))


@dataclass(slots=True, kw_only=True)
class Target:
    """A process to talk to, and one that must not notice."""

    process: ServerProcess | ServiceProcess
    talk: Callable[[random.Random, Tally], Talk]
    bystander: Callable[[], Awaitable[None]]


async def fuzz(target: Target, *, seconds: float, seed: int) -> Tally:
    """Talk for so long. FoundError when something was found."""
    tally = Tally()
    port = target.process.port
    before_bytes = target.process.rss_bytes()

    async def dial() -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", port)

    async def keep_talking(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        while True:
            await talk_over(dial, target.talk(chance, tally), chance, tally)

    async def stand_by() -> None:
        while True:
            with trio.move_on_after(BYSTANDER_SECONDS_MAX) as patience:
                await target.bystander()
            if patience.cancelled_caught:
                raise FoundError("a client of the project was held up")
            await trio.sleep(0.01)

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stand_by)
            for number in range(CONNECTIONS):
                nursery.start_soon(keep_talking, number)
    grown_bytes = target.process.rss_bytes() - before_bytes
    if grown_bytes > GROWTH_BYTES_MAX:
        raise FoundError(f"the process has grown by {grown_bytes >> 20} MiB")
    errors = [line for line in target.process.log() if line["level"] == "error"]
    if errors:
        raise FoundError(f"{len(errors)} errors in the log, the first: {errors[0]}")
    return tally


def make_tokens(path: Path) -> list[bytes | None]:
    """Tokens with every right alone and with all; none, and an unknown one. The first may do everything."""
    tokens: list[bytes | None] = []
    for number, rights in enumerate(RIGHTS):
        text, grant = new_token(name=f"token {number}", namespaces=("*",), rights=rights, expires=None)
        append_token(path, grant)
        tokens.append(bytes.fromhex(text))
    return [*tokens, *tokens[:1] * 8, None, bytes(32)]


@asynccontextmanager
async def sos_target(directory: Path) -> AsyncIterator[Target]:
    """A real `sos-server`."""
    tokens_path = directory / "tokens.toml"
    world = SosWorld(tokens=make_tokens(tokens_path))
    with serving(directory, "--tokens", str(tokens_path)) as server:
        async with open_client(server.address, token=world.tokens[0]) as client:
            await client.use("beside", create=True)
            size = 0

            async def bystander() -> None:
                nonlocal size
                async with client.append("beside", "log", size=size) as stream:
                    await stream.send(b"x" * 100)
                size += 100
                assert (await client.stat("beside", "log")).size == size

            yield Target(process=server, talk=lambda chance, tally: SosTalk(world, chance, tally), bystander=bystander)
        assert server.terminate() == 0


@asynccontextmanager
async def files_target(directory: Path) -> AsyncIterator[Target]:
    """A real `sos-journal serve` over a server."""
    tokens_path = directory / "tokens.toml"
    world = FileWorld(tokens=make_tokens(tokens_path), volume=VOLUME)
    with serving(directory) as server:
        await create_volume(VOLUME, [server.address])
        service = ServiceProcess(directory / "service", [server.address], "--tokens", str(tokens_path))
        try:
            await trio.to_thread.run_sync(service.start)
            async with open_volume([service.address], VOLUME, token=world.tokens[0]) as volume:

                async def bystander() -> None:
                    await volume.put("beside", b"x", overwrite=True, operation=volume.new_operation())
                    assert (await volume.read_file("beside"))[1] == b"x"

                yield Target(
                    process=service, talk=lambda chance, tally: FileTalk(world, chance, tally), bystander=bystander
                )
            assert service.terminate() == 0
        finally:
            service.kill()


TARGETS: Final = {"sos": sos_target, "files": files_target}


async def run(protocol: str, directory: Path, *, seconds: float, seed: int) -> Tally:
    async with TARGETS[protocol](directory) as target:
        return await fuzz(target, seconds=seconds, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("protocol", choices=sorted(TARGETS))
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(f"seed {options.seed}", flush=True)  # noqa: T201
        tally = trio.run(
            lambda: run(options.protocol, Path(directory), seconds=60 * options.minutes, seed=options.seed)
        )
        print(f"nothing found: {tally}")  # noqa: T201


if __name__ == "__main__":
    main()
