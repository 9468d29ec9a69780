"""`sos-journal verify`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journal.cli.checkpoints import EXIT_OF, diagnoses, diagnosis_json, print_diagnosis
from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import (
    LogView,
    in_each_journal,
    log_access,
    open_log,
    open_service,
    open_whole_log,
    unread_members,
)
from journal.copies.promise import Verdict
from journal.copies.verification import CopyReport, bytes_to_verify, judge_reports, verify_copy
from journal.errors import JournalCode, JournalError
from journal.files.plain_directory import plan_files, write_files
from journal.files.plain_tree import open_plain_tree
from journal.records.change import RESTORED
from journal.records.moments import Now
from sos_client.command.output import BAD, DOUBTFUL, GOOD, count_text, note, print_json, progress, size_text
from sos_client.command.running import finish, run_async
from sos_client.printable import printable
from sos_client.wire.errors import ExitCode

if TYPE_CHECKING:
    from journal.copies.volume_reader import VolumeReader
    from journal.files.plain_directory import Plan
    from journal.records.location import Location
    from journal.volume import MarkValue

COLOUR_OF = {Verdict.OK: GOOD, Verdict.WARNING: DOUBTFUL, Verdict.FAILURE: BAD}
_EXIT_OF = {
    Verdict.OK: ExitCode.DONE,
    Verdict.WARNING: ExitCode.WARNING,
    Verdict.FAILURE: ExitCode.DAMAGED,
}


@click.command()
@click.argument("location", type=LocationType())
@click.option("--restore", is_flag=True, help="Also restore all of it into scratch, and compare; its page says when.")
@click.option("--spark", is_flag=True, help="Also check Spark's checkpoints: offsets, commits, state files.")
@style_options
@access_options
def verify(*, location: Location, restore: bool, spark: bool, style: Style, access: Access) -> None:
    """Compare every copy, byte by byte: OK, WARNING or FAILURE.

    Exits with 12 if a member lags or could not be read, with 8 if anything is damaged or missing, or if the loss of as
    many members as the volume promises to survive would lose it.

    \b
    sos-journal verify payments --servers a:7400,b:7400,c:7400
    sos-journal verify sos://payments/q1 --spark --restore
    """
    run_async(_verify, location, restore, spark, style, access)


async def _verify(location: Location, restore: bool, spark: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    access = await log_access(access, location.volume)
    found = await in_each_journal(
        access, location, lambda journal: _copies(journal, style, access), heading=not style.json
    )
    codes = [code for codes in found for code in codes]
    if restore or spark:
        async with open_whole_log(access, location.volume) as reader:
            codes.append(await _contents(reader, location, (style, access), restore=restore, spark=spark))
    finish(max(codes, key=_badness))


async def _copies(location: Location, style: Style, access: Access) -> list[ExitCode]:
    """The verdicts on all copies of one journal, and on the journal."""
    codes = [ExitCode.DONE]
    async with open_log(access, location.volume) as reader:
        with progress("verifying", bytes_to_verify(reader)) as bar:
            reports = [await verify_copy(reader, copy, bar.advance) for copy in reader.copies]
        reports += [CopyReport(label=address, problem=why) for address, why in unread_members(reader, access)]
        findings = await judge_reports(reader, reports)
        for report in reports:
            codes.append(_EXIT_OF[report.verdict])
            if style.json:
                print_json({"volume": location.volume} | report_json(report))
            else:
                print_report(report)
        for finding in findings:
            codes.append(_EXIT_OF[finding.verdict])
            if style.json:
                print_json({"volume": location.volume, "verdict": finding.verdict.name, "what": finding.what})
            else:
                click.echo(
                    f"{click.style(finding.verdict.name, fg=COLOUR_OF[finding.verdict])}: {printable(finding.what)}"
                )
    return codes


async def _contents(
    reader: VolumeReader, location: Location, options: tuple[Style, Access], *, restore: bool, spark: bool
) -> ExitCode:
    """What the log adds up to. If damage is in the way, that is the verdict, whatever reading it ends with."""
    codes = [ExitCode.DONE]
    style, access = options
    try:
        view = LogView(reader, await reader.image(Now()))
        if restore:
            plan = await _restore_in_scratch(view, location, style)
            await _note_as_restored(access, location, plan)
        for root, diagnosis in (await diagnoses(view, location) if spark else {}).items():
            codes.append(EXIT_OF[diagnosis.severity])
            if style.json:
                print_json(diagnosis_json(root, diagnosis))
            else:
                print_diagnosis(root, diagnosis)
    except JournalError as error:
        if error.code is not JournalCode.OUT_OF_RETENTION:
            raise
        note(error.message)
        return ExitCode.DAMAGED
    return max(codes, key=_badness)


def _badness(code: ExitCode) -> int:
    return (ExitCode.DONE, ExitCode.WARNING, ExitCode.DAMAGED).index(code)


async def _note_as_restored(access: Access, location: Location, plan: Plan) -> None:
    """In the volume's log, for its page, if a service is named and lets us."""
    if not access.services:
        return
    values: dict[str, MarkValue] = {
        RESTORED: location.path or "/", f"{RESTORED}_files": len(plan.files), f"{RESTORED}_bytes": plan.bytes
    }  # fmt: skip
    try:
        async with open_service(access, location.volume) as service:
            await service.mark(values, operation=service.new_operation())
    except JournalError as error:
        note(f"warning: that it was restored is not noted in the volume: {error.message}")


async def _restore_in_scratch(view: LogView, location: Location, style: Style) -> Plan:
    """Write all files, and read them back. Damage ends it with an error that names the file's bytes."""
    with tempfile.TemporaryDirectory(prefix="sos-journal-verify-") as scratch, open_plain_tree(Path(scratch)) as tree:
        plan = plan_files([status async for status in view.walk(location.path)], location.path)
        with progress("restoring", plan.bytes) as bar:
            await write_files(view, plan, tree, bar.advance)
    if style.json:
        print_json({"restored_files": len(plan.files), "restored_bytes": plan.bytes})
    else:
        click.echo(f"restored {count_text(len(plan.files), 'file')}, {size_text(plan.bytes)}, into scratch: all equal")
    return plan


def report_json(report: CopyReport) -> dict[str, object]:
    """A copy's report for programs."""
    return {
        "copy": report.label,
        "verdict": report.verdict.name,
        "records": report.records,
        "bytes": report.bytes,
        "lsn": report.end_lsn,
        "behind_bytes": report.behind_bytes,
        "faults": [{"object": fault.object, "lsn": fault.lsn, "what": fault.what} for fault in report.faults],
        "remarks": report.remarks,
        "problem": report.problem,
    }


def print_report(report: CopyReport) -> None:
    """A copy's report for people."""
    verdict = click.style(report.verdict.name, fg=COLOUR_OF[report.verdict])
    name = click.style(printable(report.label), bold=True)
    if report.problem:
        click.echo(f"{name}: {verdict}: {printable(report.problem)}")
        return
    read = f"{report.records} records, {size_text(report.bytes)} up to LSN {report.end_lsn}"
    behind = f", {size_text(report.behind_bytes)} behind" if report.behind_bytes else ""
    click.echo(f"{name}: {verdict}: {read}{behind}")
    for fault in report.faults:
        click.echo(f"  {click.style('damage', fg=BAD)}: {printable(fault.object)}: {printable(fault.what)}")
    for remark in report.remarks:
        click.echo(f"  note: {printable(remark)}")
