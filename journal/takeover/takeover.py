"""Becoming a volume's owner: takeover and change of members as one pure state machine.

Belongs here: whom to ask for what, what each answer means, when to go on, when to refuse. Inputs are answers of
members, outputs are requests to send. The argument for its safety is docs/takeover.md;
tests/journal/takeover/exploration tries every interleaving of a small world.
Does not belong here: connections, time, bytes, and the rules by which it decides (rules.py). Whoever drives it decides
when a silent member is given up.

    ASKING      everybody whom any header names: claim, headers. Nothing is changed yet
    FENCING     claim epoch = highest seen + 1; a member that granted it is read again: nothing changes there any more
    ASSEMBLING  the chain's end, from all copies that answered
    EXTENDING   members that granted are brought up to that end
    WRITING     the new header, to members that hold everything up to it
    SETTLING    only when members change: a second header, which names the new configuration alone
    SERVING     the header is durable: this holder is the owner

A member's answers are taken at any time; late ones of an earlier step are harmless.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from journal.records.chain_rules import Base, SegmentFacts, newest
from journal.records.membership import Configuration, Member, Membership, can_change, is_durable, majority
from journal.records.record import Epoch, Lsn
from journal.records.segment import SegmentName
from journal.takeover import rules
from journal.takeover.messages import (
    Ask,
    Assemble,
    Assembled,
    Early,
    Extend,
    Extended,
    Failing,
    FenceMember,
    Full,
    Gone,
    Granted,
    MemberAnswer,
    NotAssembled,
    Overtaken,
    Read,
    Reason,
    Request,
    Silent,
    TakeoverRefusal,
    Told,
    Write,
    Written,
)


class Phase(Enum):
    """See the module's table."""

    ASKING = "asking"
    FENCING = "fencing"
    ASSEMBLING = "assembling"
    EXTENDING = "extending"
    WRITING = "writing"
    SETTLING = "settling"
    SERVING = "serving"
    REFUSED = "refused"


_NOBODY: frozenset[Member] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """One attempt. Immutable: `receive` returns the next state. An attempt that ended is not revived; start another."""

    holder: bytes  # as names and headers show it: what members are claimed with is a secret
    known: frozenset[Member]  # of the command line, and of every header seen so far
    change: Configuration | None = None  # the owner's wish to change the members
    unless_above: int | None = None  # do nothing if somebody has a newer claim than this, or a header
    accept_loss: bool = False  # an operator says: go on with whoever answers, whatever else there was
    survivors: Configuration | None = None  # with accepted loss: who answered
    phase: Phase = Phase.ASKING
    epoch: int = 0  # ours, from FENCING on
    highest: int = 0  # epoch of any claim or header seen
    facts: frozenset[SegmentFacts] = frozenset()  # of every header seen: they say who has a say
    answered: frozenset[Member] = _NOBODY  # told us, as themselves
    claims: frozenset[tuple[Member, int]] = frozenset()  # as told before we claimed
    silent: frozenset[Member] = _NOBODY
    gone: frozenset[Member] = _NOBODY
    refusing: frozenset[Member] = _NOBODY  # claimed by somebody newer
    failing: frozenset[Member] = _NOBODY  # of the silent, who say that their disks have failed
    full: frozenset[Member] = _NOBODY
    headless: frozenset[SegmentName] = frozenset()  # segments whose header some copy has damaged
    spent: frozenset[Member] = _NOBODY  # claimed with the last epoch that a header can have: no owner can claim them
    early: frozenset[Member] = _NOBODY  # their clocks do not let them take our claim yet
    granted: frozenset[Member] = _NOBODY
    reads: frozenset[Told] = frozenset()  # what members told us after they granted: only this makes the chain
    end: Base | None = None
    extended: frozenset[Member] = _NOBODY
    header: SegmentFacts | None = None  # the one being written
    written: frozenset[Member] = _NOBODY
    header_end: Base | None = None
    refusal: TakeoverRefusal | None = None

    @property
    def membership(self) -> Membership:
        """Who has a say: what the newest header says, and the configuration wished for."""
        if self.survivors is not None:
            return Membership(configuration=self.survivors)
        found = newest(self.facts).membership
        if self.change is None or self.change == found.configuration:
            return found
        return Membership(configuration=self.change, replaces=found.configuration)

    @property
    def lost(self) -> frozenset[Member]:
        """Members that have forgotten: gone, or with a claim older than a header says they granted."""
        return self.gone | {member for member, epoch in self.claims if rules.is_rolled_back(member, epoch, self.facts)}

    @property
    def read(self) -> frozenset[Member]:
        """Members that granted our claim, were read after that, and still answer."""
        return frozenset(told.member for told in self.reads) - self._out

    @property
    def chain_facts(self) -> frozenset[SegmentFacts]:
        """The headers on members that were read and still answer. What others had cannot have been acknowledged."""
        return frozenset(one for told in self.reads if told.member not in self._out for one in told.facts)

    def requests(self) -> frozenset[Request]:
        """Everything that may be sent now, in any order or at once. Sending a request again is harmless."""
        if self.phase is Phase.ASKING:
            return frozenset(Ask(member=m) for m in self.known - self.answered - self._out)
        if self.phase is Phase.FENCING:
            return frozenset(
                Read(member=m) if m in self.granted else FenceMember(member=m, epoch=self.epoch)
                for m in self._to_fence - self.read - self._out
            )
        if self.phase is Phase.ASSEMBLING:
            return frozenset({Assemble(facts=self.chain_facts, members=self.read)})
        if self.phase in (Phase.EXTENDING, Phase.WRITING, Phase.SETTLING):
            return frozenset(self._to_extend() + self._to_write())
        return frozenset()

    def receive(self, answer: MemberAnswer) -> Takeover:
        """The state after this answer."""
        if self.phase in (Phase.SERVING, Phase.REFUSED):
            return self
        return _advance(_note(self, answer))

    @property
    def _concerned(self) -> Membership:
        """Who has a say in the header being written; before there is one, who has a say at all."""
        return self.membership if self.header is None else self.header.membership

    @property
    def _out(self) -> frozenset[Member]:
        """This attempt has no more use for it."""
        return self.silent | self.gone | self.refusing | self.full | self.spent | self.early

    @property
    def _to_fence(self) -> frozenset[Member]:
        return self.answered.intersection(self.membership.members)

    def _to_extend(self) -> list[Request]:
        assert self.end is not None
        candidates = self.read.intersection(self._concerned.members)
        return [Extend(member=m, end=self.end) for m in candidates - self.extended - self._out]

    def _to_write(self) -> list[Request]:
        if self.header is None:
            return []
        targets = rules.header_targets(self.header.membership, self.extended)
        return [Write(member=m, facts=self.header) for m in targets - self.written - self._out]


