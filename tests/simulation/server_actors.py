"""The clients of the server half: what each does for as long as it lives, and what it tells the model.

All of them use the real `SosClient`. An actor treats refusals and lost connections as any careful program would; what
must never happen to it is a violation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from sos_client.attempts import Deadlines
from sos_client.client import SosClient, open_client
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import (
    ConnectionLostError,
    DeadlineError,
    ErrorCode,
    HistoryError,
    ProtocolError,
    RefusedError,
)
from sos_server.storage.rows import Claimed, ObjectDeleted, Row
from tests.sos_server.forging import forged_batch, sprayed

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Iterator

    from sos_client.append_stream import AppendStream
    from sos_client.wire.messages import ObjectInfo
    from tests.simulation.server_model import Key, ServerModel
    from tests.simulation.world import World

DEADLINES: Final = Deadlines(connect_seconds=2.0, answer_seconds=4.0, retry_seconds=12.0)
CALM_DEADLINES: Final = Deadlines(connect_seconds=1.0, answer_seconds=1.0, retry_seconds=0.0)
SHARED: Final = "shared"
OBJECTS: Final = ("a", "b", "c")
RIVAL_PIECE_BYTES: Final = 64
GENERATIONS: Final = 24
"""So many log files are begun in a run, more or less."""
RIVAL: Final = "rival"
"""The one object that somebody else may delete while one appends to it."""
PASSING: Final = frozenset(
    {
        *(ErrorCode.NO_SPACE, ErrorCode.IO_ERROR, ErrorCode.SHUTTING_DOWN, ErrorCode.TOO_SLOW, ErrorCode.LIMIT),
        *(ErrorCode.FENCED, ErrorCode.STALE_EPOCH, ErrorCode.BUSY, ErrorCode.WRONG_SIZE, ErrorCode.WRONG_PREFIX),
        *(ErrorCode.NOT_FOUND, ErrorCode.SEALED, ErrorCode.NOT_SEALED, ErrorCode.RANGE, ErrorCode.RETAINED),
    }
)
ABOUT_THE_OBJECT: Final = frozenset(
    {
        *(ErrorCode.NOT_FOUND, ErrorCode.BUSY, ErrorCode.WRONG_SIZE),
        *(ErrorCode.SEALED, ErrorCode.NOT_SEALED, ErrorCode.RETAINED),
    }
)
"""Whoever is told one of these has passed the claim."""


Work = Callable[["Actor", SosClient], Awaitable[None]]


class Actor:
    """A client process with a name, a host of that name, and chance of its own."""

    def __init__(self, world: World, model: ServerModel, name: str, address: str) -> None:
        self.world = world
        self.model = model
        self.name = name
        self.address = address
        self.chance = world.chance(name)
        self.scope = trio.CancelScope()

    async def live(self, work: Work) -> None:
        """Do the work again and again, with a new client each time something went wrong, until cancelled."""
        with self.scope:
            while True:
                with self.tolerating():
                    await self._repeat(work)
                await self.pause()

    async def _repeat(self, work: Work) -> None:
        async with self.client() as client:
            while True:
                await work(self, client)
                await self.pause()

    def crash(self) -> None:
        self.scope.cancel()
        self.world.network.kill_host(self.name, power_cut=self.chance.random() < 0.5)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[SosClient]:
        async with open_client(
            self.address,
            client_name=self.name,
            dial=partial(self.world.dial, source=self.name),
            deadlines=CALM_DEADLINES if self.model.calm else DEADLINES,
            chance=self.chance,
        ) as client:
            yield client

    async def pause(self) -> None:
        await trio.sleep(self.chance.choice([0.0, 0.001, 0.01, 0.1, 0.5]) * self.chance.random())

    @contextlib.contextmanager
    def tolerating(self) -> Iterator[None]:
        """Go on after what may happen to a client; anything else is a violation."""
        try:
            yield
        except RefusedError as error:
            allowed = error.code in PASSING or (error.code is ErrorCode.DAMAGED and self.model.rotted)
            self.world.require(allowed, f"{self.name} was refused with {error}")
            self.world.counts[f"refused {error.code.name}"] += 1
        except (ConnectionLostError, DeadlineError) as error:
            self.world.require(not self.model.calm, f"{self.name}, with nothing wrong anywhere: {error}")
            self.world.counts[type(error).__name__] += 1
        except ProtocolError as error:
            self.world.require(promise=False, sentence=f"{self.name} saw a broken protocol: {error}")
        except HistoryError as error:
            deleted = str(error).startswith(f"{RIVAL} has")
            self.world.require(deleted or "lost" not in str(error), f"{self.name}: {error}")
            self.world.require("another server" not in str(error), f"{self.name}: {error}")
            self.world.require("made again" not in str(error), f"{self.name}: {error}")
            self.world.counts["HistoryError"] += 1

    async def stat(self, client: SosClient, key: Key) -> ObjectInfo | None:
        mark = self.model.mark(key)
        try:
            info = await client.stat(*key)
        except RefusedError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            self.model.absent(key, mark)
            return None
        self.model.info(key, mark, info)
        return info

    async def read(self, client: SosClient, key: Key, offset: int, length: int) -> bytes:
        life = self.model.facts(key).life
        data = await client.get(*key, offset, length)
        self.model.shown(key, life, offset, data)
        return data

    async def append_some(
        self,
        client: SosClient,
        key: Key,
        content: bytes,
        *,
        epoch: int = 0,
        holder: bytes = b"",
        piece_bytes: int | None = None,
        pieces: int | None = None,
        payload: Callable[[], bytes] | None = None,
        in_a_hurry: bool = False,
    ) -> bytes:
        """Append a few pieces after `content`, maybe without a pause; returns all of it, synced."""
        self.model.appending(key)
        life = self.model.facts(key).life
        sent = bytearray(content)
        crc = crc32c(content)
        async with client.append(
            *key, size=len(content), prefix_crc=crc, epoch=epoch, holder=holder, resume=not self.model.calm
        ) as stream:
            try:
                for _ in range(self.chance.choice([0, 1, 3, 10, 30]) if pieces is None else pieces):
                    data = payload() if payload else self.chance.randbytes(piece_bytes or self._piece_bytes())
                    self.model.sent(key, len(sent), data, prefix_crc=crc, epoch=epoch)
                    sent += data
                    crc = crc32c(data, crc)
                    await stream.send(data)
                    if not in_a_hurry and self.chance.random() < 0.3:
                        await self.pause()
                    if not in_a_hurry and self.chance.random() < 0.2:
                        await stream.wait_synced()
                    self._acknowledged(key, life, stream, sent, len(content))
                await stream.end()
            finally:
                self._acknowledged(key, life, stream, sent, len(content))
        self.world.counts["appends ended"] += 1
        return bytes(sent)

    def _acknowledged(self, key: Key, life: int, stream: AppendStream, sent: bytearray, start: int) -> None:
        if stream.synced > start:
            self.world.note("acknowledged", f"{self.name} {key} {stream.synced}")
            self.world.counts["bytes acknowledged"] += stream.synced - start
            self.model.shown(key, life, start, bytes(sent[start : stream.synced]))

    def _piece_bytes(self) -> int:
        return self.chance.randrange(1, self.chance.choice([2, 20, 300, 300, 1500, 5000, 16000]))


async def write_alone(actor: Actor, client: SosClient) -> None:
    """Objects of one's own, in a namespace that nobody ever claims: append, seal, delete, begin again."""
    namespace, chance, model = f"of-{actor.name}", actor.chance, actor.model
    await client.use(namespace, create=True)
    key = (namespace, chance.choice(OBJECTS))
    info = await actor.stat(client, key)
    if info is not None and info.sealed:
        if chance.random() < 0.5:
            life = model.deleting(key)
            await client.delete(*key)
            model.deleted(key, life)
        return
    content = await actor.read(client, key, 0, info.size) if info is not None and info.size else b""
    content = await actor.append_some(client, key, content)
    if chance.random() < 0.2:
        life = model.facts(key).life
        await client.seal(*key, size=len(content))
        model.sealed(key, life, len(content))


