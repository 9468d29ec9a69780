"""`sos-journal status`."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click
import trio

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.overdue import overdue_findings
from journal.cli.retention_options import limit_texts
from journal.cli.views import in_each_journal, log_access, open_log, open_service, unread_members
from journal.copies.copies import MemberCopy
from journal.copies.promise import PromiseFinding, Verdict, judge
from journal.copies.surveying import lacking, survey
from journal.copies.verification import verify_called_damaged
from journal.errors import JournalError
from journal.records.moments import Now
from journal.records.shards import HOME
from sos_client.command.output import (
    BAD,
    DOUBTFUL,
    GOOD,
    duration_text,
    print_json,
    print_pairs,
    print_table,
    size_text,
    time_text,
)
from sos_client.command.running import finish, run_async
from sos_client.printable import printable
from sos_client.wire.errors import ExitCode
from sos_client.wire.holders import shown_holder

if TYPE_CHECKING:
    from journal.copies.copies import Copy
    from journal.copies.volume_reader import VolumeReader
    from journal.image.image import Image
    from journal.records.location import Location
    from journal.records.segment import SegmentHeader
    from journal.volume import VolumeDescription

SERVICE_SECONDS_MAX: Final = 3.0
_VERDICTS: Final = ("OK", "WARNING", "FAILURE")
_MEMBER_HEAD: Final = ("MEMBER", "VERDICT", "EPOCH", "LSN", "LAG", "STORED", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStatus:
    """What was found of one journal."""

    reader: VolumeReader
    image: Image
    members: list[CopyStatus]
    verdict: str
    findings: list[PromiseFinding]
    service: VolumeDescription | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStatus:
    """One copy, compared with the newest."""

    label: str
    verdict: str
    remark: str = ""
    identity: str = ""
    incarnation: str = ""
    epoch: int | None = None
    holder: str = ""
    lsn: int = 0
    lag_bytes: int = 0
    lag_ms: int = 0
    stored_bytes: int = 0
    objects: int = 0


@click.command()
@click.argument("location", type=LocationType())
@style_options
@access_options
def status(*, location: Location, style: Style, access: Access) -> None:
    """Say how a volume and its members are.

    Epoch, holder, LSN, lag, retention, verdict.

    Exits with 12 if a member lags or does not answer, or was claimed by somebody; with 8 if too few members are whole
    for writing, and for losing as many as the volume promises to survive.

    \b
    sos-journal status payments --servers a:7400,b:7400,c:7400
    """
    run_async(_status, location, style, access)


async def _status(location: Location, style: Style, access: Access) -> None:
    access = await log_access(access, location.volume)
    found = await in_each_journal(access, location, lambda journal: _status_of(journal, access))
    worst = max((one.verdict for one in found), key=_VERDICTS.index)
    if len(found) > 1 and style.json:
        print_json(_whole_as_json(location.volume, worst, found))
    elif len(found) > 1:
        _print_whole(location.volume, worst, found, style)
    elif style.json:
        print_json(_as_json(found[0]))
    else:
        _print(found[0], style)
    finish({"OK": ExitCode.DONE, "WARNING": ExitCode.WARNING}.get(worst, ExitCode.DAMAGED))


async def _status_of(location: Location, access: Access) -> JournalStatus:
    service = await _asked(access, location.volume)
    async with open_log(access, location.volume) as reader:
        image = await reader.image(Now())
        faults = await verify_called_damaged(reader)
        members = [await _member(reader, copy, faults.get(copy.label)) for copy in reader.copies]
        holdings = await survey(reader, faults)
        findings = judge(reader.header.membership, epoch=reader.header.epoch, holdings=holdings)
        # A directory says nothing of members.
        findings = [*findings, *await overdue_findings(reader)] if access.servers else []
        members += [CopyStatus(label=a, verdict="SILENT") for a in access.servers if a not in _labels(members)]
        if all(member.verdict != "SILENT" for member in members):  # who may be one of them under another name
            unread = unread_members(reader, access)
            members += [CopyStatus(label=address, verdict="UNKNOWN", remark=why) for address, why in unread]
    known = {member.identity for member in members if member.identity}
    missing = [one for one in reader.header.membership.members if one.identity.hex() not in known]
    verdict = _verdict(members, findings, missing=bool(access.servers and missing))
    return JournalStatus(
        reader=reader, image=image, members=members, verdict=verdict, findings=findings, service=service
    )


async def _asked(access: Access, volume: str) -> VolumeDescription | None:
    """What the service says of the volume, if it says so soon: a status must not wait for one that is away."""
    if access.services:
        with trio.move_on_after(SERVICE_SECONDS_MAX), suppress(JournalError):
            async with open_service(access, volume) as service:
                return await service.describe()
    return None


def _labels(members: list[CopyStatus]) -> set[str]:
    return {member.label for member in members}


def _verdict(members: list[CopyStatus], findings: list[PromiseFinding], *, missing: bool) -> str:
    doubtful = missing or any(member.verdict != "OK" for member in members)
    worst = max((finding.verdict for finding in findings), default=Verdict.OK)
    return max(worst, Verdict.WARNING if doubtful else Verdict.OK).name


async def _member(reader: VolumeReader, copy: Copy, fault: str | None) -> CopyStatus:
    problem = reader.problems.get(copy.label)
    if problem is not None:
        return CopyStatus(label=copy.label, verdict="FAILURE", remark=problem.message)
    end, newest = reader.chain.ends[copy.label], max(reader.chain.ends.values(), key=lambda one: one.lsn)
    mine = [size for (label, _), size in reader.chain.sizes.items() if label == copy.label]
    lag = max(0, reader.acknowledged_lsn - end.lsn)
    lacks = lacking(reader, copy.label) if isinstance(copy, MemberCopy) else []
    lacks += [] if fault is None else [fault]
    base = CopyStatus(
        label=copy.label,
        verdict="LAGS" if lag else "LACKS" if lacks else "OK",
        remark=_why_it_lags(reader, end.lsn) if lag else lacks[0] if lacks else "",
        lsn=end.lsn,
        lag_bytes=lag,
        lag_ms=newest.time_ms - end.time_ms if lag else 0,
        stored_bytes=sum(mine),
        objects=len(mine),
    )
    if not isinstance(copy, MemberCopy):
        return replace(base, remark="local copy")
    try:
        info = await copy.claim()
    except JournalError as error:
        return replace(base, verdict="FAILURE", remark=error.message)
    identity = copy.client.server_identity
    if (identity, info.incarnation) not in {(m.identity, m.incarnation) for m in reader.header.membership.members}:
        base = replace(base, verdict="FAILURE", remark="not a member of this volume (wiped, or replaced)")
    return replace(
        base,
        identity=identity.hex(),
        incarnation=info.incarnation.hex(),
        epoch=info.epoch,
        holder=(told if (told := info.holder) == reader.header.holder else shown_holder(told)).hex(),
    )


def _why_it_lags(reader: VolumeReader, lsn: int) -> str:
    """As far as it can be seen from outside: since when."""
    if lsn < reader.header.start:
        return "has nothing of this owner's: away since then, or the owner cannot reach it; comes back by itself"
    return "catching up, or refusing: its disk may be full or have failed (the service's log says which)"


def _print_whole(volume: str, verdict: str, shards: list[JournalStatus], style: Style) -> None:
    """Of a volume that is spread: what is one thing to its user, then a line for each shard and each copy of one."""
    home = shards[HOME].reader.header
    print_pairs(
        [
            ("volume", f"{printable(volume)}, spread over {len(shards)} shards"),
            ("verdict", click.style(verdict, fg=_colour_of(verdict))),
            ("files", _files_text(shards)),
            ("retention", _retention(home, shards[HOME].service)),
            *[
                (one.verdict.name.lower(), f"{printable(shard.reader.volume)}: {printable(one.what)}")
                for shard in shards
                for one in shard.findings
            ],
            *[
                ("accepted loss", f"{printable(shard.reader.volume)}: {printable(loss)}")
                for shard in shards
                for loss in _losses(shard.reader)
            ],
        ]
    )
    click.echo()
    rows = [_shard_row(one, style) for one in shards]
    head = ("SHARD", "VERDICT", "EPOCH", "QUORUM", "ACKNOWLEDGED", "OLDEST", "FILES", "LAST RECORD")
    print_table(head, rows, right=(2, 4, 5, 6))
    click.echo()
    print_table(
        ("SHARD", *_MEMBER_HEAD),
        [(printable(one.reader.volume), *row) for one in shards for row in _member_rows(one.members)],
        right=(3, 4, 5, 6),
    )


def _files_text(shards: list[JournalStatus]) -> str:
    count = sum(one.image.tree.file_count for one in shards)
    return f"{count}, {size_text(sum(sum(one.image.tree.live_bytes) for one in shards))} live"


def _shard_row(one: JournalStatus, style: Style) -> tuple[str, ...]:
    header, last = one.reader.header, max(one.reader.chain.ends.values(), key=lambda end: end.lsn)
    configuration = header.membership.configuration
    return (
        printable(one.reader.volume),
        click.style(one.verdict, fg=_colour_of(one.verdict)),
        str(header.epoch),
        f"{configuration.acknowledgements} of {len(configuration.members)}",
        f"LSN {one.reader.acknowledged_lsn}",
        f"LSN {one.reader.oldest_lsn}",
        str(one.image.tree.file_count),
        time_text(last.time_ms, style.zone),
    )


def _colour_of(verdict: str) -> str:
    return {"OK": GOOD, "WARNING": DOUBTFUL}.get(verdict, BAD)


def _print(found: JournalStatus, style: Style) -> None:
    reader, service = found.reader, found.service
    header, last = reader.header, max(reader.chain.ends.values(), key=lambda one: one.lsn)
    configuration = header.membership.configuration
    age_ms = time.time_ns() // 1_000_000 - last.time_ms
    print_pairs(
        [
            ("volume", printable(reader.volume)),
            ("verdict", click.style(found.verdict, fg=_colour_of(found.verdict))),
            ("epoch", str(header.epoch)),
            ("holder", header.holder.hex()),
            ("quorum", f"{configuration.acknowledgements} of {len(configuration.members)} members"),
            ("acknowledged", f"LSN {reader.acknowledged_lsn}"),
            ("last record", f"{time_text(last.time_ms, style.zone)}, {duration_text(max(0, age_ms))} ago"),
            ("files", _files_text([found])),
            ("retention", _retention(header, service)),
            ("oldest moment", f"LSN {reader.oldest_lsn}"),
            *[("accepted loss", printable(loss)) for loss in _losses(reader)],
            *[(finding.verdict.name.lower(), printable(finding.what)) for finding in found.findings],
        ]
    )
    click.echo()
    print_table(_MEMBER_HEAD, _member_rows(found.members), right=(2, 3, 4, 5))


def _member_rows(members: list[CopyStatus]) -> list[tuple[str, ...]]:
    return [
        (
            printable(member.label),
            click.style(member.verdict, fg=GOOD if member.verdict == "OK" else BAD),
            "-" if member.epoch is None else str(member.epoch),
            str(member.lsn),
            f"{size_text(member.lag_bytes)}, {duration_text(member.lag_ms)}" if member.lag_bytes else "-",
            size_text(member.stored_bytes),
            printable(member.remark),
        )
        for member in members
    ]


def _losses(reader: VolumeReader) -> list[str]:
    """What operators gave up, in the history that is kept."""
    headers = (reader.chain.headers[link.segment] for link in reader.chain.links)
    return [f"LSN {header.start}: {header.accepted_loss}" for header in headers if header.accepted_loss]


def _retention(header: SegmentHeader, service: VolumeDescription | None) -> str:
    parts = limit_texts((service or header).retention)
    text = " or ".join(parts) + ", whichever comes first" if len(parts) > 1 else parts[0] if parts else "everything"
    return text if service is not None else f"{text}, unless its service was told otherwise (ask it: --service)"


def _whole_as_json(volume: str, verdict: str, shards: list[JournalStatus]) -> dict[str, object]:
    return {
        "volume": volume,
        "verdict": verdict,
        "files": sum(one.image.tree.file_count for one in shards),
        "live_bytes": sum(sum(one.image.tree.live_bytes) for one in shards),
        "shards": [_as_json(one) for one in shards],
    }


def _as_json(found: JournalStatus) -> dict[str, object]:
    reader, service, tree = found.reader, found.service, found.image.tree
    header = reader.header
    return {
        "volume": reader.volume,
        "volume_id": header.volume_id.hex(),
        "verdict": found.verdict,
        "epoch": header.epoch,
        "holder": header.holder.hex(),
        "acknowledged_lsn": reader.acknowledged_lsn,
        "oldest_lsn": reader.oldest_lsn,
        "files": tree.file_count,
        "live_bytes": sum(tree.live_bytes),
        "accepted_losses": _losses(reader),
        "findings": [{"verdict": one.verdict.name, "what": one.what} for one in found.findings],
        **(service or header).retention.as_json(),
        "retention_from": "volume" if service is None else "service",
        "acknowledgements": header.membership.configuration.acknowledgements,
        "configured": [
            {"identity": m.identity.hex(), "incarnation": m.incarnation.hex(), "address": m.address}
            for m in header.membership.configuration.members
        ],
        "members": [
            {
                "member": m.label, "verdict": m.verdict, "remark": m.remark, "identity": m.identity,
                "incarnation": m.incarnation, "epoch": m.epoch, "holder": m.holder, "lsn": m.lsn,
                "lag_bytes": m.lag_bytes, "lag_ms": m.lag_ms, "stored_bytes": m.stored_bytes, "objects": m.objects,
            }
            for m in found.members
        ],
    }  # fmt: skip
