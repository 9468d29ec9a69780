"""At which address a volume's owner serves it: a small object beside the segments, on every SOS server.

`service-EPOCH` holds the msgpack array [1, address], written under the owner's claim, so that only the owner of that
epoch can have written it. It is a hint: recovery does not look at it, and losing it loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from journal.gateway import messages as m
from journal.gateway.encoding import encode
from journal.gateway.limits import INSTANCE_BYTES, VERSION
from sos_client.attempts import Deadlines
from sos_client.client import SosClient, open_client
from sos_client.stream import tcp_dial, translated
from sos_client.wire.errors import SosError
from sos_client.wire.msgpack_edge import pack, unpack

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from sos_client.serving.event_log import EventLog
    from sos_client.stream import Dial

GIVEN_BACK: Final = ""
"""The address of an owner that was none: it changed something (the members) and wants the services to go on."""

_PREFIX: Final = "service-"
_VERSION: Final = 1
_ALIVE_SECONDS: Final = 5.0
_OLD_ONES_MAX: Final = 8
_DEADLINES: Final = Deadlines(connect_seconds=3.0, answer_seconds=5.0, retry_seconds=5.0)


def object_name(epoch: int) -> str:
    """Where the owner of that epoch writes its address: names sort as epochs do."""
    return f"{_PREFIX}{epoch:016x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBoard:
    """The board on SOS servers. `address` is what this service says of itself."""

    servers: Sequence[str]
    address: str
    log: EventLog
    token: bytes | None = None
    tls: ssl.SSLContext | None = None
    dial: Dial | None = None

    async def publish(self, volume: str, *, epoch: int, holder: bytes) -> None:
        """On each server that answers; what older owners wrote is deleted where that is possible."""
        async with trio.open_nursery() as nursery:
            for server in self.servers:
                nursery.start_soon(self._publish_on, server, volume, epoch, holder)

    async def look_up(self, volume: str) -> tuple[int, str | None]:
        """The highest epoch on any server that answers, and that owner's address if one of them has it."""
        found: list[tuple[int, str | None]] = [(0, None)]

        async def ask(server: str) -> None:
            try:
                async with self._client(server) as client:
                    found.append(await _read(client, volume))
            except SosError as error:
                self.log.debug("no owner's address", server=server, volume=volume, reason=str(error))

        async with trio.open_nursery() as nursery:
            for server in self.servers:
                nursery.start_soon(ask, server)
        return max(found, key=lambda pair: (pair[0], pair[1] is not None))

    async def is_alive(self, address: str) -> bool:
        """Whether anything answers HELLO there: a refusal is a sign of life, too, also one that says "speak TLS"."""
        hello = m.Hello(version=VERSION, token=None, client="standby", instance=bytes(INSTANCE_BYTES))
        with trio.move_on_after(_ALIVE_SECONDS):
            try:
                with translated(address):
                    async with await (self.dial or tcp_dial())(address) as stream:
                        await stream.send_all(encode(hello))
                        return bool(await stream.receive_some())
            except SosError:
                return False
        return False

    async def _publish_on(self, server: str, volume: str, epoch: int, holder: bytes) -> None:
        name = object_name(epoch)
        try:
            async with self._client(server) as client:
                async with client.append(volume, name, size=0, epoch=epoch, holder=holder) as stream:
                    await stream.send(pack([_VERSION, self.address]))
                await _delete_older(client, volume, epoch, holder)
        except SosError as error:
            self.log.debug("address not written down", server=server, volume=volume, reason=str(error))

    def _client(self, server: str) -> AbstractAsyncContextManager[SosClient]:
        return open_client(
            server, token=self.token, tls=self.tls, client_name="journal", dial=self.dial, deadlines=_DEADLINES
        )


async def _read(client: SosClient, volume: str) -> tuple[int, str | None]:
    epoch = (await client.use(volume)).epoch
    try:
        values = unpack(await client.get(volume, object_name(epoch)))
    except SosError:
        return epoch, None
    match values:
        case [int(), str(address), *_]:
            return epoch, address
    return epoch, None


async def _delete_older(client: SosClient, volume: str, epoch: int, holder: bytes) -> None:
    page = await client.list_page(volume, after=_PREFIX, limit=_OLD_ONES_MAX)
    for entry in page.entries:
        if entry.name.startswith(_PREFIX) and entry.name < object_name(epoch):
            await client.seal(volume, entry.name, size=entry.size, epoch=epoch, holder=holder)
            await client.delete(volume, entry.name, epoch=epoch, holder=holder)