async def append_much(actor: Actor, client: SosClient) -> None:
    """Long appends in a hurry, to objects of one's own under a claim of one's own: most of them go as runs.

    Now and then the claim is raised in the middle, which evicts what is on its way, and the append begins again.
    """
    namespace, chance, model = f"of-{actor.name}", actor.chance, actor.model
    using = await client.use(namespace, create=True)
    model.claim_seen(namespace, model.claim(namespace), using.epoch, using.holder)
    epoch, holder = using.epoch + 1, chance.randbytes(16)
    await client.fence(namespace, epoch, holder)
    model.fenced(namespace, epoch, holder)
    for _ in range(chance.randrange(1, 5)):
        key = (namespace, chance.choice(("m", "n")))
        info = await actor.stat(client, key)
        content = await actor.read(client, key, 0, info.size) if info is not None and info.size else b""
        largest = chance.choice([3000, 9000, 16000])
        payload, pieces = partial(_any_bytes, chance, largest), chance.randrange(1, 30)
        with trio.move_on_after(chance.choice([0.0005, 0.005, 0.05, 10.0])):
            append = partial(actor.append_some, epoch=epoch, holder=holder, payload=payload, in_a_hurry=True)
            await append(client, key, content, pieces=pieces)
            if chance.random() < 0.3:
                size, life = model.facts(key).size_min, model.facts(key).life
                await client.seal(*key, size=size, epoch=epoch, holder=holder)
                model.sealed(key, life, size)
                life = model.deleting(key)
                await client.delete(*key, epoch=epoch, holder=holder)
                model.deleted(key, life)


