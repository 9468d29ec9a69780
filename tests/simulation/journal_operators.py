"""What operators do to a volume while it works: change its members one after the other, repair copies, claim and go.

They use what the command uses (membership_change.py, repairing.py). Whatever they are told is fine, and they
may die in the middle; what they have done is judged in the end, with all the rest.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import trio

from journal.copies.repairing import carry_out, plan_repairs
from journal.copies.verification import verify_copy
from journal.copies.volume_reader import open_reader
from journal.errors import JournalError
from journal.takeover.membership_change import Wish, change_members
from sos_client.client import open_client
from sos_client.wire.errors import SosError
from tests.simulation.journal_archive import open_copies
from tests.simulation.journal_process import DEADLINES, VOLUME, address_of, surroundings

if TYPE_CHECKING:
    from journal.records.membership import Configuration, Membership
    from tests.simulation.journal_stage import JournalStage

OPERATOR = "operator"


async def read_membership(stage: JournalStage) -> Membership | None:
    """Who the members are; None if some server that should know does not answer."""
    whole = [name for name in stage.servers if name not in stage.lost]
    try:
        async with open_copies(stage.world, whole, OPERATOR, _chance(stage)) as copies:
            if len(copies) < len(whole):
                return None
            return (await open_reader(VOLUME, copies)).header.membership
    except JournalError:
        return None


def names_of(configuration: Configuration) -> list[str]:
    """The hosts of the members."""
    return [member.address.partition(":")[0] for member in configuration.members]


def may_lose(stage: JournalStage, membership: Membership, name: str) -> bool:
    """Whether the volume goes on, and has everything, if this server loses what it has."""
    return all(
        len((stage.lost | {name}).intersection(names_of(one)))
        <= min(one.acknowledgements - 1, len(one.members) - one.acknowledgements)
        for one in membership.configurations
    )


async def change(stage: JournalStage, kind: str) -> bool:
    """Replace, add or remove a member; a lost one first. Whether it was left in the middle."""
    membership = await read_membership(stage)
    if membership is None:
        return False
    configuration = membership.configuration
    members = names_of(configuration)
    joining = leaving = None
    free = [name for name in stage.servers if name not in members]
    if kind != "remove a member":
        if not free:
            return False
        joining = stage.chance.choice(free)
        await _make_room(stage, joining)
    if kind != "add a member":
        gone = sorted(stage.lost.intersection(members))
        leaving = stage.chance.choice(gone if gone and stage.chance.random() < 0.8 else members)
    stage.world.note(kind, f"{leaving} {joining}")
    wish = Wish(
        joining=None if joining is None else address_of(joining),
        leaving=None if leaving is None else configuration.members[members.index(leaving)].identity.hex(),
    )
    is_over = False
    with trio.move_on_after(stage.chance.choice([1.0, 15.0, 15.0, 15.0])):
        is_over = await _try_to_change(stage, wish, joining)
    return not is_over


async def _try_to_change(stage: JournalStage, wish: Wish, joining: str | None) -> bool:
    servers = [address_of(name) for name in stage.servers]
    try:
        await change_members(VOLUME, servers, wish, surroundings=surroundings(stage.world, OPERATOR, _chance(stage)))
    except JournalError as error:
        stage.world.counts[f"change answered {error.code.name}"] += 1
        return False
    stage.world.note("members changed", f"{wish}")
    return True


async def _make_room(stage: JournalStage, name: str) -> None:
    """A server that was a member before comes back with a new disk, or, if nothing is wrong with it, with its own."""
    host = stage.servers[name]
    if name in stage.lost or stage.chance.random() < 0.5:
        await host.kill(power_cut=True)
        host.drive.wipe()
        host.refused_to_start = None
        stage.lost.discard(name)
        await trio.sleep(0.6)  # its supervisor starts it


async def repair(stage: JournalStage) -> None:
    """Verify every copy that answers, and mend what can be mended from outside."""
    with trio.move_on_after(10):
        try:
            async with open_copies(stage.world, stage.servers, OPERATOR, _chance(stage)) as copies:
                reader = await open_reader(VOLUME, copies)
                for copy in reader.copies:
                    report = await verify_copy(reader, copy, lambda _: None)
                    for one in plan_repairs(reader, copy, report):
                        stage.world.note("repair", f"{copy.label} {one.object}")
                        await carry_out(reader, one, lambda _: None)
        except JournalError as error:
            stage.world.counts[f"repair answered {error.code.name}"] += 1


async def claim_and_go_away(stage: JournalStage, name: str) -> None:
    """A takeover that dies after it has claimed one member: nothing of it is ever written."""
    chance = _chance(stage)
    around = surroundings(stage.world, OPERATOR, chance)
    with trio.move_on_after(3):
        try:
            async with open_client(address_of(name), dial=around.dial, deadlines=DEADLINES, chance=chance) as client:
                info = await client.use(VOLUME)
                await client.fence(VOLUME, info.epoch + 1, chance.randbytes(16))
        except SosError:
            return


def _chance(stage: JournalStage) -> random.Random:
    return random.Random(stage.chance.random())
