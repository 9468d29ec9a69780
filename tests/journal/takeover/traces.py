"""Takeovers as text: commands to a few servers and to whoever takes their volume over, and what happened.

A trace is a file of blocks. A block is one command, a line of dashes, and what followed from it:

    takeover x
    ----
    x asks a, b, c

Commands:

    volume MEMBERS [k=N]                  servers of these names, and a volume on them: epoch 1, up to LSN 100
    server NAME                           one more server, without the volume
    on NAMES: CONDITION                   up, down, failing, full, wiped, holds LSN, claimed EPOCH, doubtful
    takeover WRITER [CONDITIONS]          a process begins: accept-loss, unless-above=EPOCH, members=NAMES [k=N]
    answer WRITER NAMES                   these servers answer what they were asked, one after the other
    run WRITER                            everybody answers until there is nothing to ask

What decides is `journal/takeover/takeover.py` itself; the servers are a few lines of their own. `pytest --renew-traces`
writes the files again: read the difference before you keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from journal.records.chain_rules import Base, SegmentFacts, newest
from journal.records.membership import Configuration, Member, Membership, majority
from journal.records.record import Epoch, Lsn
from journal.records.segment import SegmentName, parse_segment_name
from journal.takeover import messages as m
from journal.takeover.takeover import Phase, Takeover
from journal.takeover.wording import refusal_of

if TYPE_CHECKING:
    from collections.abc import Iterable

SEPARATOR = "----"
FIRST_END = 100


@dataclass
class TraceServer:
    """One server: whether it answers, who has claimed it, which headers it has, up to which LSN it holds the log."""

    member: Member
    epoch: int = 0
    facts: frozenset[SegmentFacts] = frozenset()
    end: int = 0
    condition: str = "up"
    doubtful: frozenset[SegmentName] = frozenset()

    def answer(self, request: m.Request) -> m.MemberAnswer:
        """What this server says, and does."""
        if self.condition == "down":
            return m.Silent(member=self.member)
        if self.condition == "failing":
            return m.Failing(member=self.member)
        if self.condition == "wiped":
            return m.Gone(member=self.member)
        match request:
            case m.FenceMember(epoch=epoch) if epoch <= self.epoch:
                return m.Overtaken(member=self.member, epoch=self.epoch)
            case m.FenceMember(epoch=epoch):
                self.epoch = epoch
                return m.Granted(member=self.member)
            case m.Extend() | m.Write() if self.condition == "full":
                return m.Full(member=self.member)
            case m.Extend(end=end):
                self.end = end.end
                return m.Extended(member=self.member)
            case m.Write(facts=facts) if facts.epoch < self.epoch:
                return m.Overtaken(member=self.member, epoch=self.epoch)
            case m.Write(facts=facts):
                self.facts |= {facts}
                self.end = facts.start + 10  # a header record of ten bytes
                return m.Written(member=self.member, end=Base(segment=facts.name, end=self.end, chain=bytes(8)))
        return m.Told(member=self.member, epoch=self.epoch, facts=self.facts, doubtful=self.doubtful)


@dataclass
class Player:
    """Plays a trace: each command gives lines."""

    servers: dict[str, TraceServer] = field(default_factory=dict)
    takeovers: dict[str, Takeover] = field(default_factory=dict)
    steps: set[tuple[str, str]] = field(default_factory=set)
    """Every step from one phase to another that was seen."""

    def play(self, command: str) -> list[str]:
        """What follows from one command."""
        verb, _, rest = command.partition(" ")
        match verb:
            case "volume":
                return self._volume(rest)
            case "server":
                self.servers[rest] = TraceServer(_member(rest))
                return []
            case "on":
                names, _, condition = rest.partition(": ")
                for name in _names(names):
                    self._set(self.servers[name], condition)
                return []
            case "takeover":
                return self._begin(rest)
            case "answer":
                writer, _, names = rest.partition(" ")
                return [line for name in _names(names) for line in self._answer(writer, name)]
            case "run":
                return self._run(rest)
        raise ValueError(f"no such command: {command}")

    def _volume(self, rest: str) -> list[str]:
        names, options = _options(rest)
        configuration = self._configuration(names, options)
        birth = _facts(1, bytes(16), None, Membership(configuration=configuration), frozenset(configuration.members))
        for name in names:
            self.servers[name] = TraceServer(_member(name), epoch=1, facts=frozenset({birth}), end=FIRST_END)
        return [f"{configuration.acknowledgements} of {len(names)} must sync"]

    def _configuration(self, names: str, options: dict[str, str]) -> Configuration:
        members = tuple(_member(name) for name in names)
        return Configuration(members=members, acknowledgements=int(options.get("k", majority(len(members)))))

    def _set(self, server: TraceServer, condition: str) -> None:
        what, _, value = condition.partition(" ")
        match what:
            case "holds":
                server.end = int(value)
            case "claimed":
                server.epoch = int(value)
            case "doubtful":
                name = parse_segment_name(newest(server.facts).name)
                assert name is not None
                server.doubtful = frozenset({name})
            case "up" | "down" | "failing" | "full" | "wiped":
                server.condition = condition
            case _:
                raise ValueError(f"no such condition: {condition}")

    def _begin(self, rest: str) -> list[str]:
        writer, *conditions = rest.split()
        options = dict(one.partition("=")[::2] for one in conditions)
        known = frozenset(server.member for server in self.servers.values())
        state = Takeover(holder=writer.encode() * 16, known=known, accept_loss="accept-loss" in options)
        if "unless-above" in options:
            state = replace(state, unless_above=int(options["unless-above"]))
        if "members" in options:
            state = replace(state, change=self._configuration(options["members"], options))
        self.takeovers[writer] = state
        return self._shown(writer, None, state)

    def _answer(self, writer: str, name: str) -> list[str]:
        state, server = self.takeovers[writer], self.servers[name]
        wanted = [one for one in state.requests() if not isinstance(one, m.Assemble) and one.member == server.member]
        if not wanted:
            return [f"  {name} was not asked"]
        answer = server.answer(wanted[0])
        return [f"  {name} {_answer_text(answer)}", *self._received(writer, answer)]

    def _run(self, writer: str) -> list[str]:
        lines = []
        while requests := self.takeovers[writer].requests():
            asked = sorted(one.member.address[0] for one in requests if not isinstance(one, m.Assemble))
            lines += self._answer(writer, asked[0])
        return lines

    def _received(self, writer: str, answer: m.MemberAnswer) -> list[str]:
        before = self.takeovers[writer]
        after = before.receive(answer)
        lines = self._shown(writer, before, after)
        self.takeovers[writer] = after
        assembling = next((one for one in after.requests() if isinstance(one, m.Assemble)), None)
        return lines if assembling is None else lines + self._assembled(writer, assembling)

    def _assembled(self, writer: str, request: m.Assemble) -> list[str]:
        """The driver's part: the end of the newest chain, on whichever member it reaches furthest."""
        last = newest(request.facts)
        ends = [one.end for one in self.servers.values() if one.member in request.members and last in one.facts]
        end = Base(segment=last.name, end=max(ends), chain=bytes(8))
        return [f"  the log ends at LSN {end.end}", *self._received(writer, m.Assembled(end=end))]

    def _shown(self, writer: str, before: Takeover | None, after: Takeover) -> list[str]:
        """What the writer does next, if that is something else than before."""
        if before is not None and before.phase is not after.phase:
            self.steps.add((before.phase.value, after.phase.value))
        if after.phase is Phase.REFUSED:
            return [f"{writer} gives up: {refusal_of('v', after)}"]
        if after.phase is Phase.SERVING:
            return [f"{writer} serves with epoch {after.epoch}"]
        known: frozenset[m.Request] = frozenset() if before is None else before.requests()
        new = sorted(_request_text(one) for one in after.requests() - known)
        return [f"{writer} {' and '.join(_joined(new))}"] if new else []


