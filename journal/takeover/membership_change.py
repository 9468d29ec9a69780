"""What an operator does to a volume from outside its service: change its members, one at a time; accept a loss.

Belongs here: what is done in which order around the takeover that changes them (takeover.py has the rules).
The new member is filled with what is already closed before the volume is taken over, so that the service pauses only
for the rest; then the volume is given back, and the service, which has lost it meanwhile, takes it over again. Clients
see a pause.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.copies import MemberCopy
from journal.copies.history import read_header
from journal.copies.local_log import LocalLog, open_local_log
from journal.copies.member_filling import Filling
from journal.copies.volume_reader import open_reader, whole_snapshot
from journal.errors import (
    DamagedJournalError,
    JournalCode,
    UnavailableError,
    refused,
)
from journal.image.index_snapshot import snapshots_on_chain
from journal.member_errors import member_errors
from journal.records.membership import Configuration, Member, with_member, with_member_replaced, without_member
from journal.records.segment import decode_segment_header
from journal.takeover.driver import take_over
from journal.takeover.member_links import member_links
from journal.takeover.owner_board import GIVEN_BACK, ServerBoard
from sos_client.serving.event_log import EventLog, Level
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from journal.copies.copies import Copy
    from journal.copies.volume_reader import VolumeReader
    from journal.records.segment import SegmentHeader
    from journal.records.settings import Surroundings
    from journal.takeover.member_links import MemberLinks

_GIVE_BACK_SECONDS: Final = 20.0  # servers that do not answer then have not heard of the change either


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What shall change: `joining` is an address, `leaving` an address or the beginning of a server's identity."""

    joining: str | None = None
    leaving: str | None = None


async def change_members(
    volume: str,
    servers: Sequence[str],
    wish: Wish,
    *,
    surroundings: Surroundings,
    progress: Callable[[int], None] = lambda _done: None,
) -> SegmentHeader:
    """Make the change durable in the old and the new configuration; the header that says so.

    BAD_REQUEST for what is no change by one member, VOLUME_EXISTS if the new server has another volume of that name,
    UNAVAILABLE if a quorum of either configuration does not answer: nothing has changed then, and it can be tried
    again.
    """
    async with member_links(volume, surroundings) as links:
        reader = await open_reader(volume, await _copies(links, servers))
        old = reader.header.membership.configuration
        leaving = None if wish.leaving is None else find_member(old, wish.leaving)
        joining = None if wish.joining is None else await _newcomer(links, wish.joining, reader, progress)
        new = _changed(old, leaving, joining)
        known = [*servers, *(member.address for member in new.members)]
        async with _giving_back(volume, known, surroundings) as claimed:
            opened = await take_over(
                links, known, LocalLog(None, surroundings.log), surroundings, change=new, claimed=claimed
            )
        return opened.end.segment


async def accept_loss(
    volume: str, servers: Sequence[str], *, directory: Path | None, surroundings: Surroundings
) -> SegmentHeader:
    """Go on with the members that answer, although acknowledged records may be on none of them: an operator's decision.

    The header that is returned, and lies in the log, says what was given up. A service's `directory` may have what no
    member has. Errors as of a takeover: at least one member must answer.
    """
    async with (
        open_local_log(directory, volume, surroundings.log) as local,
        member_links(volume, surroundings) as links,
    ):
        async with _giving_back(volume, servers, surroundings) as claimed:
            opened = await take_over(links, servers, local, surroundings, accept_loss=True, claimed=claimed)
        return opened.end.segment


