"""Making a volume. Explicit, once: all members answer and have nothing of that name.

Belongs here: the first header, on all members. A birth that was cut short after the first header is ended by whoever
opens the volume; one cut short before it may be tried again, since no member holds anything yet.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from journal.copies.member_filling import Filling
from journal.copies.volume_listing import find_volumes
from journal.errors import JournalCode, JournalError, refused
from journal.member_errors import member_errors
from journal.records.membership import Configuration, Member, Membership, majority
from journal.records.record import Epoch
from journal.records.segment import SegmentHeader
from journal.records.settings import JournalSettings, Surroundings
from journal.records.shards import HOME, parse_shard, shards_of
from journal.takeover.driver import header_record
from journal.takeover.member_links import member_links
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.holders import shown_holder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from journal.takeover.member_links import MemberLinks
    from sos_client.client import SosClient


async def create_volume(
    volume: str,
    servers: Sequence[str],
    *,
    acknowledgements: int | None = None,
    surroundings: Surroundings | None = None,
    settings: JournalSettings | None = None,
) -> SegmentHeader:
    """Make a volume on these servers: all of them are its members.

    VOLUME_EXISTS if one of them has it, UNAVAILABLE if one does not answer, BAD_REQUEST for an impossible quorum.
    """
    surroundings, settings = surroundings or Surroundings(), settings or JournalSettings()
    async with member_links(volume, surroundings) as links:
        clients = await _connect(links, servers)
        await _on_all(clients, lambda client: _check_empty(client, volume))
        members: dict[str, Member] = {}

        async def join(client: SosClient) -> None:
            info = await client.use(volume, create=True)
            members[client.address] = Member(
                identity=client.server_identity, incarnation=info.incarnation, address=client.address
            )

        await _on_all(clients, join)
        configuration = _configuration([members[client.address] for client in clients], acknowledgements)
        epoch, holder = await _next_epoch(clients, volume), surroundings.chance.randbytes(16)
        await _on_all(clients, lambda client: client.fence(volume, epoch, holder))
        header = SegmentHeader(
            volume_id=surroundings.chance.randbytes(16),
            membership=Membership(configuration=configuration),
            epoch=Epoch(epoch),
            holder=shown_holder(holder),
            granted=frozenset(configuration.members),
            base=None,
            retention=settings.retention,
        )
        _, data = header_record(header, time_ms=surroundings.wall_ms() - links.ahead_ms())

        async def write(client: SosClient) -> None:
            await Filling(client, volume, epoch=epoch, holder=holder).whole(str(header.name), data)

        await _on_all(clients, write)
        return header


async def create_shards(
    volume: str,
    count: int,
    servers: Sequence[str],
    *,
    acknowledgements: int | None = None,
    surroundings: Surroundings | None = None,
    settings: JournalSettings | None = None,
) -> SegmentHeader:
    """Make the shards of a volume, HOME last; gives that one's header.

    As `create_volume`; if that was cut short, once more makes the rest. VOLUME_EXISTS if there is a volume of this
    name, of whatever number of shards.
    """
    surroundings = surroundings or Surroundings()
    shards = shards_of(volume, count)
    await check_name_is_free(shards[HOME].name, servers, surroundings)
    make = functools.partial(
        create_volume, servers=servers, acknowledgements=acknowledgements, surroundings=surroundings, settings=settings
    )
    for shard in reversed(shards[HOME + 1 :]):
        try:
            await make(shard.name)
        except JournalError as error:
            if error.code is not JournalCode.VOLUME_EXISTS:
                raise
    return await make(shards[HOME].name)


async def check_name_is_free(name: str, servers: Sequence[str], surroundings: Surroundings) -> None:
    """VOLUME_EXISTS if a volume has shards, and is to be made by itself or with another number of them, or has none.

    As far as the servers say which they have.
    """
    wanted = parse_shard(name)
    volume, count = (name, None) if wanted is None else (wanted.volume, wanted.count)
    for kept in (await find_volumes(servers, surroundings)).volumes:
        shard = parse_shard(kept.name)
        of_volume = kept.name == volume if shard is None else shard.volume == volume
        kept_count = None if shard is None else shard.count
        if of_volume and kept_count != count:
            message = f"{', '.join(kept.servers)}: there is a volume {kept.name} already"
            raise refused(JournalCode.VOLUME_EXISTS, message, volume=volume, shards=kept_count)


async def _connect(links: MemberLinks, servers: Sequence[str]) -> list[SosClient]:
    clients = []
    for address in servers:
        with member_errors(address, _MEANINGS, silent="does not answer, and all servers of a new volume must"):
            clients.append(await links.at(address))
    return clients


async def _on_all(clients: Sequence[SosClient], step: Callable[[SosClient], Awaitable[None]]) -> None:
    """One step on every member; the first error ends the birth."""
    for client in clients:
        with member_errors(client.address, _MEANINGS):
            await step(client)


async def _check_empty(client: SosClient, volume: str) -> None:
    """No namespace of this name, or one in which nothing was ever written (of a birth that was cut short)."""
    try:
        await client.use(volume)
        page = await client.list_page(volume, limit=1)
    except RefusedError as error:
        if error.code is ErrorCode.NOT_FOUND:
            return
        raise
    if page.entries:
        raise refused(JournalCode.VOLUME_EXISTS, f"{client.address} has a volume {volume} already", volume=volume)


async def _next_epoch(clients: Sequence[SosClient], volume: str) -> int:
    """1, or more if an earlier birth came as far as claiming."""
    infos = [await client.use(volume) for client in clients]
    return max(info.epoch for info in infos) + 1


def _configuration(members: list[Member], acknowledgements: int | None) -> Configuration:
    try:
        return Configuration(
            members=tuple(members),
            acknowledgements=majority(len(members)) if acknowledgements is None else acknowledgements,
        )
    except ValueError as error:
        raise refused(JournalCode.BAD_REQUEST, str(error)) from error


def _bad_name(message: str) -> JournalError:
    return refused(JournalCode.BAD_REQUEST, message)


def _made_by_another(message: str) -> JournalError:
    return refused(JournalCode.VOLUME_EXISTS, f"somebody else is making this volume: {message}")


_MEANINGS: Final = {
    ErrorCode.BAD_NAME: _bad_name,
    ErrorCode.STALE_EPOCH: _made_by_another,
    ErrorCode.FENCED: _made_by_another,
}
