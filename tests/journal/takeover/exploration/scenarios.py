"""Where explorations start, and what may happen in each: small bounds that together cover every rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal.owner.replica_progress import Standing
from journal.records.chain_rules import SegmentFacts
from journal.records.membership import Configuration, Membership
from journal.takeover.takeover import Phase, Takeover
from tests.journal.takeover.exploration.servers import header_item
from tests.journal.takeover.exploration.world import (
    Budget,
    Following,
    Segment,
    Server,
    World,
    Writer,
    configuration,
    member,
)

if TYPE_CHECKING:
    from journal.records.membership import Member


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A volume just born, its owner (writer 0) serving in epoch 1, and what may happen from there on."""

    name: str
    servers: str = "ABC"
    members: str = "ABC"
    acknowledgements: int = 2
    budget: Budget
    changes: tuple[Configuration, ...] = ()  # wished for one after the other
    seeds: tuple[frozenset[Member], ...] = field(default=())
    keep_local: bool = False
    is_fine: bool = False  # questions that change nothing are steps of their own, too
    prelude: tuple[str, ...] = ()  # what has happened before, by the beginnings of the steps' labels
    lagging: str = ""  # members that missed the birth's header: they were cut off just then

    def next_change(self, present: Configuration) -> Configuration | None:
        """What the owner wishes for next."""
        done = self.changes.index(present) + 1 if present in self.changes else 0
        return self.changes[done] if done < len(self.changes) else None

    @property
    def orders(self) -> tuple[str, ...]:
        """In which orders an attempt may deal with the servers: there, back, and turned by one."""
        return (self.servers, self.servers[::-1], self.servers[1:] + self.servers[:1])[: len(self.servers)]

    def start(self) -> World:
        """The world at the beginning."""
        facts = self._birth()
        copy = Segment(facts, (header_item(facts),))
        servers = tuple(
            Server(
                name=name,
                epoch=1 if name in self.members else 0,
                holder=facts.holder if name in self.members else b"",
                segments=(copy,) if name in self.members and name not in self.lagging else (),
            )
            for name in self.servers
        )
        owner = Takeover(
            holder=facts.holder,
            known=frozenset(facts.membership.members),
            phase=Phase.SERVING,
            epoch=1,
            header=facts,
        )
        following = tuple(
            Following(m, Standing.DISCOVERING if m.address in self.lagging else Standing.IN_SYNC, 1)
            for m in facts.membership.members
        )
        first = Writer(
            keeps_local=self.keep_local,
            takeover=owner,
            local=(copy,),
            segment=copy,
            following=following,
            acknowledged=copy.end,
        )
        return World(servers=servers, writers=(first, Writer(keeps_local=self.keep_local)), budget=self.budget)

    def _birth(self) -> SegmentFacts:
        members = configuration(self.members, self.acknowledgements)
        return SegmentFacts(
            name=f"{0:016x}-{1:08x}-birth",
            epoch=1,
            holder=b"0.0",
            start=0,
            trim=0,
            base=None,
            membership=Membership(configuration=members),
            granted=frozenset(members.members),
        )


def _seeds(first: str, second: str) -> tuple[frozenset[Member], ...]:
    return tuple(frozenset(member(name) for name in names) for names in (first, second))


BOTH = _seeds("ABC", "ABC")

