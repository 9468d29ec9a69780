"""`sos-journal repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from journal.cli.exit_codes import ExitCode
from journal.cli.locations import Location, LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.output import BAD, GOOD, print_json, progress, size_text
from journal.cli.running import finish, run_async
from journal.cli.views import log_access, open_log
from journal.errors import JournalCode, JournalError, refused
from journal.membership_change import accept_loss as accept_loss_of
from journal.repairing import Repair, carry_out, plan_repairs
from journal.settings import Surroundings
from journal.verification import bytes_to_verify, verify_copy
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.reading import VolumeReader


_LAST_SEGMENT: Final = "what is damaged is in the last segment; the volume's next owner mends it. Restart its service"


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

    With --accept-loss the volume is made usable again when too few of its members are left: acknowledged changes that
    none of them has are given up, for good, and the log says so. First try to bring the missing members back.
    """
    if accept_loss and not dry_run:
        _ask(location.volume, yes_lose)
        run_async(_accept_loss, location, style, access)
    else:
        run_async(_repair, location, dry_run, style, access)


def _ask(volume: str, answer: str | None) -> None:
    if answer is None:
        click.echo(
            f"Members of volume {volume} are missing. Changes that were acknowledged to applications, and that no\n"
            "member that answers now has, will be LOST FOR EVER, even if the missing members come back later. Spark\n"
            "queries may repeat or miss data. If a missing server can be started again, do that instead.",
            err=True,
        )
        answer = click.prompt("To accept the loss, type the name of the volume", err=True)
    if answer != volume:
        raise refused(JournalCode.BAD_REQUEST, "that is not the volume's name: nothing was changed")


async def _accept_loss(location: Location, style: Style, access: Access) -> None:
    access = await log_access(access, location.volume)
    surroundings = Surroundings(token=access.token, tls=access.tls, insecure=access.insecure)
    header = await accept_loss_of(
        location.volume, access.servers, directory=access.directory, surroundings=surroundings
    )
    if style.json:
        print_json({"epoch": header.epoch, "lsn": header.start, "accepted_loss": header.accepted_loss})
    else:
        click.echo(f"volume {location.volume} goes on at LSN {header.start}, epoch {header.epoch}")
        click.echo(f"given up: {printable(header.accepted_loss)}")


async def _repair(location: Location, dry_run: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    failed = False
    async with open_log(access, location.volume) as reader:
        with progress("verifying", bytes_to_verify(reader)) as advance:
            reports = {copy.label: await verify_copy(reader, copy, advance) for copy in reader.copies}
        repairs = [one for copy in reader.copies for one in plan_repairs(reader, copy, reports[copy.label])]
        left = sum(len({fault.object for fault in report.faults}) for report in reports.values()) - len(repairs)
        for one in repairs:
            done, words = ("planned", one.why) if dry_run else await _try(reader, one)
            failed = failed or done == "failed"
            if style.json:
                print_json({"copy": one.copy.label, "object": one.object, "result": done, "what": words})
            else:
                mark = click.style(done, fg=BAD if done == "failed" else GOOD)
                click.echo(f"{mark}: {printable(one.copy.label)}: {printable(one.object)}: {printable(words)}")
    if not repairs and not style.json:
        click.echo(_LAST_SEGMENT if left else "every copy that answers is whole")
    finish(ExitCode.DAMAGED if failed or left else ExitCode.DONE)


async def _try(reader: VolumeReader, one: Repair) -> tuple[str, str]:
    try:
        size = await carry_out(reader, one, lambda _done: None)
    except JournalError as error:
        return "failed", error.message
    return "repaired", f"{size_text(size)} written; it was so: {one.why}"
