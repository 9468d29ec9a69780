"""What accepting a loss would give up, as far as it can be known before anybody agrees. Reads; changes nothing.

Belongs here: where the log would end on the copies that answer, and what lies after that as far as it can be named.
What members that do not answer have, nobody here can know.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.copies.copies import DirectoryCopy
from journal.errors import DamagedJournalError, JournalCode, JournalError, UnavailableError
from journal.records.chain_rules import lost
from journal.takeover.chain_end import CopySilentError, assemble, history_of, read_holdings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal.copies.copies import Copy
    from journal.records.record import Record
    from journal.records.segment import SegmentHeader
    from journal.takeover.chain_end import Assembly, Holdings

NAMED_MAX: Final = 1000  # more are only counted in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """The log would go on at `lsn`; the last change before it was made at `time_ms`."""

    lsn: int
    time_ms: int
    reason: str  # why the log would end there; empty if it is whole up to its end
    bytes_behind: int  # of the log, on the copy that has most of it
    named: tuple[Record, ...]  # the changes after it whose headers can still be read, in order
    headless: tuple[str, ...]  # segments that may be newer, of which no copy has the header whole
    silent: tuple[str, ...]  # members that do not answer


async def report_loss(copies: Sequence[Copy]) -> LossReport:
    """UNAVAILABLE if a copy does not answer any more; LOST if there is no header to go on from."""
    headers: dict[str, SegmentHeader] = {}
    held: dict[Copy, Holdings] = {}
    for copy in copies:
        try:
            held[copy] = await read_holdings(copy, headers)
        except UnavailableError:
            continue
    if not headers:
        raise lost(0, "no copy that answers has a whole header of any segment: restore the volume from a backup")
    members = [copy for copy in held if not isinstance(copy, DirectoryCopy)]
    local = next((copy for copy in held if isinstance(copy, DirectoryCopy)), None)
    try:
        facts = [header.facts for header in headers.values()]
        assembly = await assemble(facts, members, local, accept_loss=True)
    except CopySilentError as error:
        raise UnavailableError(JournalCode.UNAVAILABLE, f"{error.copy.label} does not answer any more") from error
    newest = headers[assembly.links[-1].segment]
    damaged = {one for holdings in held.values() for one in holdings.damaged}
    sizes = {(copy.label, name): one.size for copy, found in held.items() for name, one in found.objects.items()}
    reach = max(size for (_, name), size in sizes.items() if name == assembly.end.segment) + newest.start
    answering = {copy.label for copy in held}
    return LossReport(
        lsn=assembly.end.end,
        time_ms=assembly.time_ms,
        reason=assembly.given_up,
        bytes_behind=reach - assembly.end.end if assembly.given_up else 0,
        named=await _named(assembly, headers, sizes, reach) if assembly.given_up else (),
        headless=tuple(sorted(str(one) for one in damaged if one.epoch >= newest.epoch and str(one) not in headers)),
        silent=tuple(sorted(m.address for m in newest.membership.members if m.address not in answering)),
    )


async def _named(
    assembly: Assembly, headers: dict[str, SegmentHeader], sizes: dict[tuple[str, str], int], reach: int
) -> tuple[Record, ...]:
    """Records after the end whose headers and descriptions are whole, up to one that is not."""
    chain = history_of(assembly, headers, sizes, assembly.copies)
    named: list[Record] = []
    try:
        async with aclosing(chain.records(assembly.end.end, reach, payloads=False)) as records:
            async for record in records:
                named.append(record)
                if len(named) == NAMED_MAX:
                    break
    except JournalError as error:
        if isinstance(error, DamagedJournalError) and error.code is JournalCode.TOO_NEW:
            raise
    return tuple(named)
