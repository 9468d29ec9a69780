"""`sos-journal doctor`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from journal.checkpoint.checks import Finding, Severity
from journal.cli.checkpoints import EXIT_OF, diagnoses, diagnosis_json, print_diagnosis
from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, at_option, style_options
from journal.cli.overdue import overdue_findings
from journal.cli.views import LogView, in_each_journal, open_log, open_view
from journal.errors import JournalCode, JournalError, refused
from sos_client.command.output import print_json
from sos_client.command.running import finish, run_async

if TYPE_CHECKING:
    from journal.cli.views import View
    from journal.copies.promise import PromiseFinding
    from journal.records.location import Location


@click.command()
@click.argument("location", type=LocationType())
@at_option
@style_options
@access_options
def doctor(*, location: Location, at: str, style: Style, access: Access) -> None:
    """Say what is wrong with Spark's checkpoints, and what to do.

    Exits with 12 if there are warnings, with 8 if a query cannot go on as it is.

    \b
    sos-journal doctor sos://payments/q1
    sos-journal doctor payments --at 2h
    """
    run_async(_doctor, location, at, style, access)


async def _findings_of_volume(view: View, access: Access, location: Location) -> list[Finding]:
    """What concerns each query of it: members that keep what retention has given up, if servers are named."""
    advice = "give the service's token the right delete (docs/operations.md), or the disks fill"

    async def overdue_in(journal: Location) -> list[PromiseFinding]:
        async with open_log(access, journal.volume) as reader:
            return await overdue_findings(reader)

    overdue: list[PromiseFinding] = []
    with suppress(JournalError):
        if isinstance(view, LogView):
            overdue = [one for reader in view.reader.journals for one in await overdue_findings(reader)]
        elif access.servers:
            overdue = [one for found in await in_each_journal(access, location, overdue_in) for one in found]
    return [Finding(severity=Severity.WARNING, what=one.what, advice=advice) for one in overdue]


async def _doctor(location: Location, at: str, style: Style, access: Access) -> None:
    async with open_view(access, location, at, style) as view:
        found = await diagnoses(view, location)
        if not found:
            raise refused(JournalCode.NOT_FOUND, f"there is no checkpoint at {location} (no offsets, no commits)")
        of_volume = await _findings_of_volume(view, access, location)
    for diagnosis in found.values():
        diagnosis.findings += of_volume
    for root, diagnosis in found.items():
        if style.json:
            print_json(diagnosis_json(root, diagnosis))
        else:
            print_diagnosis(root, diagnosis)
    finish(EXIT_OF[max((one.severity for one in found.values()), default=Severity.OK)])