# Writer 0's record reaches A alone; writer 1 takes over without A. Then A has a tail after the back-link.
ABANDONED = (
    "0 writes", "0 follows A", "1 starts with ABC", "1 Ask, without A", "1 FenceMember B", "1 FenceMember C",
    "1 Read, without None", "1 assembles", "1 Extend B", "1 Extend C", "1 Write B", "1 Write C",
)  # fmt: skip
# Writer 1 takes over with all three, and all three get its header.
SECOND_EPOCH = (
    "0 writes", "0 follows A", "0 follows B", "0 follows C", "1 starts with ABC", "1 Ask, without None",
    "1 FenceMember A", "1 FenceMember B", "1 FenceMember C", "1 Read, without None", "1 assembles", "1 Extend A",
    "1 Extend B", "1 Write A", "1 Write B", "1 follows C", "1 fills C",
)  # fmt: skip
# C has nothing, and writer 1 takes over without it.
WITHOUT_C = (
    "0 writes", "0 follows A", "0 follows B", "1 starts with ABC", "1 Ask, without C", "1 FenceMember A",
    "1 FenceMember B", "1 Read, without None", "1 assembles", "1 Extend A", "1 Extend B", "1 Write A", "1 Write B",
)  # fmt: skip
# Writer 1 has trimmed the log up to its own segment, with a snapshot of what was before on A and B; C has none.
TRIMMED = (
    *SECOND_EPOCH, "1 gives A the snapshot", "1 gives B the snapshot", "1 adopts", "1 trims", "1 follows A",
    "1 follows B", "1 forgets", "1 deletes on A", "1 deletes on B",
)  # fmt: skip
# And then C, too, has all of it, A is gone, and D takes its place.
WITH_D = (
    *TRIMMED, "1 fills C", "1 deletes on C", "wipes at A", "1 changes members with ABCD", "1 Ask, without None",
    "1 FenceMember B", "1 FenceMember C", "1 FenceMember D", "1 Read, without None", "1 assembles", "1 Extend B",
    "1 Extend C", "1 Write B", "1 Write C", "1 Write B", "1 Write C",
)  # fmt: skip