def _any_bytes(chance: random.Random, largest: int) -> bytes:
    return chance.randbytes(chance.randrange(1, largest))


async def append_against_rivals(actor: Actor, client: SosClient) -> None:
    """Several clients, one object, no claim: they keep each other out, and resume where somebody else may have been.

    All their pieces are of one size, so that two pasts often are of the same length. One of them also deletes.
    """
    key, model = ("rivals", RIVAL), actor.model
    model.contested.add(key)
    await client.use(key[0], create=True)
    info = await actor.stat(client, key)
    if info is not None and (info.sealed or (actor.name.endswith("0") and actor.chance.random() < 0.4)):
        if actor.name.endswith("0"):
            await client.seal(*key, size=info.size)
            life = model.deleting(key)
            await client.delete(*key)
            model.deleted(key, life)
        return
    content = await actor.read(client, key, 0, info.size) if info is not None and info.size else b""
    await actor.pause()
    await actor.append_some(client, key, content, piece_bytes=RIVAL_PIECE_BYTES, pieces=actor.chance.randrange(4))


async def append_impatiently(actor: Actor, client: SosClient) -> None:
    """Give an append up in the middle, and begin the next where the last acknowledgement was."""
    key, chance, model = (f"of-{actor.name}", "i"), actor.chance, actor.model
    await client.use(key[0], create=True)
    info = await actor.stat(client, key)
    content = await actor.read(client, key, 0, info.size) if info is not None and info.size else b""
    for _ in range(5):
        model.appending(key)
        sent, crc = bytearray(content), crc32c(content)
        with trio.CancelScope() as given_up:
            async with client.append(*key, size=len(content), prefix_crc=crc, resume=not model.calm) as stream:
                for _ in range(chance.randrange(1, 6)):
                    data = chance.randbytes(chance.randrange(1, 600))
                    model.sent(key, len(sent), data, prefix_crc=crc32c(sent), epoch=0)
                    sent += data
                    await stream.send(data)
                await trio.sleep(chance.uniform(0, 0.004))
                given_up.cancel()
        content = bytes(sent[: stream.synced])
        model.shown(key, model.facts(key).life, 0, content)