@asynccontextmanager
async def _giving_back(
    volume: str, servers: Sequence[str], surroundings: Surroundings
) -> AsyncIterator[Callable[[int, bytes], None]]:
    """Let the services know afterwards that they may take the volume over again.

    However it ends: an attempt that failed, or was interrupted, may have taken the volume from its service.
    """
    last: list[tuple[int, bytes]] = []
    try:
        yield lambda epoch, holder: last.append((epoch, holder))
    finally:
        if last:
            board = ServerBoard(
                servers=servers,
                address=GIVEN_BACK,
                log=EventLog(least=Level.ERROR),
                token=surroundings.token,
                tls=surroundings.tls,
                insecure=surroundings.insecure,
                dial=surroundings.dial,
            )
            epoch, holder = last[-1]
            with trio.move_on_after(_GIVE_BACK_SECONDS, shield=True):
                await board.publish(volume, epoch=epoch, holder=holder)


def find_member(configuration: Configuration, text: str) -> Member:
    """The member with this address, or whose server's identity begins so. BAD_REQUEST unless there is exactly one."""
    found = [m for m in configuration.members if m.address == text or (text and m.identity.hex().startswith(text))]
    if len(found) == 1:
        return found[0]
    members = ", ".join(f"{member.address} ({member.identity.hex()})" for member in configuration.members)
    count = "none" if not found else "more than one"
    raise refused(JournalCode.BAD_REQUEST, f"{count} of the members is {text[:200]!a}: they are {members}")


def _changed(old: Configuration, leaving: Member | None, joining: Member | None) -> Configuration:
    try:
        if leaving is not None and joining is not None:
            return with_member_replaced(old, leaving, joining)
        if joining is not None:
            return with_member(old, joining)
        assert leaving is not None
        return without_member(old, leaving)
    except ValueError as error:
        raise refused(JournalCode.BAD_REQUEST, f"the members cannot be changed so: {error}") from error


async def _copies(links: MemberLinks, servers: Sequence[str]) -> list[Copy]:
    copies: list[Copy] = []
    failure: SosError | None = None
    for address in servers:
        try:
            copies.append(MemberCopy(await links.at(address), label=address, volume=links.volume))
        except SosError as error:
            failure = error
    if not copies:
        raise UnavailableError(JournalCode.UNAVAILABLE, f"no server of volume {links.volume} answers ({failure})")
    return copies


async def _newcomer(links: MemberLinks, address: str, reader: VolumeReader, progress: Callable[[int], None]) -> Member:
    """A namespace on the new server, filled with the closed segments of the chain. It may have been begun before."""
    with member_errors(address):
        client = await links.at(address)
        info = await client.use(links.volume, create=True)
        filling = Filling(client, links.volume, epoch=info.epoch, holder=info.holder)
        sizes = await filling.sizes()
        known = {link.segment for link in reader.chain.links}
        copy = MemberCopy(client, label=address, volume=links.volume)
        for name in sizes:
            if name.endswith(".seg") and name not in known and await _is_of_another(copy, name, reader):
                message = f"{address} has segments of another volume {links.volume}: {name}"
                raise refused(JournalCode.VOLUME_EXISTS, message)
        for link in reader.chain.links:
            if link.end is not None:
                size = sizes.get(link.segment, (0, False))[0]
                await filling.segment(link, size=size, end=link.end, copies=reader.copies)
                progress(link.end - link.start)
        await _give_snapshots(filling, reader)
    return Member(identity=client.server_identity, incarnation=info.incarnation, address=address)


async def _is_of_another(copy: Copy, name: str, reader: VolumeReader) -> bool:
    """Whether a segment that is not on the chain belongs to no earlier attempt, and was not trimmed since."""
    try:
        record = await read_header(copy, name)
    except DamagedJournalError:
        return True
    return record is not None and decode_segment_header(record.meta).volume_id != reader.header.volume_id


async def _give_snapshots(filling: Filling, reader: VolumeReader) -> None:
    """Those that stand for what was trimmed, and for moments since. What a takeover needs, it gives itself."""
    found = snapshots_on_chain(reader.chain.names, reader.chain.boundaries, lsn=reader.acknowledged_lsn)
    for name in (str(one) for one in found if one.lsn >= reader.header.oldest):
        try:
            data = await whole_snapshot(reader.copies, name)
        except DamagedJournalError:
            continue
        await filling.snapshot(name, data)