SCENARIOS = (
    Scenario(name="takeover", seeds=BOTH, budget=Budget(takeovers=1, writes=2, cuts=1)),
    Scenario(name="takeover of a record", seeds=BOTH, prelude=("0 writes", "0 follows A", "0 follows B"),
             budget=Budget(takeovers=1, writes=2, cuts=1)),
    Scenario(name="every order", is_fine=True, seeds=BOTH, budget=Budget(takeovers=1, writes=1, cuts=1)),
    Scenario(name="rivals", seeds=BOTH, budget=Budget(takeovers=2, writes=1)),
    Scenario(name="server crash", seeds=BOTH, budget=Budget(takeovers=1, writes=1, server_crashes=1)),
    Scenario(name="owner crash", seeds=BOTH, budget=Budget(takeovers=1, writes=1, writer_crashes=1, lost_replies=1)),
    Scenario(name="abandoned tail", seeds=BOTH, prelude=ABANDONED, budget=Budget(takeovers=2, writes=2, cuts=1)),
    Scenario(name="wiped server", seeds=BOTH, prelude=("0 writes", "0 follows A", "0 follows B"),
             budget=Budget(takeovers=1, writes=1, wipes=1, cuts=1)),
    Scenario(name="wiped servers", seeds=BOTH, prelude=("0 writes", "0 follows A", "0 follows B"),
             budget=Budget(takeovers=1, writes=1, wipes=2)),
    Scenario(name="rolled-back server", seeds=BOTH, prelude=(*SECOND_EPOCH, "1 writes", "1 follows A", "1 follows B"),
             budget=Budget(takeovers=2, writes=2, rollbacks=1, cuts=1)),
    Scenario(name="damage", seeds=BOTH, prelude=("0 writes", "0 follows A", "0 follows B"),
             budget=Budget(takeovers=1, writes=1, damages=1, cuts=1)),
    Scenario(name="damaged in two places", seeds=BOTH,
             prelude=("0 writes", "0 follows A", "0 follows B", "damages at A 0+1", "damages at B 0+0", "wipes at C"),
             budget=Budget(takeovers=2, writes=2, damages=2, wipes=1, writer_crashes=1, lost_replies=1)),
    Scenario(name="damaged header", seeds=BOTH,
             prelude=(*ABANDONED, "1 writes", "1 follows B", "1 follows C", "damages at B 1+0"),
             budget=Budget(takeovers=2, writes=2, damages=1, cuts=2)),
    Scenario(name="local copy", seeds=BOTH, keep_local=True, budget=Budget(takeovers=1, writes=2, writer_crashes=1)),
    Scenario(name="lagging member", seeds=BOTH, lagging="C", budget=Budget(takeovers=1, writes=1, cuts=1)),
    Scenario(name="lagging after a takeover", seeds=BOTH, lagging="C", prelude=WITHOUT_C,
             budget=Budget(takeovers=2, writes=2, cuts=1)),
    Scenario(name="all must acknowledge", acknowledgements=3, seeds=BOTH, budget=Budget(takeovers=1, writes=1, cuts=2)),
    Scenario(
        name="two of two", servers="AB", members="AB", seeds=_seeds("AB", "AB"),
        budget=Budget(takeovers=2, writes=1, writer_crashes=1),
    ),
    Scenario(
        name="two of two, damage", servers="AB", members="AB", seeds=_seeds("AB", "AB"),
        budget=Budget(takeovers=1, writes=2, damages=2),
    ),
    Scenario(
        name="replace the only member", servers="AB", members="A", acknowledgements=1, changes=(configuration("B", 1),),
        seeds=_seeds("A", "A"), budget=Budget(takeovers=1, writes=1, changes=1, writer_crashes=1, cuts=1),
    ),
    Scenario(
        name="replace one of two", members="AB", changes=(configuration("AC", 2),),
        seeds=_seeds("AB", "C"), budget=Budget(takeovers=1, writes=1, changes=1, cuts=1),
    ),
    Scenario(
        name="add a member", members="A", acknowledgements=1, changes=(configuration("AB", 2),),
        servers="AB", seeds=_seeds("A", "AB"), budget=Budget(takeovers=1, writes=1, changes=1, cuts=1),
    ),
    Scenario(
        name="remove a member", members="AB", changes=(configuration("B", 1),), servers="AB",
        seeds=_seeds("AB", "A"), budget=Budget(takeovers=1, writes=1, changes=1, cuts=1),
    ),
    Scenario(name="trimming", seeds=BOTH, prelude=SECOND_EPOCH, budget=Budget(takeovers=1, writes=2, trims=1)),
    Scenario(name="trimming and taking over", seeds=BOTH, prelude=SECOND_EPOCH[:-2],
             budget=Budget(takeovers=2, writes=1, trims=1)),
    Scenario(name="trimmed log", seeds=BOTH, prelude=TRIMMED, budget=Budget(takeovers=2, writes=2, trims=1, cuts=1)),
    Scenario(name="trimmed log, wiped server", seeds=BOTH, prelude=TRIMMED,
             budget=Budget(takeovers=2, writes=1, trims=1, wipes=1)),
    Scenario(
        name="trimmed log, member by member", servers="ABCD", seeds=_seeds("ABCD", "ABCD"), prelude=WITH_D,
        changes=(configuration("BCD", 2),), budget=Budget(takeovers=2, writes=1, trims=1, changes=1, wipes=2),
    ),
    Scenario(
        name="three of four", servers="ABCD", members="ABCD", acknowledgements=3, seeds=_seeds("ABCD", "ABCD"),
        budget=Budget(takeovers=1, writes=1),
    ),
    Scenario(
        name="two changes", members="AB", changes=(configuration("BC", 2), configuration("AC", 2)),
        seeds=_seeds("AB", "C"), budget=Budget(writes=1, takeovers=0, changes=2),
    ),
    Scenario(
        name="replace one of three", servers="ABCD", changes=(configuration("ABD", 2),),
        seeds=_seeds("ABC", "CD"), budget=Budget(takeovers=1, writes=1, changes=1),
        prelude=("0 writes", "0 follows A", "0 follows B", "0 changes members with ABCD"),
    ),
)  # fmt: skip
