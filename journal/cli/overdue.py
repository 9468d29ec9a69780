"""What members keep although retention has given it up: for `status` and `doctor`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from journal.copies.copies import MemberCopy
from journal.copies.promise import PromiseFinding, Verdict
from journal.errors import JournalError
from journal.image.index_snapshot import parse_snapshot_name
from journal.owner.retention import superfluous
from sos_client.command.output import count_text, size_text

if TYPE_CHECKING:
    from journal.copies.volume_reader import VolumeReader


async def overdue_findings(reader: VolumeReader) -> list[PromiseFinding]:
    """What retention has given up for a whole segment, and members still keep: nobody may delete it there."""
    if len(reader.chain.links) < 2:
        return []
    before = reader.chain.headers[reader.chain.links[-2].segment]
    kept = [name for name in reader.chain.names if (found := parse_snapshot_name(name)) and found.lsn >= before.oldest]
    findings = []
    for copy in reader.copies:
        if not isinstance(copy, MemberCopy) or copy.label in reader.problems:
            continue
        with suppress(JournalError):
            sizes = {name: one.size for name, one in (await copy.list()).items()}
            gone = superfluous(sizes, reader.chain.links, kept, trim=min(before.trim, before.oldest))
            if gone:
                size = size_text(sum(sizes[name] for name in gone))
                what = (
                    f"{copy.label} keeps {count_text(len(gone), 'object')} ({size}) that retention has given up: "
                    "the service's token needs the right delete, or the server keeps them (storage.retention_seconds)"
                )
                findings.append(PromiseFinding(verdict=Verdict.WARNING, what=what))
    return findings
