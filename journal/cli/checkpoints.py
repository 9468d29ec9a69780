"""Looking at Spark's checkpoints through a view: shared by `doctor` and `verify --spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal.checkpoint.checks import Diagnosis, Severity
from journal.files.diagnosing import diagnoses as found_at
from sos_client.command.output import BAD, DOUBTFUL, GOOD
from sos_client.printable import printable
from sos_client.wire.errors import ExitCode

if TYPE_CHECKING:
    from journal.cli.views import View
    from journal.records.location import Location

COLOUR_OF = {Severity.OK: GOOD, Severity.NOTE: GOOD, Severity.WARNING: DOUBTFUL, Severity.FAILURE: BAD}
EXIT_OF = {
    Severity.OK: ExitCode.DONE,
    Severity.NOTE: ExitCode.DONE,
    Severity.WARNING: ExitCode.WARNING,
    Severity.FAILURE: ExitCode.DAMAGED,
}


async def diagnoses(view: View, location: Location) -> dict[str, Diagnosis]:
    """Each checkpoint at or below a path, with what is wrong with it."""
    return await found_at(view, location.volume, location.path)


def print_diagnosis(root: str, diagnosis: Diagnosis) -> None:
    """In words for a person."""
    word = "OK" if diagnosis.severity <= Severity.NOTE else diagnosis.severity.name
    name = click.style(printable(root) or "/", bold=True)
    click.echo(f"{name}: {click.style(word, fg=COLOUR_OF[diagnosis.severity])}")
    click.echo(f"  query {printable(diagnosis.query_id or 'without an id')}; {_progress(diagnosis)}")
    for finding in diagnosis.findings:
        mark = click.style(finding.severity.name.lower(), fg=COLOUR_OF[finding.severity])
        click.echo(f"  {mark}: {printable(finding.what)}")
        if finding.advice:
            click.echo(f"    → {printable(finding.advice)}")


def _progress(diagnosis: Diagnosis) -> str:
    if diagnosis.last_planned is None and diagnosis.last_committed is None:
        return "no batch yet"
    planned, committed = diagnosis.last_planned, diagnosis.last_committed
    text = f"planned up to batch {'-' if planned is None else planned}"
    text += f", committed up to {'-' if committed is None else committed}"
    if committed is not None:
        complete = diagnosis.resumable
        text += (
            ", state complete"
            if complete == committed
            else f", state complete up to {'-' if complete is None else complete}"
        )
    return text


def diagnosis_json(root: str, diagnosis: Diagnosis) -> dict[str, object]:
    """For programs."""
    return {
        "checkpoint": root,
        "verdict": diagnosis.severity.name,
        "query_id": diagnosis.query_id,
        "last_planned": diagnosis.last_planned,
        "last_committed": diagnosis.last_committed,
        "resumable": diagnosis.resumable,
        "findings": [
            {"severity": f.severity.name, "what": f.what, "advice": f.advice, "path": f.path}
            for f in diagnosis.findings
        ],
    }
