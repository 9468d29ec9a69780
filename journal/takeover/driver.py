"""Drives a takeover: performs the requests of takeover.py on real members, and gives back what they answered.

Belongs here: connections to members while taking over, who is given up when. No rule of the takeover itself.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.member_filling import Filling
from journal.errors import (
    DamagedJournalError,
    JournalCode,
    JournalError,
    UnavailableError,
)
from journal.image.index_snapshot import encode_snapshot, name_of_snapshot
from journal.records.chain_rules import Base, ChainLink
from journal.records.record import ChainHash, Epoch, Kind, Lsn, Record, encode_record
from journal.records.segment import FORMAT_VERSION, encode_segment_header
from journal.records.settings import monotonic_ms
from journal.records.timekeeping import Timekeeper
from journal.takeover.chain_end import (
    Assembly,
    CopySilentError,
    StandingSnapshot,
    assemble,
    image_of,
    read_holdings,
    standing_snapshots,
)
from journal.takeover.member_links import MemberLinks, find_members
from journal.takeover.messages import (
    Ask,
    Assemble,
    Assembled,
    Extend,
    Extended,
    FenceMember,
    Gone,
    Granted,
    MemberAnswer,
    NotAssembled,
    Overtaken,
    Read,
    Reason,
    Request,
    Silent,
    Told,
    Write,
    Written,
)
from journal.takeover.takeover import Phase, Takeover
from journal.takeover.wording import given_up, meaning_of, refusal_of
from sos_client.nurseries import background, beside
from sos_client.wire.errors import RefusedError, SosError
from sos_client.wire.holders import shown_holder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from journal.copies.copies import Copy, MemberCopy
    from journal.copies.local_log import LocalLog
    from journal.image.image import Image
    from journal.image.index_snapshot import SnapshotObject
    from journal.records.chain_rules import SegmentFacts
    from journal.records.membership import Configuration, Member
    from journal.records.record import RecordHeader
    from journal.records.segment import SegmentHeader
    from journal.records.settings import Surroundings
    from sos_client.client import SosClient

ATTEMPTS_MAX: Final = 5  # two services that start at once get in each other's way; jittered pauses let one win
BUILDS_MAX: Final = 3  # a connection that breaks while the image is read is not a loss: it is tried again
ACCEPTED_LOSS_MAX: Final = 1000  # characters of the header's sentence about it


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Where a takeover has left the log: the header just written, and what lies before it.

    `holder` is what members were claimed with, a secret; the header shows a digest of it.
    """

    segment: SegmentHeader
    holder: bytes
    links: tuple[ChainLink, ...]  # oldest first; the last one is the segment's
    lsn: Lsn
    chain: ChainHash


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """What a takeover leaves to the writer."""

    end: LogEnd
    image: Image
    timekeeper: Timekeeper
    snapshots: tuple[SnapshotObject, ...]  # what stands for what was trimmed: each member must hold them
    damaged: frozenset[Member]  # members whose copy of the last segment is not whole


async def take_over(
    links: MemberLinks,
    servers: Sequence[str],
    local: LocalLog,
    surroundings: Surroundings,
    *,
    change: Configuration | None = None,
    accept_loss: bool = False,
    unless_above: int | None = None,
    claimed: Callable[[int, bytes], None] = lambda _epoch, _holder: None,
) -> TakenOver:
    """Become the volume's owner. JournalError says who is missing, who else is at it, or what is lost.

    `accept_loss` goes on with the members that answer alone, and ends the log before the first record that none of
    them has whole: what was acknowledged after it is given up, and the new header says so. `unless_above`: nothing is
    done, and NOT_OWNER raised, if somebody has a newer claim than that when this begins. `claimed` is told each
    claim before members are fenced for it: whoever had the volume may have lost it then, whatever comes of the attempt.
    """
    known = await find_members(links, servers)
    attempt = 0
    while True:
        attempt += 1
        holder = surroundings.chance.randbytes(16)
        driver = _Driver(links, local, surroundings, holder, claimed)
        state = await driver.run(
            Takeover(
                holder=shown_holder(holder),
                known=known,
                change=change,
                unless_above=unless_above if attempt == 1 else None,
                accept_loss=accept_loss,
            )
        )
        if state.phase is Phase.SERVING:
            return await driver.opened()
        assert state.refusal is not None
        known |= state.known
        if state.refusal.reason is not Reason.OVERTAKEN or not state.epoch or attempt == ATTEMPTS_MAX:
            raise refusal_of(links.volume, state)
        await trio.sleep(surroundings.chance.random() * 0.2 * attempt)


