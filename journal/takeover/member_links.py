"""Connections to a volume's members while nobody owns it here yet: for a birth, a takeover, a change of members.

Belongs here: opening them once each, finding members by address, following a server that has moved. Replication has
connections of its own (replica.py).
"""

from __future__ import annotations

import dataclasses
from contextlib import asynccontextmanager
from statistics import median_low
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.copies import MemberCopy
from journal.errors import JournalCode, UnavailableError, refused
from journal.member_errors import meaning_of
from journal.records.membership import Configuration, Member, Membership
from sos_client.nurseries import background, together
from sos_client.wire.errors import ErrorCode, RefusedError, SosError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from journal.records.settings import Surroundings
    from sos_client.client import SosClient


APART_MS: Final = 60_000
"""Machines whose clocks are kept right are never so far apart, and a connection does not take so long."""


class MemberLinks:
    """Connections to members, made when first needed, kept until the end of the block."""

    def __init__(self, volume: str, surroundings: Surroundings, nursery: trio.Nursery) -> None:
        self.volume = volume
        self._surroundings = surroundings
        self._nursery = nursery
        self._clients: dict[str, SosClient] = {}
        self._addresses: dict[bytes, str] = {}  # where each server was found, which may not be where a header says
        self._opening: dict[str, trio.Lock] = {}
        self._ahead_ms: dict[str, int] = {}  # how far our clock was ahead of each server's when it said its own

    async def at(self, address: str) -> SosClient:
        """A client of whichever server answers there."""
        async with self._opening.setdefault(address, trio.Lock()):
            if address not in self._clients:
                client: SosClient = await self._nursery.start(self._hold, address)
                self._clients[address] = client
                self._ahead_ms[address] = self._surroundings.wall_ms() - int(client.server_time * 1000)
                self._addresses.setdefault(client.server_identity, address)
            return self._clients[address]

    async def of(self, member: Member) -> SosClient:
        """A client of the member's server. ConnectionLostError and the like if it is not to be found."""
        client = await self.at(self._addresses.get(member.identity, member.address))
        if client.server_identity != member.identity:
            raise SosError(f"the server at {member} is another one than the volume's member")
        return client

    def where_found(self, membership: Membership) -> Membership:
        """The same members, with the addresses at which their servers answered."""
        replaces = membership.replaces
        return Membership(
            configuration=self._relocated(membership.configuration),
            replaces=None if replaces is None else self._relocated(replaces),
        )

    def _relocated(self, configuration: Configuration) -> Configuration:
        members = (
            dataclasses.replace(member, address=self._addresses.get(member.identity, member.address))
            for member in configuration.members
        )
        return dataclasses.replace(configuration, members=tuple(members))

    def ahead_ms(self) -> int:
        """How far our wall clock is ahead of those of most servers that have answered; 0 if that may be chance."""
        ahead_ms = median_low(self._ahead_ms.values()) if self._ahead_ms else 0
        return ahead_ms if ahead_ms >= APART_MS else 0

    async def _hold(self, address: str, *, task_status: trio.TaskStatus[SosClient]) -> None:
        """A client belongs to the task that opened it, whoever uses it."""
        async with self._surroundings.open_member(address) as client:
            task_status.started(client)
            await trio.sleep_forever()

    def copy_of(self, member: Member, client: SosClient) -> MemberCopy:
        return MemberCopy(client, label=str(member), volume=self.volume)


@asynccontextmanager
async def member_links(volume: str, surroundings: Surroundings) -> AsyncIterator[MemberLinks]:
    """Connections for one takeover or birth."""
    async with background() as nursery:
        yield MemberLinks(volume, surroundings, nursery)


async def find_members(links: MemberLinks, servers: Sequence[str]) -> frozenset[Member]:
    """The volume's namespaces on these servers. VOLUME_NOT_FOUND if none of those that answer has it, UNAVAILABLE."""
    found: set[Member] = set()
    problems: dict[str, Exception] = {}

    async def look(address: str) -> None:
        try:
            client = await links.at(address)
            info = await client.use(links.volume)
        except SosError as error:
            problems[address] = error
        else:
            found.add(Member(identity=client.server_identity, incarnation=info.incarnation, address=address))

    async with together() as nursery:
        for address in servers:
            nursery.start_soon(look, address)
    if found:
        return frozenset(found)
    refusals = {address: one for address, one in problems.items() if isinstance(one, RefusedError)}
    for address, refusal in refusals.items():
        if refusal.code in (ErrorCode.AUTH, ErrorCode.DENIED):
            raise meaning_of(refusal, address)
    if any(one.code is ErrorCode.NOT_FOUND for one in refusals.values()):
        raise refused(
            JournalCode.VOLUME_NOT_FOUND,
            f"there is no volume {links.volume} on the servers that answer; `sos-journal create` makes one",
            volume=links.volume,
        )
    reasons = "; ".join(f"{address}: {error}" for address, error in sorted(problems.items()))
    raise UnavailableError(JournalCode.UNAVAILABLE, f"no server of volume {links.volume} answers ({reasons})")
