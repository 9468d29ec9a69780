"""`sos-journal repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from journal.cli.locations import LocationType
from journal.cli.log import line_of_record, value_of_record
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import check_one_journal, in_each_journal, log_access, open_copies, open_log
from journal.copies.repairing import Repair, carry_out, plan_repairs
from journal.copies.verification import bytes_to_verify, verify_copy
from journal.errors import JournalCode, JournalError, refused
from journal.takeover.loss_report import LossReport, report_loss
from journal.takeover.membership_change import accept_loss as accept_loss_of
from sos_client.command.output import BAD, GOOD, print_json, progress, size_text, time_text
from sos_client.command.running import finish, run_async
from sos_client.printable import printable
from sos_client.wire.errors import ExitCode

if TYPE_CHECKING:
    from journal.copies.volume_reader import VolumeReader
    from journal.records.location import Location


_LAST_SEGMENT: Final = (
    "what is damaged is in the last segment; the volume's next owner mends it from the other members. Restart its "
    "service. If that says LOST, it is whole nowhere: --accept-loss --dry-run says what would be given up"
)


@click.command()
@click.argument("location", type=LocationType())
@click.option("--dry-run", is_flag=True, help="Say what would be replaced, and change nothing.")
@click.option("--accept-loss", is_flag=True, help="Go on without what no member that answers has. Asks first.")
@click.option("--yes-lose", metavar="VOLUME", help="The answer to that question, for scripts: the volume's name.")
@style_options
@access_options
def repair(
    *, location: Location, dry_run: bool, accept_loss: bool, yes_lose: str | None, style: Style, access: Access
) -> None:
    """Replace what is damaged or missing on a copy.

    Every copy is verified first; whole records come from the others. Needs a token with the right `append` on the
    servers: what is damaged there stays beside what takes its place, until the log is trimmed. The segment that is
    being written is left to the volume's owner, which brings members up to date itself, and mends what is damaged
    there when it is started the next time.

    \b
    sos-journal repair payments --servers a:7400,b:7400,c:7400 --dry-run

    With --accept-loss the volume is made usable again when too few of its members are left, or the end of the log is
    damaged on all of them: acknowledged changes that none of them has whole are given up, for good, and the log says
    so. It says first what that is (with --dry-run it only says it). First try to bring missing members back. Of a
    volume that is spread over shards it is told which one.
    """
    if accept_loss:
        run_async(_report_loss, location, dry_run, style, access)
        if not dry_run:
            _ask(location.volume, yes_lose)
            run_async(_accept_loss, location, style, access)
    else:
        run_async(_repair_all, location, dry_run, style, access)


def _ask(volume: str, answer: str | None) -> None:
    if answer is None:
        click.echo(
            f"Changes to volume {volume} that were acknowledged to applications, and that no member that answers now\n"
            "has whole, will be LOST FOR EVER, even if missing members come back later. Spark queries may repeat or\n"
            "miss data. If a missing server can be started again, do that instead.",
            err=True,
        )
        answer = click.prompt("To accept the loss, type the name of the volume", err=True)
    if answer != volume:
        raise refused(JournalCode.BAD_REQUEST, "that is not the volume's name: nothing was changed")


async def _report_loss(location: Location, dry_run: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    access = await log_access(access, location.volume)
    await check_one_journal(access, location.volume)
    async with open_copies(access, location.volume) as copies:
        report = await report_loss(copies)
    if style.json and dry_run:
        value = {"lsn": report.lsn, "time_ms": report.time_ms, "reason": report.reason, "bytes": report.bytes_behind}
        absent = {"segments": list(report.headless), "silent": list(report.silent)}
        print_json(value | absent | {"changes": [value_of_record(record) for record in report.named]})
        return
    for line in _lines_of(report, style):
        click.echo(printable(line), err=not dry_run)


def _lines_of(report: LossReport, style: Style) -> list[str]:
    lines = [f"the log would go on at LSN {report.lsn}, after the change of {time_text(report.time_ms, style.zone)}"]
    if report.reason:
        lines.append(f"because {report.reason}")
        lines.append(
            f"given up: what follows, {size_text(report.bytes_behind)} on the copies that answer; of these changes"
        )
        lines += [line_of_record(record, style) for record in report.named]
        lines.append(f"{len(report.named)} can be named; of what follows them nothing is known")
    else:
        lines.append("given up: nothing of that log")
    lines += [f"given up, too: {name}, which may be newer, and whose header is damaged" for name in report.headless]
    if report.silent:
        lines.append(f"given up, too: what only {', '.join(report.silent)} may have: not answering")
    return lines


async def _accept_loss(location: Location, style: Style, access: Access) -> None:
    access = await log_access(access, location.volume)
    header = await accept_loss_of(
        location.volume, access.servers, directory=access.directory, surroundings=access.surroundings
    )
    if style.json:
        print_json({"epoch": header.epoch, "lsn": header.start, "accepted_loss": header.accepted_loss})
    else:
        click.echo(f"volume {location.volume} goes on at LSN {header.start}, epoch {header.epoch}")
        click.echo(f"given up: {printable(header.accepted_loss) or 'nothing'}")


async def _repair_all(location: Location, dry_run: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    access = await log_access(access, location.volume)
    codes = await in_each_journal(
        access, location, lambda journal: _repair(journal, dry_run, style, access), heading=not style.json
    )
    finish(ExitCode.DAMAGED if ExitCode.DAMAGED in codes else ExitCode.DONE)


async def _repair(location: Location, dry_run: bool, style: Style, access: Access) -> ExitCode:  # noqa: FBT001
    failed = False
    async with open_log(access, location.volume) as reader:
        with progress("verifying", bytes_to_verify(reader)) as bar:
            reports = {copy.label: await verify_copy(reader, copy, bar.advance) for copy in reader.copies}
        repairs = [one for copy in reader.copies for one in plan_repairs(reader, copy, reports[copy.label])]
        left = sum(len({fault.object for fault in report.faults}) for report in reports.values()) - len(repairs)
        for one in repairs:
            done, words = ("planned", one.why) if dry_run else await _try(reader, one)
            failed = failed or done == "failed"
            if style.json:
                print_json(
                    {
                        "volume": location.volume,
                        "copy": one.copy.label,
                        "object": one.object,
                        "result": done,
                        "what": words,
                    }
                )
            else:
                mark = click.style(done, fg=BAD if done == "failed" else GOOD)
                click.echo(f"{mark}: {printable(one.copy.label)}: {printable(one.object)}: {printable(words)}")
    if not repairs and not style.json:
        click.echo(_LAST_SEGMENT if left else "every copy that answers is whole")
    return ExitCode.DAMAGED if failed or left else ExitCode.DONE


async def _try(reader: VolumeReader, one: Repair) -> tuple[str, str]:
    try:
        size = await carry_out(reader, one, lambda _done: None)
    except JournalError as error:
        return "failed", error.message
    return "repaired", f"{size_text(size)} written; it was so: {one.why}"
