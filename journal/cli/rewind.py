"""`sos-journal rewind`: a query's checkpoint back to an earlier batch, in its place."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from journal.checkpoint.layout import LogFormatError, parse_offsets
from journal.cli.checkpoints import diagnoses, print_diagnosis
from journal.cli.claims import all_claims, ask
from journal.cli.fork import new_file
from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, moment_of, style_options
from journal.cli.output_logs import OutputLog, open_output_log
from journal.cli.pins import pinned
from journal.cli.views import LogView, as_of_json, as_of_text, image_of, log_access, open_service, open_whole_log
from journal.errors import JournalCode, JournalError, refused
from journal.files.tree_writing import write_tree
from journal.records.moments import Now
from journal.records.paths import is_within, join
from sos_client.command.output import ago_text, count_text, note, print_json, progress, time_text
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from journal.checkpoint.checks import Diagnosis
    from journal.gateway.client.opening import WholeVolume
    from journal.records.location import Location

SINKS = (
    "file: Spark skips a batch that its _spark_metadata has, without a word: name the output with --file-sink",
    "sos-connector: the relay refuses batches that its sinks have: fork to new sinks, or accept duplicates there",
    "Kafka, foreach: what was sent stays sent, and is sent once more",
    "foreachBatch: called again with the same batch numbers; one that remembers numbers skips them",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """What going back comes to."""

    home: Location
    lsn: int
    moments: Mapping[str, int]
    batch: int | None
    last: int | None
    """Of the checkpoint as it is now."""
    last_ms: int | None
    sources: tuple[tuple[str, str], ...]
    diagnosis: Diagnosis
    outputs: tuple[OutputLog, ...]


@click.command()
@click.argument("location", metavar="sos://VOLUME/QUERY", type=LocationType())
@click.option("--to", "moment", metavar="MOMENT", required=True, help="batch:N (as committed), an LSN, a time, 15m.")
@click.option("--plan", "plan_only", is_flag=True, help="Say what would happen, and change nothing.")
@click.option("--apply", "apply_it", is_flag=True, help="Do it, after a question.")
@click.option("--file-sink", "outputs", multiple=True, metavar="DIR", help="Output of a file sink: DIR or sos://….")
@click.option("--yes", is_flag=True, help="Do not ask.")
@style_options
@access_options
def rewind(
    *,
    location: Location,
    moment: str,
    plan_only: bool,
    apply_it: bool,
    outputs: tuple[str, ...],
    yes: bool,
    style: Style,
    access: Access,
) -> None:
    """Take a stopped query back to an earlier batch, at its own path.

    What the checkpoint is now stays beside it, under another name. The plan says what the sources must still have, and
    what cannot be undone in the sinks.

    \b
    sos-journal rewind sos://payments/q1 --to batch:41 --plan
    sos-journal rewind sos://payments/q1 --to batch:41 --apply --file-sink /data/out
    """
    if plan_only == apply_it:
        raise click.UsageError("say --plan, to see what would happen, or --apply")
    if not location.path:
        raise refused(JournalCode.BAD_REQUEST, f"{location} is a whole volume: name the path of one query")
    run_async(_rewind, location, moment, (apply_it, yes), outputs, style, access)


async def _rewind(
    location: Location, moment: str, options: tuple[bool, bool], outputs: tuple[str, ...], style: Style, access: Access
) -> None:
    apply_it, yes = options
    access = await log_access(access, location.volume)
    async with open_whole_log(access, location.volume) as reader:
        view = LogView(reader, await image_of(reader, moment_of(moment, style), path=location.path))
        present = LogView(reader, await reader.image(Now()))
        plan = await _planned(location, view, present, outputs)
        _print_plan(plan, style)
        if not apply_it:
            return
        _check(plan)
        async with open_service(access, location.volume) as volume:
            found = [one for one in await all_claims(volume) if is_within(one.path, location.path)]
            if not yes:
                ask(found, f"Is the query stopped, and shall {printable(str(location))} go back?", style)
            files = [new_file(view, status, location.path) async for status in view.walk(location.path)]
            files = [file for file in files if file.path or not file.is_directory]
            aside = f"{location.path}.before-rewind-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}"
            scratch = f"{location.path}.rewound-{secrets.token_hex(4)}"
            async with pinned(access, view.moments, verb="rewind"):
                with progress("writing", sum(file.size for file in files)) as bar:
                    origin: dict[str, str | int] = {"rewound": location.path, "lsn": int(view.image.lsn)}
                    token = secrets.token_hex(4)
                    await write_tree(volume, files, scratch, scratch=token, origin=origin, progress=bar.advance)
            claim = max((one.claim for one in found), default=None)
            await _swap(volume, location.path, scratch, aside, claim)
            for output in plan.outputs:
                await output.move_aside(plan.batch, volume)
    done = {"rewound": str(location), "batch": plan.batch, "lsn": plan.lsn, "before": aside}
    if style.json:
        print_json(done)
    else:
        click.echo(f"{printable(str(location))} is as after batch {plan.batch}; what it was is at {printable(aside)}")


async def _swap(volume: WholeVolume, path: str, scratch: str, aside: str, claim: Any) -> None:
    """The present one aside, the earlier one in its place; back again if the second step is refused."""
    await volume.rename(path, aside, overwrite=False, operation=volume.new_operation(), claim=claim)
    try:
        await volume.rename(scratch, path, overwrite=False, operation=volume.new_operation())
    except JournalError:
        note(f"warning: put back {aside} to {path} if it is not there: sos-journal fork, or hadoop fs -mv")
        await volume.rename(aside, path, overwrite=False, operation=volume.new_operation())
        raise


async def _planned(location: Location, view: LogView, present: LogView, outputs: tuple[str, ...]) -> RewindPlan:
    then = await _diagnosis(view, location, "then")
    now = await _diagnosis(present, location, "now")
    batch = then.last_committed
    plan_path = None if batch is None else join(location.path, f"offsets/{batch}")
    last_path = join(location.path, f"commits/{now.last_committed}")
    last = present.image.tree.find(last_path)
    return RewindPlan(
        home=location,
        lsn=view.image.lsn,
        moments=view.moments,
        batch=batch,
        last=now.last_planned,
        last_ms=None if last is None else last.modified_ms,
        sources=() if plan_path is None else await _sources(view, plan_path),
        diagnosis=then,
        outputs=tuple([await open_output_log(output, present, location.volume) for output in outputs]),
    )


async def _diagnosis(view: LogView, location: Location, when: str) -> Diagnosis:
    found = await diagnoses(view, location)
    if location.path not in found:
        raise refused(JournalCode.NOT_FOUND, f"there was no checkpoint at {location} {when} (no offsets, no commits)")
    return found[location.path]


async def _sources(view: LogView, path: str) -> tuple[tuple[str, str], ...]:
    try:
        plan = parse_offsets(b"".join([piece async for piece in view.read(path)]))
    except (LogFormatError, JournalError) as error:
        note(f"warning: {path}: {error}")
        return ()
    names = plan.names or tuple(f"source {number}" for number in range(len(plan.sources)))
    return tuple(zip(names, plan.sources, strict=True))


def _check(plan: RewindPlan) -> None:
    if plan.batch is None:
        raise refused(JournalCode.BAD_REQUEST, f"{plan.home} had no committed batch then: delete it instead (rm -r)")
    if plan.diagnosis.resumable != plan.batch:
        raise refused(JournalCode.BAD_REQUEST, f"{plan.home} cannot go on from there: its state was not whole (doctor)")
    for output in plan.outputs:
        output.check(plan.batch)


def _print_plan(plan: RewindPlan, style: Style) -> None:
    again = range((plan.batch or 0) + 1, (plan.last or 0) + 1)
    warnings = [warning for output in plan.outputs for warning in output.warnings(plan.batch or 0)]
    if style.json:
        print_json(
            {
                "query": str(plan.home), "lsn": plan.lsn, "batch": plan.batch, "last": plan.last,
                "resumable": plan.diagnosis.resumable, "sources": dict(plan.sources), "warnings": warnings,
                **as_of_json(plan.moments),
            }
        )  # fmt: skip
        return
    then = f"batch {plan.batch} ({as_of_text(plan.moments)})"
    click.echo(f"{printable(str(plan.home))} goes back to {then}; it is at {plan.last} now")
    ago = ago_text(plan.last_ms, time.time_ns() // 1_000_000)
    last = f"{time_text(plan.last_ms, style.zone)}, {ago}"
    click.echo(f"last batch: {last}. Stop the query first, and start it again after")
    print_diagnosis(plan.home.path, plan.diagnosis)
    if again:
        click.echo(f"run again: {count_text(len(again), 'batch', 'batches')}, {again[0]} to {again[-1]}, from")
        for name, offset in plan.sources:
            click.echo(f"  {printable(name)}: the source must still have everything after {printable(offset)}")
        click.echo("what these batches have put out cannot be taken back:")
        for line in warnings or SINKS:
            click.echo(f"  {printable(line)}")