# ---------------------------------------------------------------------------------------------- transitions


def _note(state: Takeover, answer: MemberAnswer) -> Takeover:
    """Remember what was answered."""
    match answer:
        case Told():
            return _told(state, answer)
        case Gone(member=member):
            return replace(state, gone=state.gone | {member})
        case Silent(member=member):
            return replace(state, silent=state.silent | {member})
        case Failing(member=member):
            return replace(state, silent=state.silent | {member}, failing=state.failing | {member})
        case Full(member=member):
            return replace(state, full=state.full | {member})
        case Granted(member=member):
            return replace(state, granted=state.granted | {member})
        case Overtaken(member=member, epoch=epoch):
            return replace(state, refusing=state.refusing | {member}, highest=max(state.highest, epoch))
        case Early(member=member):
            return replace(state, early=state.early | {member})
        case Assembled(end=end):
            return replace(state, end=end)
        case NotAssembled(lsn=lsn, reason=reason):
            return _refuse(state, Reason.LOST, lsn=lsn, detail=reason)
        case Extended(member=member):
            return replace(state, extended=state.extended | {member})
        case _:
            assert isinstance(answer, Written)
            return replace(state, written=state.written | {answer.member}, header_end=answer.end)


def _told(state: Takeover, told: Told) -> Takeover:
    if state.phase is not Phase.ASKING and rules.is_newer(told, state.epoch):
        return replace(state, refusing=state.refusing | {told.member}, highest=max(state.highest, told.epoch))
    facts, known = state.facts | told.facts, state.known | rules.members_named(told.facts)
    if rules.is_spent(told.epoch):
        return replace(state, facts=facts, known=known, spent=state.spent | {told.member})
    return replace(
        state,
        facts=facts,
        known=known,
        highest=max(state.highest, told.epoch, *(one.epoch for one in told.facts), 0),
        answered=state.answered | {told.member},
        headless=state.headless | told.damaged,
        claims=state.claims | {(told.member, told.epoch)} if state.phase is Phase.ASKING else state.claims,
        reads=state.reads | {told} if told.member in state.granted else state.reads,
    )


def _advance(state: Takeover) -> Takeover:
    """Take every step that the answers allow."""
    step = _STEPS.get(state.phase)
    after = state if step is None else step(state)
    return after if after is state else _advance(after)


def _after_asking(state: Takeover) -> Takeover:
    if state.requests():
        return state
    if not state.facts:
        return _refuse(state, Reason.MISSING if state.silent else Reason.NO_HEADER)
    if state.unless_above is not None and state.highest > state.unless_above:
        return _refuse(state, Reason.OVERTAKEN)
    if not _change_allowed(state):
        return _refuse(state, Reason.CHANGE)
    if state.accept_loss and state.survivors is None:
        return _with_survivors(state)
    if not rules.may_fence(state):
        return _refuse(state, Reason.MISSING)
    return replace(state, phase=Phase.FENCING, epoch=rules.next_epoch(state))


