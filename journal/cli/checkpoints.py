"""Looking at Spark's checkpoints through a view: shared by `doctor` and `verify --spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal.checkpoint.checks import Diagnosis, Severity, diagnose, wanted_contents
from journal.checkpoint.layout import LOG_BYTES_MAX, arrange, find_checkpoints
from journal.cli.locations import Location
from journal.files.plain_directory import PlannedFile
from sos_client.command.output import BAD, DOUBTFUL, GOOD
from sos_client.printable import printable
from sos_client.wire.errors import ExitCode

if TYPE_CHECKING:
    from journal.cli.views import View

COLOUR_OF = {Severity.OK: GOOD, Severity.NOTE: GOOD, Severity.WARNING: DOUBTFUL, Severity.FAILURE: BAD}
EXIT_OF = {
    Severity.OK: ExitCode.DONE,
    Severity.NOTE: ExitCode.DONE,
    Severity.WARNING: ExitCode.WARNING,
    Severity.FAILURE: ExitCode.DAMAGED,
}


async def diagnoses(view: View, location: Location) -> dict[str, Diagnosis]:
    """Each checkpoint at or below a path, with what is wrong with it."""
    path = location.path
    statuses = [status async for status in view.walk(path) if not status.is_directory]
    found = {}
    for root in find_checkpoints(status.path for status in statuses):
        if "/state/" in f"/{root}/" or (path and not f"{root}/".startswith(f"{path}/")):
            continue
        checkpoint = arrange(root, statuses)
        wanted = [
            PlannedFile(status=checkpoint.files[name], relative=name)
            for name in wanted_contents(checkpoint)
            if checkpoint.files[name].size <= LOG_BYTES_MAX
        ]
        home = str(Location(volume=location.volume, path=root)).removesuffix("/")
        found[root] = diagnose(checkpoint, await _contents(view, wanted), home=home)
    return found


async def _contents(view: View, files: list[PlannedFile]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for group in view.groups(files):
        contents |= {file.relative: data for file, data in zip(group, await view.read_group(group), strict=True)}
    return contents


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
