"""Taking a volume away for good: from each server that has it, after nobody can write it any more.

Belongs here: who must not be using it, the claim that ends every owner, the deletes, in this order. The namespace
itself stays, empty and claimed (servers never forget one), so that an owner from before is refused for ever and a new
volume of that name begins with a greater epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from journal.copies.volume_listing import has_segments
from journal.errors import JournalCode, JournalError, refused
from journal.member_errors import meaning_of, member_errors
from journal.takeover.member_links import member_links
from journal.takeover.owner_board import is_of_board
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.limits import IDENTITY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from journal.records.settings import Surroundings
    from journal.takeover.member_links import MemberLinks
    from sos_client.client import NamespaceInfo, ObjectInfo, SosClient

_NOBODYS: Final = "no-object-has-this-name"


@dataclass(slots=True, kw_only=True)
class Removal:
    """How far it came."""

    servers: list[str] = field(default_factory=list)
    """Those that had it and answered."""
    objects: int = 0
    """Deleted, on all servers together."""
    stored_bytes: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    """By server: objects that it keeps for now, and may delete after `seconds`."""
    seconds: int = 0

    def add(self, other: Removal) -> None:
        """Of another journal of the same volume."""
        self.servers = list(dict.fromkeys([*self.servers, *other.servers]))
        self.objects += other.objects
        self.stored_bytes += other.stored_bytes
        self.kept = {server: self.kept.get(server, 0) + other.kept.get(server, 0) for server in self.kept | other.kept}
        self.seconds = max(self.seconds, other.seconds)


@dataclass(slots=True, kw_only=True)
class Stock:
    """What there is to delete on one server."""

    server: str
    objects: int
    stored_bytes: int


async def stock_of(volume: str, servers: Sequence[str], *, surroundings: Surroundings) -> list[Stock]:
    """What each of these servers has of it; nothing is changed. Errors as of `remove_volume`."""
    stock = []
    async with member_links(volume, surroundings) as links:
        for client, _ in await _having(links, servers):
            with member_errors(client.address, _MEANINGS, silent=_GONE):
                sizes = [info.size async for info in client.list_all(volume)]
            stock.append(Stock(server=client.address, objects=len(sizes), stored_bytes=sum(sizes)))
    return stock


async def remove_volume(
    volume: str,
    servers: Sequence[str],
    *,
    surroundings: Surroundings,
    progress: Callable[[int], None] = lambda _done: None,
) -> Removal:
    """Delete it on these servers, all of which must answer. VOLUME_NOT_FOUND if none has it, DENIED without a right.

    A server may keep sealed objects for a time (`storage.retention_seconds`): those are said, and go when this is done
    again. Interrupted, it may be done again, too.
    """
    removal = Removal()
    async with member_links(volume, surroundings) as links:
        having = await _having(links, servers)
        for client, _ in having:
            await _check_right(client, volume)
        epoch = max(info.epoch for _, info in having) + 1
        holder = surroundings.chance.randbytes(IDENTITY_BYTES)
        for client, _ in having:  # on all of them first: nobody may acknowledge what is deleted elsewhere
            with member_errors(client.address, _MEANINGS, silent=_GONE):
                await client.fence(volume, epoch, holder)
        for client, _ in having:
            removal.servers.append(client.address)
            await _clear(client, volume, epoch, holder, removal, progress)
    return removal


async def _having(links: MemberLinks, servers: Sequence[str]) -> list[tuple[SosClient, NamespaceInfo]]:
    """All servers are asked; those without the namespace, or with an empty one, do not have the volume."""
    found = []
    for address in servers:
        with member_errors(address, _MEANINGS, silent=_KEEPS):
            client = await links.at(address)
            try:
                info = await client.use(links.volume)
                page = await client.list_page(links.volume)
            except RefusedError as error:
                if error.code is not ErrorCode.NOT_FOUND:
                    raise
                continue
            if page.entries:
                _check_kind(links.volume, address, [entry.name for entry in page.entries])
                found.append((client, info))
    if not found:
        message = f"there is no volume {links.volume} on {', '.join(servers)}"
        raise refused(JournalCode.VOLUME_NOT_FOUND, message, volume=links.volume)
    return found


def _check_kind(volume: str, address: str, names: list[str]) -> None:
    """What is no volume's is not deleted, whatever it is called. What a removal left that was cut short is one's."""
    if not has_segments(names) and not any(is_of_board(name) for name in names):
        message = f"{address} has a namespace {volume}, but no volume's log is in it: `sos ls {volume}` shows what is"
        raise refused(JournalCode.VOLUME_NOT_FOUND, message, volume=volume)


async def _check_right(client: SosClient, volume: str) -> None:
    """Before anything is claimed: DENIED if the token may not delete. Servers look at the right first."""
    try:
        await client.delete(volume, _NOBODYS)
    except RefusedError as error:
        if error.code is ErrorCode.DENIED:
            raise meaning_of(error, client.address) from error


async def _clear(
    client: SosClient, volume: str, epoch: int, holder: bytes, removal: Removal, progress: Callable[[int], None]
) -> None:
    with member_errors(client.address, _MEANINGS, silent=_GONE):
        objects = [info async for info in client.list_all(volume)]
        for info in objects:
            try:
                await _delete(client, volume, info, epoch, holder)
            except RefusedError as error:
                if error.code is not ErrorCode.RETAINED:
                    raise
                removal.kept[client.address] = removal.kept.get(client.address, 0) + 1
                seconds = error.fields.get("seconds")
                removal.seconds = max(removal.seconds, seconds if isinstance(seconds, int) else 0)
            else:
                removal.objects += 1
                removal.stored_bytes += info.size
                progress(info.size)


async def _delete(client: SosClient, volume: str, info: ObjectInfo, epoch: int, holder: bytes) -> None:
    if not info.sealed:
        await client.seal(volume, info.name, size=info.size, epoch=epoch, holder=holder)
    await client.delete(volume, info.name, epoch=epoch, holder=holder)


def _claimed(message: str) -> JournalError:
    return refused(JournalCode.CHANGED, f"somebody else has claimed the volume meanwhile: {message}")


_MEANINGS: Final = {ErrorCode.STALE_EPOCH: _claimed, ErrorCode.FENCED: _claimed}
_KEEPS: Final = "does not answer, and would keep its copy (name the others to leave it there)"
_GONE: Final = "does not answer any more (do it again when it does)"