class _Driver:
    """One attempt."""

    def __init__(
        self,
        links: MemberLinks,
        local: LocalLog,
        surroundings: Surroundings,
        holder: bytes,
        claimed: Callable[[int, bytes], None],
    ) -> None:
        self._claimed = claimed
        self._links = links
        self._local = local
        self._surroundings = surroundings
        self._headers: dict[str, SegmentHeader] = {}  # every whole header seen
        self._assembly: Assembly | None = None
        self._written: dict[str, tuple[Record, bytes]] = {}  # the headers that this attempt writes
        self._image: Image | None = None  # at the assembly's end
        self._snapshots: list[StandingSnapshot] = []
        self._timekeeper = Timekeeper(0)
        self._holder = holder
        self._accept_loss = False
        self._given_up = ""  # with accepted loss: which members
        self._epoch = 0
        self._mended: set[str] = set()  # labels of copies whose last segment was written again

    async def run(self, state: Takeover) -> Takeover:
        """Perform requests until the attempt has come to an end."""
        self._accept_loss = state.accept_loss
        under_way: set[Request] = set()
        send, receive = trio.open_memory_channel[tuple[Request, MemberAnswer]](64)
        async with background() as nursery:
            while state.phase not in (Phase.SERVING, Phase.REFUSED):
                if state.epoch and state.epoch != self._epoch:
                    self._claimed(state.epoch, self._holder)
                self._epoch = state.epoch
                if state.survivors is not None:
                    self._given_up = given_up(state)
                for request in sorted(state.requests() - under_way, key=repr):  # so that runs can be repeated
                    under_way.add(request)
                    nursery.start_soon(self._perform, request, send)
                request, answer = await receive.receive()
                under_way.discard(request)
                state = state.receive(answer)
        return state

    async def opened(self) -> TakenOver:
        """The log's end and the image there, after the attempt has succeeded."""
        assembly, image = self._assembly, self._image
        assert assembly is not None
        assert image is not None
        if self._local.copy is not None:  # with it the directory can be looked into by itself, from here on
            snapshot_name, twin = name_of_snapshot(image, epoch=Epoch(self._epoch)), image.copy()
            self._local.store_later(str(snapshot_name), lambda: beside(twin.item_count, lambda: encode_snapshot(twin)))
        chain_links = [dataclasses.replace(assembly.links[-1], end=assembly.end.end)]
        chain_links = [*assembly.links[:-1], *chain_links]
        for record, data in self._written.values():
            image.apply_record(record)
            await self._local.store(str(_segment_of(image).name), data)
            chain_links[-1] = dataclasses.replace(chain_links[-1], end=record.header.lsn)
            chain_links.append(ChainLink(segment=str(_segment_of(image).name), start=record.header.lsn, end=None))
        end = LogEnd(
            segment=_segment_of(image),
            holder=self._holder,
            links=tuple(chain_links),
            lsn=image.lsn,
            chain=image.chain,
        )
        damaged = assembly.damaged - self._mended
        return TakenOver(
            end=end,
            image=image,
            timekeeper=self._timekeeper,
            snapshots=tuple(one.stored for one in self._snapshots),
            damaged=frozenset(m for m in end.segment.membership.members if str(m) in damaged),
        )

    async def _perform(self, request: Request, send: trio.MemorySendChannel[tuple[Request, MemberAnswer]]) -> None:
        if isinstance(request, Assemble):
            answer = await self._assemble(request)
        else:
            try:
                client = await self._links.of(request.member)
                answer = await self._ask(request, client)
            except RefusedError as error:
                answer = meaning_of(request, error)
            except JournalError as error:
                if error.code is JournalCode.TOO_NEW:
                    raise
                answer = Silent(member=request.member)
            except SosError:
                answer = Silent(member=request.member)
        await send.send((request, answer))

    async def _ask(self, request: Request, client: SosClient) -> MemberAnswer:
        volume = self._links.volume
        match request:
            case Ask(member=member) | Read(member=member):
                return await self._tell(member, client)
            case FenceMember(member=member, epoch=epoch):
                await client.fence(volume, epoch, self._holder)
                return Granted(member=member)
            case Extend(member=member, end=end):
                return await self._extend(member, client, end)
            case Write(member=member, facts=facts):
                record, data = self._header(facts)
                filling = Filling(client, volume, epoch=self._epoch, holder=self._holder)
                size, _ = (await filling.sizes()).get(facts.name, (0, False))
                await filling.whole(facts.name, data, size=size)
                end = Base(segment=facts.name, end=record.header.end_lsn, chain=record.header.chain)
                return Written(member=member, end=end)
            case _:
                raise AssertionError(request)

    async def _tell(self, member: Member, client: SosClient) -> MemberAnswer:
        if (await client.use(self._links.volume)).incarnation != member.incarnation:
            return Gone(member=member)
        holdings = await read_holdings(self._links.copy_of(member, client), self._headers)
        # Asked after the headers were read: if the claim is ours now, it was ours while they were.
        epoch = (await client.use(self._links.volume)).epoch
        facts = frozenset(header.facts for header in holdings.headers.values())
        return Told(member=member, epoch=epoch, facts=facts, damaged=holdings.damaged, doubtful=holdings.doubtful)

    async def _assemble(self, request: Assemble) -> MemberAnswer:
        copies: dict[MemberCopy, Member] = {}
        for member in sorted(request.members):
            try:
                copies[self._links.copy_of(member, await self._links.of(member))] = member
            except SosError:
                return Silent(member=member)
        try:
            self._assembly = await assemble(
                request.facts, list(copies), self._local.copy, accept_loss=self._accept_loss
            )
        except DamagedJournalError as error:
            if error.code is JournalCode.TOO_NEW:
                raise
            lsn = error.fields.get("lsn")
            lost = NotAssembled(lsn=lsn if isinstance(lsn, int) else 0, reason=error.message)
            return await self._overtaken(copies) or lost
        except CopySilentError as error:
            return Silent(member=next(member for copy, member in copies.items() if copy is error.copy))
        last = self._headers[self._assembly.links[-1].segment]
        self._timekeeper = Timekeeper(
            self._assembly.time_ms, last.paused_ms, self._surroundings.asleep_ms, self._links.ahead_ms()
        )
        return await self._build(self._assembly, copies)

    async def _build(self, assembly: Assembly, copies: dict[MemberCopy, Member]) -> MemberAnswer:
        """The image at the end, before anything is written: a volume that cannot be shown gets no new owner."""
        local = self._local.copy
        every: list[Copy] = [*([] if local is None else [local]), *copies]
        for left in reversed(range(BUILDS_MAX)):
            try:
                self._image = await image_of(self._links.volume, assembly, self._headers, every)
                self._snapshots = await standing_snapshots(assembly, self._headers, local)
                break
            except JournalError as error:
                if error.code is JournalCode.TOO_NEW:
                    raise
                silent = await _first_silent(copies)
                if silent is not None:
                    return Silent(member=silent)
                if not left and isinstance(error, UnavailableError):
                    return Silent(member=min(copies.values()))
                if not left:
                    lost = NotAssembled(lsn=assembly.links[0].start, reason=error.message)
                    return await self._overtaken(copies) or lost
        return Assembled(end=assembly.end)

    async def _overtaken(self, copies: dict[MemberCopy, Member]) -> MemberAnswer | None:
        """Before anything is called a loss: a newer owner may have trimmed it, which is none. None: there is none."""
        for copy, member in copies.items():
            try:
                epoch = (await copy.claim()).epoch
            except JournalError:
                return Silent(member=member)
            if epoch > self._epoch:
                return Overtaken(member=member, epoch=epoch)
        return None

    async def _extend(self, member: Member, client: SosClient, end: Base) -> MemberAnswer:
        assembly = self._assembly
        assert assembly is not None
        copies = [] if self._local.copy is None else [self._local.copy]
        others = [one for one in assembly.copies if one.label != str(member)]
        is_damaged = str(member) in assembly.damaged - self._mended
        filling = Filling(client, self._links.volume, epoch=self._epoch, holder=self._holder)
        sizes = await filling.sizes()
        for link in assembly.links:
            size, sealed = sizes.get(link.segment, (0, False))
            stop = assembly.end.end if link.end is None else link.end
            if (is_damaged and link.end is None) or (sealed and link.start + size < stop):
                await filling.write_again(link, end=stop, copies=[*copies, *assembly.copies])
            elif not sealed:
                known = assembly.known_before(link.start + size) if link.end is None else None
                await filling.segment(link, size=size, end=stop, copies=[*copies, *others], known=known)
        for one in self._snapshots:
            if one.data is not None:
                await filling.snapshot(one.stored.name, one.data)
        await self._extend_headers(filling, sizes, end)
        self._mended.add(str(member))
        return Extended(member=member)

    async def _extend_headers(self, filling: Filling, sizes: dict[str, tuple[int, bool]], end: Base) -> None:
        """The headers of this attempt that lie before `end`: while members change, the first of two."""
        for name, (record, data) in self._written.items():
            if record.header.lsn < end.end:
                await filling.whole(name, data, size=sizes.get(name, (0, False))[0])

    def _accepted_loss(self) -> str:
        """What an operator has given up, for the header; empty if nothing."""
        if not self._accept_loss:
            return ""
        assert self._assembly is not None
        return "; ".join(part for part in (self._given_up, self._assembly.given_up) if part)[:ACCEPTED_LOSS_MAX]

    def _header(self, facts: SegmentFacts) -> tuple[Record, bytes]:
        """The same header record for every member."""
        if facts.name not in self._written:
            assert facts.base is not None
            previous = self._headers[facts.base.segment]
            readings = self._surroundings.wall_ms(), monotonic_ms()
            time_ms = self._timekeeper.next_ms(*readings)
            header = dataclasses.replace(
                previous,
                membership=self._links.where_found(facts.membership),
                epoch=Epoch(facts.epoch),
                holder=facts.holder,
                granted=facts.granted,
                base=facts.base,
                trim=Lsn(facts.trim),
                accepted_loss=self._accepted_loss(),
                paused_ms=time_ms - self._timekeeper.lived_ms(*readings),
                format_version=FORMAT_VERSION,
            )
            record, data = header_record(header, time_ms=time_ms)
            self._headers[facts.name] = header
            self._written[facts.name] = record, data
        return self._written[facts.name]


async def _first_silent(copies: dict[MemberCopy, Member]) -> Member | None:
    for copy, member in copies.items():
        try:
            await copy.claim()
        except JournalError:
            return member
    return None


def header_record(header: SegmentHeader, *, time_ms: int) -> tuple[Record, bytes]:
    """A segment's first record, as a value and as bytes."""
    meta = encode_segment_header(header)
    data, fields = _encode(header, meta, time_ms)
    return Record(header=fields, meta=meta, payload=b""), data


def _encode(header: SegmentHeader, meta: bytes, time_ms: int) -> tuple[bytes, RecordHeader]:
    return encode_record(
        kind=Kind.HEADER,
        lsn=header.start,
        acknowledged_lsn=header.start,
        time_ms=time_ms,
        meta=meta,
        chain=ChainHash(header.chain_before),
    )


def _segment_of(image: Image) -> SegmentHeader:
    assert image.segment is not None
    return image.segment