async def own_by_claim(actor: Actor, client: SosClient) -> None:
    """Claim the shared namespace, and append under the claim until somebody else has it."""
    model, chance = actor.model, actor.chance
    known = model.claim(SHARED)
    using = await client.use(SHARED, create=True)
    model.claim_seen(SHARED, known, using.epoch, using.holder)
    # Sometimes the epoch that somebody else has already: it must not be granted twice.
    epoch, holder = using.epoch + chance.choice([0, 1, 1, 1, 1]), chance.randbytes(16)
    await client.fence(SHARED, epoch, holder)
    model.fenced(SHARED, epoch, holder)
    fresh = set(OBJECTS)
    for _ in range(chance.randrange(1, 8)):
        key = (SHARED, chance.choice(OBJECTS))
        info = await actor.stat(client, key)
        size = info.size if info is not None else 0
        content = await actor.read(client, key, 0, size) if size else b""
        try:
            await actor.append_some(client, key, content, epoch=epoch, holder=holder)
        except RefusedError as error:
            # The network may deliver an earlier attempt of this client late: it takes the place of the later one.
            own = error.code is ErrorCode.BUSY and "newer append" in str(error)
            changed = error.code in {ErrorCode.WRONG_SIZE, ErrorCode.WRONG_PREFIX, ErrorCode.BUSY} and not own
            actor.world.require(
                not (changed and key[1] in fresh and model.claim(SHARED) == (epoch, holder)),
                f"{'/'.join(key)} changed under claim {epoch} before its holder had touched it: {error}",
            )
            raise
        finally:
            fresh.discard(key[1])
        await actor.pause()
        if model.claim(SHARED)[0] > epoch:
            await _change_as_a_zombie(actor, client, key, epoch, holder)


async def _change_as_a_zombie(actor: Actor, client: SosClient, key: Key, epoch: int, holder: bytes) -> None:
    """Seal and delete under a claim after a newer one was granted: each must be refused, and for that reason."""
    newer = actor.model.claim(key[0])[0]
    for verb in actor.chance.sample(["SEAL", "DELETE"], 2):
        size = actor.model.facts(key).size_min
        try:
            if verb == "SEAL":
                await client.seal(*key, size=size, epoch=epoch, holder=holder)
            else:
                await client.delete(*key, epoch=epoch, holder=holder)
            answer = "was taken"
        except RefusedError as error:
            if error.code is ErrorCode.FENCED or error.code not in ABOUT_THE_OBJECT:
                continue
            answer = f"was answered with {error.code.name}"
        actor.world.require(
            promise=False,
            sentence=f"{'/'.join(key)}: {verb} under claim {epoch} {answer}, although {newer} was granted",
        )


async def forge(actor: Actor, client: SosClient) -> None:
    """Write what looks like batches of the commit log, with rows that would change what is others'."""
    chance, key = actor.chance, (f"of-{actor.name}", "f")
    await client.use(key[0], create=True)
    info = await actor.stat(client, key)
    content = await actor.read(client, key, 0, info.size) if info is not None and info.size else b""

    def payload() -> bytes:
        rows: list[Row] = [
            Claimed(chance.randrange(1, 9), 4_000_000_000, b"E" * 16),
            ObjectDeleted(chance.randrange(1, 30)),
        ]
        return sprayed(
            forged_batch(rows, generation=chance.randrange(2, GENERATIONS), number=chance.randrange(9))
            for _ in range(3)
        )

    await actor.append_some(client, key, content, payload=payload, pieces=chance.randrange(1, 8))
    await trio.sleep(chance.uniform(0, 0.5))


async def read_around(actor: Actor, client: SosClient) -> None:
    """Read any range of anything, listen to anything as it grows, list anything."""
    chance = actor.chance
    keys = sorted(actor.model.objects)
    if not keys:
        return
    key = chance.choice(keys)
    await chance.choice([_read_range, _follow, _list])(actor, client, key)


async def _read_range(actor: Actor, client: SosClient, key: Key) -> None:
    info = await actor.stat(client, key)
    if info is not None and info.size:
        offset = actor.chance.randrange(info.size)
        await actor.read(client, key, offset, actor.chance.randrange(1, info.size - offset + 1))


async def _follow(actor: Actor, client: SosClient, key: Key) -> None:
    life = actor.model.facts(key).life
    with trio.move_on_after(actor.chance.uniform(0, 2)):
        async with client.read_stream(*key, follow=True) as pieces:
            offset = 0
            async for piece in pieces:
                actor.model.shown(key, life, offset, bytes(piece))
                offset += len(piece)
                actor.world.counts["followed pieces"] += 1


async def _list(actor: Actor, client: SosClient, key: Key) -> None:
    model, namespace = actor.model, key[0]
    marks = {known: model.mark(known) for known in sorted(model.objects) if known[0] == namespace}
    async for info in client.list_all(namespace):
        mark = marks.pop((namespace, info.name), None)
        if mark is not None:
            model.info((namespace, info.name), mark, info)
    for missing, mark in marks.items():
        model.absent(missing, mark)
