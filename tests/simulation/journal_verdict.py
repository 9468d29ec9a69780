"""What `verify` says of a volume: whether that is true is judged elsewhere, that it comes to OK in the end here."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.promise import Verdict
from journal.copies.verification import judge_reports, verify_copy
from journal.copies.volume_reader import open_reader
from journal.errors import JournalError
from journal.owner.opening import open_journal
from tests.simulation import journal_operators as operators
from tests.simulation.journal_archive import open_copies
from tests.simulation.journal_process import VOLUME, address_of, surroundings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal.copies.copies import Copy
    from journal.copies.volume_reader import VolumeReader
    from tests.simulation.journal_stage import JournalStage

OK_SECONDS: Final = 90.0
"""An owner looks at a damaged copy every twenty seconds, and gives a member a snapshot when it rolls a segment."""
OWNER: Final = "caretaker"


async def verify(reader: VolumeReader, members: Sequence[Copy]) -> tuple[Verdict, str]:
    """The verdict of all, and why."""
    reports = [await verify_copy(reader, one, lambda _: None) for one in members]
    findings = await judge_reports(reader, reports)
    verdict = max([one.verdict for one in reports] + [one.verdict for one in findings])
    faults = [f"{report.label} {one.object}: {one.what}" for report in reports for one in report.faults]
    problems = [f"{report.label}: {report.problem}" for report in reports if report.problem]
    return verdict, "; ".join([*faults, *problems, *(one.what for one in findings)])


async def require_ok(stage: JournalStage) -> None:
    """Nothing is lost for good, nothing goes wrong any more, somebody writes: then nothing is wrong for ever."""
    why = "nobody has taken the volume over"
    with trio.move_on_after(OK_SECONDS):
        while True:
            try:
                opening = open_journal(
                    VOLUME,
                    servers=[address_of(name) for name in stage.servers],
                    settings=stage.plan.settings,
                    surroundings=surroundings(stage.world, OWNER, random.Random(stage.chance.random())),
                )
                async with opening as journal:
                    while True:
                        await journal.put(f"{OWNER}/was-here", bytes(300), overwrite=True)
                        await trio.sleep(2)
                        verdict, why = await _verify_now(stage)
                        if verdict is Verdict.OK:
                            stage.world.note("verified in the end", why)
                            return
                        await operators.repair(stage)
            except JournalError as error:
                why = str(error)
            await trio.sleep(1)
    stage.world.require(promise=False, sentence=f"all is in order, and `verify` does not say so: {why}")


async def _verify_now(stage: JournalStage) -> tuple[Verdict, str]:
    async with open_copies(stage.world, stage.servers, OWNER, random.Random(stage.chance.random())) as copies:
        membership = (await open_reader(VOLUME, copies)).header.membership
        members = [one for one in copies if one.label in {member.address for member in membership.members}]
        return await verify(await open_reader(VOLUME, members), members)