def play(text: str, player: Player) -> str:
    """The trace as it happens now."""
    played = []
    for block in text.strip().split("\n\n"):
        *comments, command = [line for line in block.split(f"\n{SEPARATOR}")[0].split("\n") if line]
        if command.startswith("#"):
            played.append(block)
            continue
        played.append("\n".join([*comments, command, SEPARATOR, *player.play(command)]))
    return "\n\n".join(played) + "\n"


def _member(name: str) -> Member:
    return Member(identity=name.encode() * 16, incarnation=b"1" * 16, address=f"{name}:7400")


def _facts(
    epoch: int, holder: bytes, base: Base | None, membership: Membership, granted: frozenset[Member]
) -> SegmentFacts:
    name = SegmentName(start=Lsn(0), epoch=Epoch(epoch), holder=holder)
    return SegmentFacts(
        name=str(name),
        epoch=epoch,
        holder=holder,
        start=0,
        trim=0,
        base=base,
        membership=membership,
        granted=granted,
    )


def _names(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _options(rest: str) -> tuple[str, dict[str, str]]:
    first, *others = rest.split()
    return first, dict(one.partition("=")[::2] for one in others)


def _joined(requests: list[tuple[str, str]]) -> list[str]:
    """Requests of one kind with all whom they go to: "asks a, b"."""
    kinds: dict[str, list[str]] = {}
    for what, whom in requests:
        kinds.setdefault(what, []).append(whom)
    return [what.format(", ".join(whom)) for what, whom in kinds.items()]


def _request_text(request: m.Request) -> tuple[str, str]:
    """What is asked, and of whom."""
    match request:
        case m.Assemble(members=members):
            return "assembles the log's end from {}", _sorted(members)
        case m.Ask():
            what = "asks {}"
        case m.FenceMember(epoch=epoch):
            what = f"claims {{}} with epoch {epoch}"
        case m.Read():
            what = "reads {}"
        case m.Extend(end=end):
            what = f"brings {{}} up to LSN {end.end}"
        case m.Write(facts=facts):
            old, new = facts.membership.replaces, _sorted(facts.membership.configuration.members)
            whose = new if old is None else f"{new} in place of {_sorted(old.members)}"
            what = f"writes to {{}} the header of {whose}"
    return what, request.member.address[0]


def _answer_text(answer: m.MemberAnswer) -> str:
    match answer:
        case m.Told(epoch=epoch, facts=facts, doubtful=doubtful):
            headers = ", ".join(str(one.epoch) for one in sorted(facts, key=lambda one: one.epoch)) or "none"
            damage = "; what it calls damaged is the newest segment" if doubtful else ""
            return f"has claim {epoch}, headers of epochs {headers}{damage}" if epoch or facts else "has nothing of it"
        case m.Overtaken(epoch=epoch):
            return f"refuses: it has claim {epoch}"
        case m.Written():
            return "has the header"
    return {
        m.Silent: "does not answer",
        m.Failing: "says that its disk has failed",
        m.Gone: "says that this member is no more",
        m.Full: "has no room",
        m.Granted: "grants it",
        m.Extended: "holds all of it",
    }[type(answer)]


def _sorted(members: Iterable[Member]) -> str:
    return "".join(sorted(member.address[0] for member in members))
