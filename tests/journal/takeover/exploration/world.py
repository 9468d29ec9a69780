"""A small world: servers, writers, what was acknowledged. Values only, hashable, so that equal worlds are one state.

LSNs count items: a header is one item, a record is one. Damage turns an item bad in place; a wipe makes a namespace
again; a roll-back gives a server the disk that it had at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from journal.records.membership import Configuration, Member

if TYPE_CHECKING:
    from journal.owner.replica_progress import Progress, Standing
    from journal.records.chain_rules import SegmentFacts
    from journal.takeover.takeover import Takeover

NO_VALUE = ""


class Item(NamedTuple):
    """A header (value "") or a record, with the chain value after it."""

    value: str
    chain: bytes
    whole: bool = True


class Segment(NamedTuple):
    """One copy. `facts` says what its header says; they can be read only while item 0 is whole."""

    facts: SegmentFacts
    items: tuple[Item, ...]

    @property
    def end(self) -> int:
        return self.facts.start + len(self.items)


class Snapshot(NamedTuple):
    """An index snapshot, sealed: what the log before `lsn` added up to, on the chain that has this value there."""

    lsn: int
    chain: bytes
    history: tuple[tuple[int, str], ...]

    @property
    def name(self) -> str:
        return f"{self.lsn:016x}-{self.chain!r}"


class Server(NamedTuple):
    """One server's namespace."""

    name: str
    is_up: bool = True
    incarnation: int = 0
    epoch: int = 0
    holder: bytes = b""
    segments: tuple[Segment, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()

    @property
    def member(self) -> Member:
        return member(self.name, self.incarnation)

    def segment(self, name: str) -> Segment | None:
        return next((one for one in self.segments if one.facts.name == name), None)

    def with_segment(self, segment: Segment) -> Server:
        others = [one for one in self.segments if one.facts.name != segment.facts.name]
        return self._replace(segments=tuple(sorted([*others, segment], key=lambda one: one.facts.name)))


class Following(NamedTuple):
    """What a serving writer knows of a member."""

    member: Member
    standing: Standing
    synced: int
    snapshots: frozenset[str] = frozenset()

    @classmethod
    def of(cls, progress: Progress) -> Following:
        return cls(progress.member, progress.standing, progress.synced, progress.snapshots)


class Writer(NamedTuple):
    """A slot in which writer processes run one after another. `takeover` None: no process is running."""

    attempts: int = 0
    order: str = ""  # in which its attempt deals with the servers
    takeover: Takeover | None = None
    keeps_local: bool = False
    local: tuple[Segment, ...] = ()  # the slot's local directory: what its processes have written or assembled
    segment: Segment | None = None  # the one being written, once serving
    base: Snapshot | None = None  # the index snapshot that members must hold
    following: tuple[Following, ...] = ()
    acknowledged: int = 0


class Budget(NamedTuple):
    """How often each may still happen."""

    takeovers: int = 1  # in all, by all writers
    writes: int = 1
    changes: int = 0
    trims: int = 0
    writer_crashes: int = 0
    server_crashes: int = 0
    lost_replies: int = 0
    cuts: int = 0  # a request that never arrives, although the server is up
    wipes: int = 0
    damages: int = 0
    rollbacks: int = 0

    def spend(self, what: str) -> Budget | None:
        left = getattr(self, what)
        return self._replace(**{what: left - 1}) if left else None


class World(NamedTuple):
    """Everything."""

    servers: tuple[Server, ...]
    writers: tuple[Writer, ...]
    budget: Budget
    faults: bool = False  # bytes were lost or damaged: a refusal as LOST may be right
    acknowledged: tuple[tuple[int, str], ...] = ()
    owners: tuple[tuple[int, bytes], ...] = ()  # (epoch, holder) that acknowledged something
    served: tuple[int, tuple[tuple[int, str], ...]] = (
        0,
        (),
    )  # the highest epoch that ever served, its log at that time

    def server(self, name: str) -> Server:
        return next(one for one in self.servers if one.name == name)

    def with_server(self, server: Server) -> World:
        return self._replace(servers=tuple(server if one.name == server.name else one for one in self.servers))

    def with_writer(self, slot: int, writer: Writer) -> World:
        return self._replace(writers=(*self.writers[:slot], writer, *self.writers[slot + 1 :]))


def member(name: str, incarnation: int = 0) -> Member:
    """The member that a server's namespace is."""
    return Member(identity=name.encode(), incarnation=str(incarnation).encode(), address=name)


def configuration(names: str, acknowledgements: int) -> Configuration:
    """E.g. ("ABC", 2)."""
    return Configuration(members=tuple(member(name) for name in names), acknowledgements=acknowledgements)