def _with_survivors(state: Takeover) -> Takeover:
    """Go on with the members that answer, of those that the newest header names."""
    found = newest(state.facts).membership.members
    members = tuple(member for member in found if member in state.answered)
    if not members:
        return _refuse(state, Reason.MISSING)
    survivors = Configuration(members=members, acknowledgements=majority(len(members)))
    return replace(state, survivors=survivors)


def _change_allowed(state: Takeover) -> bool:
    if state.change is None:
        return True
    found = newest(state.facts).membership
    return found.replaces is None and can_change(found.configuration, state.change)


def _after_fencing(state: Takeover) -> Takeover:
    if not state.known <= state.answered | state.gone | state.silent | state.spent:
        return _start_over(state)
    if state.requests():
        return state
    if not rules.may_assemble(state):
        return _stuck(state)
    if rules.unreadable(state) is not None:
        return _headless(state)
    if not state.chain_facts:  # of a birth that was cut short: whoever has its header does not answer any more
        return _stuck(state)
    if rules.is_end_in_doubt(state):
        return _in_doubt(state)
    return replace(state, phase=Phase.ASSEMBLING)


def _start_over(state: Takeover) -> Takeover:
    """A header read on the way names members that were never asked: ask again, them too."""
    return Takeover(
        holder=state.holder,
        known=state.known,
        change=state.change,
        accept_loss=state.accept_loss,
        facts=state.facts,
        highest=max(state.highest, state.epoch),
    )


def _after_assembling(state: Takeover) -> Takeover:
    if not rules.may_assemble(state):
        return _stuck(state)
    if rules.is_end_in_doubt(state):
        return _in_doubt(state)
    return state if state.end is None else replace(state, phase=Phase.EXTENDING)


def _after_extending(state: Takeover) -> Takeover:
    if is_durable(state.membership, state.extended):
        return replace(state, phase=Phase.WRITING, header=_header(state, state.membership))
    return state if state.requests() else _stuck(state)


def _after_writing(state: Takeover) -> Takeover:
    assert state.header is not None
    if not is_durable(state.header.membership, state.written):
        return state if state.requests() else _stuck(state)
    if state.header.membership.replaces is None:
        return replace(state, phase=Phase.SERVING)
    alone = Membership(configuration=state.header.membership.configuration)
    proven = replace(state, phase=Phase.SETTLING, end=state.header_end, extended=state.written, written=_NOBODY)
    return replace(proven, header=_header(proven, alone))


def _header(state: Takeover, membership: Membership) -> SegmentFacts:
    assert state.end is not None
    return SegmentFacts(
        name=str(SegmentName(start=Lsn(state.end.end), epoch=Epoch(state.epoch), holder=state.holder)),
        epoch=state.epoch,
        holder=state.holder,
        start=state.end.end,
        trim=newest(state.chain_facts).trim,
        base=state.end,
        membership=membership,
        granted=state.granted,
    )


def _headless(state: Takeover) -> Takeover:
    name = rules.unreadable(state)
    assert name is not None
    detail = f"LOST: the header of segment {name} is damaged on every copy that has it"
    return _refuse(state, Reason.LOST, lsn=name.start, detail=detail)


def _in_doubt(state: Takeover) -> Takeover:
    """LOST only if nobody is away who could still come back and say what there was."""
    stuck = _stuck(state)
    assert stuck.refusal is not None
    if stuck.refusal.reason is Reason.OVERTAKEN or stuck.refusal.missing | stuck.refusal.early:
        return stuck
    last = newest(state.chain_facts)
    return _refuse(state, Reason.LOST, lsn=last.start, detail=f"LOST: segment {last.name} may have lost its end")


def _stuck(state: Takeover) -> Takeover:
    return _refuse(state, Reason.OVERTAKEN if state.refusing else Reason.MISSING)


def _refuse(state: Takeover, reason: Reason, *, lsn: int | None = None, detail: str = "") -> Takeover:
    everybody = frozenset(state.membership.members) if state.facts else state.known
    full, spent, early = state.full & everybody, state.spent & everybody, state.early & everybody
    missing = everybody - (state.answered - state.silent) - state.lost - spent
    refusal = TakeoverRefusal(
        reason=reason, missing=missing, lost=state.lost, full=full, spent=spent, lsn=lsn, detail=detail
    )
    refusal = replace(refusal, failing=state.failing & missing, early=early, doubtful=rules.doubtful(state))
    return replace(state, phase=Phase.REFUSED, refusal=refusal)


_STEPS = {
    Phase.ASKING: _after_asking,
    Phase.FENCING: _after_fencing,
    Phase.ASSEMBLING: _after_assembling,
    Phase.EXTENDING: _after_extending,
    Phase.WRITING: _after_writing,
    Phase.SETTLING: _after_writing,
}
