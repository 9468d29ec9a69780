"""At which address a volume's owner serves it: a small object beside the segments, on every SOS server.

`service-EPOCH` holds the msgpack array [1, address], written under the owner's claim, so that only the owner of that
epoch can have written it. An owner that ends adds [1, ""]: the last array counts. It is a hint: recovery does not look
at it, and losing it loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from sos_client.attempts import Deadlines
from sos_client.client import SosClient, open_client
from sos_client.wire.errors import SosError
from sos_client.wire.msgpack_edge import pack, unpack

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from sos_client.net.dialing import Dial
    from sos_client.serving.event_log import EventLog

GIVEN_BACK: Final = ""
"""The address of an owner that no longer is one, or never was (it changed the members): the services are to go on."""

_PREFIX: Final = "service-"
_VERSION: Final = 1
_STRAGGLER_SECONDS: Final = 0.3  # how long most servers' answer waits for the others: a machine may be lost
_GIVE_BACK_SECONDS: Final = 2.0
_OLD_ONES_MAX: Final = 8
_GIVEN_BACK_MARK: Final = pack([_VERSION, GIVEN_BACK])  # no address ends with these bytes
_DEADLINES: Final = Deadlines(connect_seconds=3.0, answer_seconds=5.0, retry_seconds=5.0)


def object_name(epoch: int) -> str:
    """Where the owner of that epoch writes its address: names sort as epochs do."""
    return f"{_PREFIX}{epoch:016x}"


def is_of_board(name: str) -> bool:
    """Whether an object of this name is an owner's address."""
    return name.startswith(_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBoard:
    """The board on SOS servers. `address` is what this service says of itself."""

    servers: Sequence[str]
    address: str
    log: EventLog
    token: bytes | None = None
    tls: ssl.SSLContext | None = None
    insecure: bool = False
    dial: Dial | None = None

    async def publish(self, volume: str, *, epoch: int, holder: bytes) -> None:
        """On each server that answers; what older owners wrote is deleted where that is possible."""
        async with trio.open_nursery() as nursery:
            for server in self.servers:
                nursery.start_soon(self._publish_on, server, volume, epoch, holder)

    async def look_up(self, volume: str) -> tuple[int, str | None]:
        """The highest epoch on any server that answers, and that owner's address if one of them has it."""
        found: list[tuple[int, str | None]] = [(0, None)]

        most = trio.Event()

        async def ask(server: str) -> None:
            try:
                async with self._client(server) as client:
                    found.append(await _read(client, volume))
            except SosError as error:
                self.log.debug("no owner's address", server=server, volume=volume, reason=str(error))
            if 2 * (len(found) - 1) > len(self.servers):
                most.set()

        async def wait_no_longer(scope: trio.CancelScope) -> None:
            await most.wait()
            await trio.sleep(_STRAGGLER_SECONDS)
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_no_longer, nursery.cancel_scope)
            async with trio.open_nursery() as asking:
                for server in self.servers:
                    asking.start_soon(ask, server)
            nursery.cancel_scope.cancel()
        return max(found, key=lambda pair: (pair[0], pair[1] is not None))

    async def give_back(self, volume: str, *, epoch: int, holder: bytes) -> None:
        """On each server that answers soon."""
        with trio.move_on_after(_GIVE_BACK_SECONDS):
            async with trio.open_nursery() as nursery:
                for server in self.servers:
                    nursery.start_soon(self._give_back_on, server, volume, epoch, holder)

    async def _give_back_on(self, server: str, volume: str, epoch: int, holder: bytes) -> None:
        name = object_name(epoch)
        try:
            async with self._client(server) as client:
                size = (await client.stat(volume, name)).size
                async with client.append(volume, name, size=size, epoch=epoch, holder=holder) as stream:
                    await stream.send(_GIVEN_BACK_MARK)
        except SosError as error:
            self.log.debug("not written down that it is given back", server=server, volume=volume, reason=str(error))

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
            server,
            token=self.token,
            tls=self.tls,
            insecure=self.insecure,
            client_name="journal",
            dial=self.dial,
            deadlines=_DEADLINES,
        )


async def _read(client: SosClient, volume: str) -> tuple[int, str | None]:
    epoch = (await client.use(volume)).epoch
    try:
        data = await client.get(volume, object_name(epoch))
        values = unpack(data[-len(_GIVEN_BACK_MARK) :] if data.endswith(_GIVEN_BACK_MARK) else data)
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
