"""Every step that the small world may take next, and what must hold after each.

A step is atomic: one request handled by one server and its answer taken, one fault, one process started or killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.errors import DamagedJournalError
from journal.owner.replica_progress import ReplicaProgress, Standing
from journal.records.chain_rules import Base
from journal.records.membership import Membership
from journal.takeover.messages import (
    Ask,
    Assemble,
    Assembled,
    Extend,
    Extended,
    FenceMember,
    Gone,
    MemberAnswer,
    NotAssembled,
    Overtaken,
    Read,
    Request,
    Silent,
    Write,
    Written,
)
from journal.takeover.takeover import Phase, Takeover
from tests.journal.takeover.exploration import servers
from tests.journal.takeover.exploration.checks import (
    ViolationError,
    check_acknowledged,
    check_fencing,
    check_refusal,
    check_serving,
)
from tests.journal.takeover.exploration.trimming import progress_of, trimming_steps, with_progress
from tests.journal.takeover.exploration.world import Following, Segment, Server, World, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from journal.records.membership import Configuration, Member
    from tests.journal.takeover.exploration.scenarios import Scenario


def successors(world: World, scenario: Scenario) -> Iterator[tuple[str, World]]:
    """(what happened, the world after it). ViolationError if a step breaks the promise."""
    for slot, writer in enumerate(world.writers):
        yield from _writer_steps(world, slot, writer, scenario)
    yield from _faults(world)


def _writer_steps(world: World, slot: int, writer: Writer, scenario: Scenario) -> Iterator[tuple[str, World]]:
    if writer.takeover is None:
        yield from _start(world, slot, writer, scenario)
        return
    crashed = world.budget.spend("writer_crashes")
    if crashed is not None:
        ended = _end(writer)
        yield f"{slot} crashes", world.with_writer(slot, ended)._replace(budget=crashed)
    if writer.takeover.phase is Phase.SERVING:
        yield from _serving_steps(world, slot, writer, scenario)
        return
    requests = writer.takeover.requests()
    harmless = sorted((one for one in requests if isinstance(one, Ask | Read)), key=lambda one: one.member)
    if len(harmless) == len(requests) > 0 and not scenario.is_fine:
        yield from _harmless(world, slot, harmless)
    if not scenario.is_fine:
        harmless = []
    others = [one for one in requests if not isinstance(one, Ask | Read)]
    for request in [*harmless[:1], *_first(others, writer, scenario)]:
        yield from _request(world, slot, writer, request)


def _first(requests: Sequence[Request], writer: Writer, scenario: Scenario) -> Sequence[Request]:
    """An attempt takes the servers in the order chosen at its start; in a fine scenario in any order at any time."""
    if scenario.is_fine:
        return requests

    def turn(request: Request) -> tuple[int, int]:
        return (
            (0, 0)
            if isinstance(request, Assemble)
            else (isinstance(request, Extend), writer.order.index(request.member.address))
        )

    return sorted(requests, key=turn)[:1]


def _harmless(world: World, slot: int, requests: Sequence[Ask | Read]) -> Iterator[tuple[str, World]]:
    """All questions of one step at once, with one of them cut off if the bounds allow it."""
    for cut in (None, *(one.member for one in requests)):
        after = world
        budget = world.budget if cut is None else world.budget.spend("cuts")
        if budget is None:
            return
        for request in requests:
            server = world.server(request.member.address)
            reachable = server.is_up and request.member != cut
            answer = servers.tell(server, request.member) if reachable else Silent(member=request.member)
            if after.writers[slot].takeover is not None:
                after = _answered(after, slot, after.writers[slot], answer)
        yield f"{slot} {type(requests[0]).__name__}, without {cut}", after._replace(budget=budget)


def _start(world: World, slot: int, writer: Writer, scenario: Scenario) -> Iterator[tuple[str, World]]:
    budget = world.budget.spend("takeovers")
    if budget is not None:
        attempt = writer.attempts + 1
        takeover = Takeover(holder=f"{slot}.{attempt}".encode(), known=scenario.seeds[slot])
        for order in scenario.orders[:1] if scenario.is_fine else scenario.orders:
            started = writer._replace(attempts=attempt, order=order, takeover=takeover)
            yield f"{slot} starts with {order}", world.with_writer(slot, started)._replace(budget=budget)


# ----------------------------------------------------------------------------------------- a takeover's requests


def _request(world: World, slot: int, writer: Writer, request: Request) -> Iterator[tuple[str, World]]:
    if isinstance(request, Assemble):
        yield from _assemble(world, slot, writer, request)
        return
    label = f"{slot} {type(request).__name__} {request.member}"
    server = world.server(request.member.address)
    silent = Silent(member=request.member)
    if not server.is_up:
        yield f"{label}: down", _answered(world, slot, writer, silent)
        return
    after, answer, writer_after = _perform(server, writer, request)
    yield label, _answered(world.with_server(after), slot, writer_after, answer)
    lost = world.budget.spend("lost_replies")
    if lost is not None and after != server:
        yield f"{label}: reply lost", _answered(world.with_server(after)._replace(budget=lost), slot, writer, silent)
    cut = world.budget.spend("cuts")
    if cut is not None:
        yield f"{label}: cut off", _answered(world._replace(budget=cut), slot, writer, silent)


def _perform(server: Server, writer: Writer, request: Request) -> tuple[Server, MemberAnswer, Writer]:
    takeover = writer.takeover
    assert takeover is not None
    match request:
        case Ask(member=member) | Read(member=member):
            return server, servers.tell(server, member), writer
        case FenceMember(member=member, epoch=epoch):
            return *servers.grant(server, member, epoch, takeover.holder), writer
        case Extend(member=member, end=end):
            refusal = _refusal(server, member, takeover)
            return (
                (server, refusal, writer)
                if refusal
                else (_extend(server, writer, end), Extended(member=member), writer)
            )
        case Write(member=member, facts=facts):
            refusal = _refusal(server, member, takeover)
            if refusal:
                return server, refusal, writer
            if member not in facts.membership.members:
                raise ViolationError(f"{member} gets a header, but is not a member of its configuration")
            opened = Segment(facts, (servers.header_item(facts),))
            written = Written(member=member, end=_end_of(opened))
            return servers.store(server, opened), written, _keep(writer, opened)
        case _:
            raise AssertionError(request)


def _refusal(server: Server, member: Member, takeover: Takeover) -> Overtaken | Gone | None:
    if not servers.is_itself(server, member):
        return Gone(member=member)
    if not servers.is_ours(server, member, takeover.epoch, takeover.holder):
        return Overtaken(member=member, epoch=server.epoch)
    return None


def _extend(server: Server, writer: Writer, end: Base) -> Server:
    for segment in writer.local:
        if segment.facts.start < end.end:
            server = servers.bring_up(server, segment)
    return servers.extended(server, writer.base)


def _end_of(segment: Segment) -> Base:
    return Base(segment=segment.facts.name, end=segment.end, chain=segment.items[-1].chain)


def _keep(writer: Writer, segment: Segment) -> Writer:
    others = tuple(one for one in writer.local if one.facts.name != segment.facts.name)
    return writer._replace(local=(*others, segment))


def _assemble(world: World, slot: int, writer: Writer, request: Assemble) -> Iterator[tuple[str, World]]:
    label = f"{slot} assembles"
    for member in sorted(request.members):
        server = world.server(member.address)
        if not server.is_up:
            yield f"{label}: {member} down", _answered(world, slot, writer, Silent(member=member))
            return
        if not servers.is_itself(server, member):
            yield f"{label}: {member} gone", _answered(world, slot, writer, Gone(member=member))
            return
    copies = [copy for member in request.members for copy in world.server(member.address).segments]
    try:
        end, segments = servers.assemble(request.facts, [*copies, *writer.local])
        snapshots = [one for member in request.members for one in world.server(member.address).snapshots]
        base = servers.standing(segments, snapshots)
    except DamagedJournalError as error:
        answer = NotAssembled(lsn=int(error.fields["lsn"] or 0), reason=error.message)
        yield label, _answered(world, slot, writer, answer)
        return
    yield label, _answered(world, slot, writer._replace(local=segments, base=base), Assembled(end=end))


def _answered(world: World, slot: int, writer: Writer, answer: MemberAnswer) -> World:
    assert writer.takeover is not None
    takeover = writer.takeover.receive(answer)
    if writer.takeover.phase is Phase.ASKING and takeover.phase is Phase.FENCING:
        check_fencing(takeover)
    after = writer._replace(takeover=takeover)
    if takeover.phase is Phase.REFUSED:
        check_refusal(world, takeover)
        after = _end(after)
    if takeover.phase is Phase.SERVING:
        world = check_serving(world, after, takeover)
        after = _serve(after, takeover)
    return world.with_writer(slot, after)


def _end(writer: Writer) -> Writer:
    """The process is gone; only its directory is left, if it is the same machine that goes on."""
    return Writer(
        attempts=writer.attempts, local=writer.local if writer.keeps_local else (), keeps_local=writer.keeps_local
    )


def _serve(writer: Writer, takeover: Takeover) -> Writer:
    segment = next(one for one in writer.local if one.facts == takeover.header)
    held = frozenset() if writer.base is None else frozenset({writer.base.name})
    following = tuple(
        Following(m, Standing.IN_SYNC, segment.end, held)
        if m in takeover.written
        else Following(m, Standing.DISCOVERING, 0)
        for m in segment.facts.membership.members
    )
    # What the attempt heard on its way no longer matters: forgetting it makes equal worlds equal.
    owner = Takeover(
        holder=takeover.holder, known=frozenset(), phase=Phase.SERVING, epoch=takeover.epoch, header=takeover.header
    )
    return writer._replace(order="", takeover=owner, segment=segment, following=following, acknowledged=segment.end)


# --------------------------------------------------------------------------------------------- a serving writer


def _serving_steps(world: World, slot: int, writer: Writer, scenario: Scenario) -> Iterator[tuple[str, World]]:
    assert writer.segment is not None
    budget = world.budget.spend("writes")
    if budget is not None:
        value = f"{slot}.{writer.attempts}.{len(writer.segment.items)}"
        item = servers.record_item(writer.segment.items[-1], value)
        segment = writer.segment._replace(items=(*writer.segment.items, item))
        written = _keep(writer._replace(segment=segment), segment)
        yield f"{slot} writes {value}", world.with_writer(slot, written)._replace(budget=budget)
    yield from trimming_steps(world, slot, writer)
    changed = world.budget.spend("changes")
    wished = scenario.next_change(writer.segment.facts.membership.configuration)
    if changed is not None and wished is not None:
        for order in scenario.orders:
            after = _change(world, slot, writer._replace(order=order), wished)
            yield f"{slot} changes members with {order}", after._replace(budget=changed)
    for following in writer.following:
        yield from _follow(world, slot, writer, following)


def _change(world: World, slot: int, writer: Writer, change: Configuration) -> World:
    assert writer.segment is not None
    known = frozenset(Membership(configuration=change, replaces=writer.segment.facts.membership.configuration).members)
    attempt = writer.attempts + 1
    takeover = Takeover(holder=f"{slot}.{attempt}".encode(), known=known, change=change)
    stopped = writer._replace(attempts=attempt, takeover=takeover, segment=None, following=())
    return world.with_writer(slot, stopped)


def _follow(world: World, slot: int, writer: Writer, following: Following) -> Iterator[tuple[str, World]]:
    server = world.server(following.member.address)
    assert writer.takeover is not None
    assert writer.segment is not None
    if not server.is_up or not servers.is_itself(server, following.member) or following.standing is Standing.REMOVED:
        return
    progress = progress_of(writer)
    member = following.member
    if following.standing is Standing.DISCOVERING:
        server, answer = servers.grant(server, member, writer.takeover.epoch, writer.takeover.holder)
        if isinstance(answer, Overtaken):
            progress.fenced(member, epoch=answer.epoch, holder=b"")
        else:
            progress.found(member)
    elif not servers.is_ours(server, member, writer.takeover.epoch, writer.takeover.holder):
        progress.fenced(member, epoch=server.epoch, holder=server.holder)
    else:
        # The live segment goes to every member that was found; older ones only to those that are still filled, or that
        # were there when it was opened.
        yield from _fill(world, slot, writer, server, following)
        if following.synced >= writer.segment.end:
            return
        if following.standing is Standing.IN_SYNC:
            for segment in writer.local:
                server = servers.store(server, segment) if segment.end > following.synced else server
        server = servers.store(server, writer.segment)
        progress.advanced(member, writer.segment.end)
    yield f"{slot} follows {member}", _progressed(world.with_server(server), slot, writer, progress)


def _fill(world: World, slot: int, writer: Writer, server: Server, following: Following) -> Iterator[tuple[str, World]]:
    progress = progress_of(writer)
    lacks = following.standing is Standing.IN_SYNC and progress.missing_snapshots(following.member)
    if following.standing is Standing.CATCHING_UP or lacks:
        assert writer.segment is not None
        server = servers.give_all(server, writer.local, writer.base)
        held = frozenset(progress.snapshots)
        progress.caught_up(following.member, held_from=0, synced=writer.segment.end, snapshots=held)
        yield f"{slot} fills {following.member}", _progressed(world.with_server(server), slot, writer, progress)


def _progressed(world: World, slot: int, writer: Writer, progress: ReplicaProgress) -> World:
    after = with_progress(writer, progress)
    if progress.acknowledged > writer.acknowledged:
        world = check_acknowledged(world, writer, progress.acknowledged)
    if progress.must_stop():
        after = _end(after)
    return world.with_writer(slot, after)


# ------------------------------------------------------------------------------------------------------- faults


def _faults(world: World) -> Iterator[tuple[str, World]]:
    for server in world.servers:
        if not server.is_up:
            yield f"{server.name} restarts", world.with_server(server._replace(is_up=True))
            continue
        faults = {
            "server_crashes": [("", server._replace(is_up=False))],
            "wipes": [("", Server(name=server.name, incarnation=server.incarnation + 1))],
            "rollbacks": [("", rolled_back(server))],
            "damages": list(_damaged(server)),
        }
        for what, results in faults.items():
            budget = world.budget.spend(what)
            if budget is not None:
                faulty = world.faults or what != "server_crashes"
                for where, after in results:
                    faulted = world.with_server(after)._replace(budget=budget, faults=faulty)
                    noticed = _noticed(faulted, server) if what == "rollbacks" else faulted
                    yield f"{what} at {server.name}{where}", noticed


def _noticed(world: World, server: Server) -> World:
    """A disk is rolled back while its server is stopped: attempts under way lose the member.

    (One that asked before and claimed after could not tell: docs/takeover.md names this among what is not covered.)
    """
    for slot, writer in enumerate(world.writers):
        if writer.takeover is not None and writer.takeover.phase is not Phase.SERVING:
            world = _answered(world, slot, writer, Silent(member=server.member))
    return world


def rolled_back(server: Server) -> Server:
    """Its disk as it was just after birth."""
    first = tuple(Segment(one.facts, one.items[:1]) for one in server.segments if one.facts.base is None)
    born = first[0].facts if first else None
    return server._replace(
        segments=first, snapshots=(), epoch=born.epoch if born else 0, holder=born.holder if born else b""
    )


def _damaged(server: Server) -> Iterator[tuple[str, Server]]:
    for segment in server.segments:
        for at, item in enumerate(segment.items):
            if item.whole:
                items = (*segment.items[:at], item._replace(whole=False), *segment.items[at + 1 :])
                yield f" {segment.facts.start}+{at}", server.with_segment(Segment(segment.facts, items))
