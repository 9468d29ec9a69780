"""A volume by its name, whether one journal keeps it or several shards do: the service says which when it is asked."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

from journal.errors import JournalCode, JournalError
from journal.gateway.client.client import ClientSettings, RemoteVolume, open_volume
from journal.gateway.client.operation_ids import OperationIds
from journal.gateway.client.retry_state import SHARDS_FIELD
from journal.gateway.client.sharded_volume import ShardedVolume
from journal.records.shards import Shard, shards_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence

    from sos_client.net.dialing import Dial

WholeVolume: TypeAlias = "RemoteVolume | ShardedVolume"


class WayToServices(TypedDict, total=False):
    """What `open_volume` may be told of how to reach services; its defaults are these, too."""

    token: bytes | None
    tls: ssl.SSLContext | None
    insecure: bool
    client_name: str
    dial: Dial | None


@asynccontextmanager
async def open_whole_volume(
    addresses: Sequence[str], volume: str, *, settings: ClientSettings | None = None, **way: Unpack[WayToServices]
) -> AsyncIterator[WholeVolume]:
    """As `open_volume`, but it asks a service at once: one that has a shard says how many there are.

    The shards are looked for at all the addresses, and where a service of one says that another is. UNAVAILABLE,
    VOLUME_NOT_FOUND and what greetings are refused with.
    """
    settings = settings or ClientSettings()
    operations = OperationIds(settings.chance)
    async with AsyncExitStack() as stack:

        async def opened(name: str) -> RemoteVolume:
            opening = open_volume(addresses, name, settings=settings, operations=operations, **way)
            return await stack.enter_async_context(opening)

        whole = await opened(volume)
        shards = await shards_behind(whole)
        if not shards:
            yield whole
            return
        volumes = [await opened(shard.name) for shard in shards]
        yield ShardedVolume(shards, volumes, operations=operations)


async def shards_behind(volume: RemoteVolume) -> tuple[Shard, ...]:
    """The shards that its services have instead of the volume; none if it is one by itself."""
    try:
        await volume.ping()
    except JournalError as error:
        count = error.fields.get(SHARDS_FIELD)
        if error.code is not JournalCode.VOLUME_NOT_FOUND or not isinstance(count, int):
            raise
        return shards_of(volume.name, count)
    return ()
