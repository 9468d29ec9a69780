"""All members of a volume, as its owner sees them: who follows, from whom to read, when to stop.

Belongs here: starting replicas, the owner's end. What each replica does is in replica.py.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode, JournalError, SupersededError
from journal.owner.replica import Replica
from journal.owner.replica_progress import Standing
from journal.statistics import MemberStatistics
from sos_client.wire.errors import SosError
from sos_client.wire.holders import shown_holder

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from journal.copies.copies import Copy, MemberCopy
    from journal.copies.local_log import LocalLog
    from journal.owner.log import Log
    from journal.records.chain_rules import ChainLink
    from journal.records.membership import Member
    from journal.records.settings import JournalSettings, Surroundings
    from sos_client.client import SosClient

_DAMAGED: Final = "it does not count until they are mended from other copies"
_DOUBT_SECONDS: Final = 10.0  # longer than a server's restart: then an owner that was fenced somewhere gives up waiting
_LOOK_SECONDS: Final = 1.0
_CLAIM_SECONDS: Final = 2.0  # a client waits for it, and asks again
_PROBLEMS_MAX: Final = 300  # characters, in an error's message
_CONNECT_SECONDS: Final = 10.0  # a reader of what is not local waits this long for the first member after opening


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """One member, for `status`."""

    member: Member
    standing: Standing
    synced: int
    lag_bytes: int
    problem: str | None


class ReplicaSet:
    """The members of the configuration that this owner serves under."""

    def __init__(
        self,
        volume: str,
        log: Log,
        local: LocalLog,
        *,
        settings: JournalSettings,
        surroundings: Surroundings,
        damaged: frozenset[Member],
    ) -> None:
        """`damaged`: members whose records were seen damaged by the takeover."""
        self._volume = volume
        self._log = log
        self._local = local
        self._events = surroundings.log
        self._damaged = damaged
        self.stopped = trio.Event()  # a newer owner has taken so many members that this one cannot go on
        self._connected = trio.lowlevel.ParkingLot()
        self.replicas = {
            member: Replica(
                member,
                log,
                volume=volume,
                settings=settings,
                surroundings=surroundings,
                doubtful=_just_before(log) if member in damaged else (),
                sources=self.sources,
                on_connected=self._connected.unpark_all,
                on_fenced=self._fenced,
            )
            for member in log.progress.members
        }

    def start(self, nursery: trio.Nursery) -> None:
        """Follow, until the nursery is cancelled."""
        for replica in self.replicas.values():
            nursery.start_soon(replica.run)
        nursery.start_soon(self._give_up_in_doubt)
        for member in self._damaged:
            self._events.error("a member has damaged records", member=member, meaning=_DAMAGED)

    def sources(self) -> list[Copy]:
        """Copies to read from, the nearest first."""
        local = self._local.copy
        return [*([] if local is None else [local]), *self.copies().values()]

    def copies(self) -> dict[Member, MemberCopy]:
        """Of the members that answer, those in sync first."""
        return {replica.member: replica.copy for replica in self.connected() if replica.copy is not None}

    async def wait_connected(self) -> None:
        """Until some member answers, or for so long that one would have."""
        with trio.move_on_after(_CONNECT_SECONDS):
            while not any(one.client is not None for one in self.replicas.values()):
                await self._connected.park()

    def connected(self) -> Iterator[Replica]:
        """Members that answer, those in sync first."""
        yield from sorted(
            (one for one in self.replicas.values() if one.client is not None), key=lambda one: not one.is_in_sync
        )

    async def still_have_the_claim(self) -> bool:
        """Whether so many members have this owner's claim now that no newer owner's takeover can have ended before."""
        holding: list[Member] = []

        async def ask(member: Member, client: SosClient) -> None:
            with suppress(SosError):
                if (await client.use(self._volume)).epoch == self._log.epoch:
                    holding.append(member)
            if self._log.progress.is_durable_on(holding):
                nursery.cancel_scope.cancel()

        with trio.move_on_after(_CLAIM_SECONDS):
            async with trio.open_nursery() as nursery:
                for replica in self.connected():
                    assert replica.client is not None
                    nursery.start_soon(ask, replica.member, replica.client)
        return self._log.progress.is_durable_on(holding)

    def problems(self) -> str:
        """Why members do not follow, in words."""
        return "; ".join(one.problem for one in self.replicas.values() if one.problem)[:_PROBLEMS_MAX]

    def status(self) -> list[MemberStatus]:
        """How far each member has come."""
        log = self._log
        return [
            MemberStatus(
                member=member,
                standing=progress.standing,
                synced=progress.synced,
                lag_bytes=max(0, log.end - progress.synced),
                problem=self.replicas[member].problem,
            )
            for member, progress in log.progress.members.items()
        ]

    def statistics(self, uncleaned: Set[str]) -> tuple[MemberStatistics, ...]:
        """The same in numbers, for metrics; `uncleaned`: addresses of those where something is left to delete."""
        return tuple(
            MemberStatistics(
                address=one.member.address,
                in_sync=one.standing is Standing.IN_SYNC,
                lag_bytes=one.lag_bytes,
                uncleaned=one.member.address in uncleaned,
            )
            for one in self.status()
        )

    def _fenced(self) -> None:
        if self._log.progress.must_stop():
            self._stop()

    async def _give_up_in_doubt(self) -> None:
        """Once fenced by some members, and with too few others for long: whoever asks must not be kept waiting here."""
        since = trio.current_time()
        while True:
            await trio.sleep(_LOOK_SECONDS)
            now = trio.current_time()
            if not self._log.progress.is_in_doubt():
                since = now
            elif now - since >= _DOUBT_SECONDS:
                self._stop()
                return

    def _stop(self) -> None:
        if not self.stopped.is_set():
            self._events.error("stopped", reason=self.why_stopped())
            self._log.stop(self.why_stopped)
            self.stopped.set()

    def why_stopped(self) -> JournalError:
        """Who has the volume now."""
        claim = self._log.progress.newest_claim()
        epoch = 0 if claim is None else claim.epoch
        holder = "" if claim is None else shown_holder(claim.holder).hex()
        sure = self._log.progress.must_stop()
        what = "has a newer owner" if sure else "seems to have a newer owner, and too few members follow this one"
        return SupersededError(
            JournalCode.NOT_OWNER,
            f"volume {self._volume} {what} (epoch {epoch}, holder {holder}); this one had epoch "
            f"{self._log.epoch}, holder {shown_holder(self._log.holder).hex()}",
            epoch=epoch,
            holder=holder,
        )


def _just_before(log: Log) -> tuple[ChainLink, ...]:
    """The segments that this owner assembled its log's end from (a change of members opens two)."""
    return tuple(link for link in log.links[-3:] if link.end is not None)
