"""What must hold after each step of the small world: the promise of docs/takeover.md."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from journal.records.membership import is_durable, is_fenced
from journal.takeover.messages import Reason
from tests.journal.takeover.exploration import servers

if TYPE_CHECKING:
    from journal.takeover.takeover import Takeover
    from tests.journal.takeover.exploration.world import World, Writer


class ViolationError(Exception):
    """The world did what must never happen."""


def _whole_history(writer: Writer) -> tuple[tuple[int, str], ...]:
    """What the owner shows: the index snapshot, and the log since."""
    before = () if writer.base is None else writer.base.history
    return tuple(sorted({*before, *servers.history(writer.local)}))


def check_serving(world: World, writer: Writer, takeover: Takeover) -> World:
    for before, after in pairwise(writer.local):
        if before.end != after.facts.start:
            raise ViolationError(f"{takeover.holder!r} serves what lies after a back-link, at LSN {after.facts.start}")
    _check_held(world, writer, writer.local[-1].end)
    log = _whole_history(writer)
    missing = set(world.acknowledged) - set(log)
    if missing:
        raise ViolationError(f"{takeover.holder!r} serves in epoch {takeover.epoch} without {sorted(missing)}")
    if takeover.epoch > world.served[0]:
        return world._replace(served=(takeover.epoch, log))
    return world


def check_acknowledged(world: World, writer: Writer, acknowledged: int) -> World:
    assert writer.takeover is not None
    epoch, holder = writer.takeover.epoch, writer.takeover.holder
    new = [one for one in servers.history(writer.local) if writer.acknowledged <= one[0] < acknowledged]
    served_epoch, served_log = world.served
    if served_epoch > epoch and not set(new) <= set(served_log):
        raise ViolationError(f"{holder!r} acknowledges {new} in epoch {epoch}; epoch {served_epoch} serves without it")
    if any(one_epoch == epoch and one_holder != holder for one_epoch, one_holder in world.owners):
        raise ViolationError(f"two owners acknowledge in epoch {epoch}")
    owners = world.owners if (epoch, holder) in world.owners else tuple(sorted([*world.owners, (epoch, holder)]))
    _check_held(world, writer, acknowledged)
    together = tuple(sorted({*world.acknowledged, *new}))
    return world._replace(acknowledged=together, owners=owners)


def _check_held(world: World, writer: Writer, end: int) -> None:
    """k members of each configuration hold the whole chain up to `end`, unless a fault has taken it from them."""
    if world.faults:
        return
    chain = [(one.facts.name, one.items[: end - one.facts.start]) for one in writer.local if one.facts.start < end]
    holding = [
        server.member
        for server in world.servers
        if all((copy := server.segment(name)) and copy.items[: len(items)] == items for name, items in chain)
        and (writer.local[0].facts.start == 0 or writer.base in server.snapshots)
    ]
    if not is_durable(writer.local[-1].facts.membership, holding):
        raise ViolationError(
            f"an owner relies on LSN {end}, which only {[str(m) for m in holding]} hold with all before it"
        )


def check_fencing(takeover: Takeover) -> None:
    who, answered = takeover.membership, takeover.answered
    if not (is_fenced(who, answered) and is_durable(who, answered)):
        raise ViolationError("an attempt that cannot come to its end fences members")


def check_refusal(world: World, takeover: Takeover) -> None:
    refusal = takeover.refusal
    assert refusal is not None
    if refusal.reason is Reason.NO_HEADER and takeover.change is not None and not (world.faults or takeover.silent):
        raise ViolationError("an owner that changes members finds no header")
    if refusal.reason is Reason.LOST and not world.faults:
        raise ViolationError(f"refused as LOST, but nothing was ever lost: {refusal.detail}")
    if refusal.reason is Reason.MISSING and not refusal.missing | refusal.lost:
        raise ViolationError("refused for missing members without naming one")
    if not refusal.missing <= takeover.silent | takeover.refusing:
        raise ViolationError("refused for members that were never asked")
    if refusal.reason is Reason.OVERTAKEN and sum(one.attempts for one in world.writers) == 1:
        raise ViolationError("refused because of somebody else, but there is nobody else")
