"""One volume's queries, past, room and state, found out again while somebody looks: never faster than is told here.

Belongs here: what is kept between looks, and what is shown of it. Where the tree, its content and the log come from is
the caller's business: a service has them in memory and beside it, `sos-journal web` reads them from the servers.
"""

from __future__ import annotations

import logging
import shlex
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import trio

from journal.checkpoint.checks import Severity
from journal.checkpoint.layout import LogFormatError
from journal.checkpoint.operator_metadata import operator_paths, parse_operator
from journal.errors import JournalError
from journal.files.diagnosing import diagnoses
from journal.image import nodes
from journal.owner.query_facts import BatchTimes, StateSize, batches_of, find_queries, state_of
from journal.records.paths import join
from journal.records.shards import parse_shard
from journal.web.log_past import LogPast

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from journal.checkpoint.checks import Diagnosis
    from journal.checkpoint.operator_metadata import OperatorStores
    from journal.copies.volume_reader import VolumeReader
    from journal.files.diagnosing import TreeView
    from journal.image.image import Image

_LOG: Final = logging.getLogger("journal.web")
LOOK_THROUGH_SECONDS: Final = 20.0
"""Between two looks through all files of a query: the doctor's verdict, sizes of state."""
LOOK_THROUGH_SECONDS_MAX: Final = 5.0
FILES_MAX: Final = 20_000
"""A query with more files is not looked through here, which would hold up its batches: `sos-journal doctor` does it."""
SHOWN_BATCHES: Final = 50
CHART_POINTS: Final = 240
PAST_SECONDS: Final = 30.0


class VolumeSource(Protocol):
    """Where a volume is looked at."""

    @property
    def volume(self) -> str:
        """Its name."""

    @property
    def image(self) -> Image:
        """As it is now; of a volume that is spread, what HOME has. Not to be kept over a wait."""

    async def whole(self) -> tuple[Image, TreeView]:
        """The same with content; where the volume is spread, with the state of all shards. JournalError."""

    @property
    def place(self) -> str:
        """The options of `sos-journal` that lead here, as one would type them."""

    def reader(self) -> AbstractAsyncContextManager[VolumeReader]:
        """Of the log as it is now."""

    def is_busy(self) -> bool:
        """Whether so much is written that reading should wait."""


@dataclass(slots=True)
class QueryDetails:
    """What is kept of one query."""

    batches: dict[int, BatchTimes] = field(default_factory=dict)
    state: list[StateSize] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    verdict: dict[str, object] = field(default_factory=dict)
    looked_at: float = -1e9


class VolumeDetails:
    """`refresh` every few seconds while somebody looks; `as_json` at any time."""

    def __init__(self, source: VolumeSource) -> None:
        self._source = source
        self._queries: dict[str, QueryDetails] = {}
        self._past = LogPast()
        self._oldest: tuple[int, int | None] = (0, None)
        self._seen: object = None
        self.version = 0

    async def refresh(self) -> None:
        """Find out again what may have changed. What cannot be read now stays as it was."""
        image = self._source.image
        roots = find_queries(image.tree)
        self._queries = {root: self._queries.get(root) or QueryDetails() for root in roots}
        for root, details in self._queries.items():
            details.batches = batches_of(image.tree, root)
        seen = [(root, one.batches.get(max(one.batches, default=0))) for root, one in self._queries.items()]
        if (seen, self._past.version) != self._seen:
            self._seen = seen, self._past.version
            self.version += 1
        for root, details in list(self._queries.items()):
            if trio.current_time() - details.looked_at >= LOOK_THROUGH_SECONDS:
                await self._look_through(root, details)
                self.version += 1

    async def read_past(self) -> None:
        """Read what the log has and the tree has not, a little at a time. To be cancelled when nobody looks."""
        while True:
            try:
                async with self._source.reader() as reader:
                    oldest = reader.oldest_lsn
                    link = reader.chain.object_at(oldest)
                    self._oldest = int(oldest), reader.chain.times.get(link.segment)
                    await self._past.read(reader, is_busy=self._source.is_busy)
            except JournalError as error:
                _LOG.info("the log could not be read for the page: %s", error)
            await trio.sleep(PAST_SECONDS)

    async def _look_through(self, root: str, details: QueryDetails) -> None:
        """All files of a query, within a bounded time."""
        details.looked_at = trio.current_time()
        volume = self._source.volume
        try:
            image, view = await self._source.whole()
        except JournalError as error:
            _LOG.info("not looked through: %s: %s", root, error)
            return
        node = nodes.find(image.tree.root, root)
        if not isinstance(node, nodes.Directory) or _is_larger(node, FILES_MAX):
            advice = f"sos-journal doctor sos://{volume}/{root}"
            details.verdict = {"severity": "UNKNOWN", "words": f"too many files to look through here: {advice}"}
            return
        statuses = [status for status in image.tree.walk(root) if not status.is_directory]
        details.files, details.bytes = len(statuses), sum(status.size for status in statuses)
        with trio.move_on_after(LOOK_THROUGH_SECONDS_MAX):
            try:
                operators = await _operators(view, root, [status.path for status in statuses])
                details.state = state_of(root, statuses, operators)
                found = await diagnoses(view, volume, root)
            except JournalError as error:  # such as a file that Spark has purged meanwhile: the next look finds others
                _LOG.debug("not looked through: %s: %s", root, error)
                return
            if root in found:
                details.verdict = verdict_of(found[root])

    # ---- what is shown

    def as_json(self) -> dict[str, object]:
        """All of it."""
        image = self._source.image
        oldest_lsn, oldest_ms = self._oldest
        return {
            "volume": self._source.volume,
            "queries": [self._query_json(root, details, image) for root, details in self._queries.items()],
            "past": {
                "oldest_lsn": oldest_lsn,
                "oldest_ms": oldest_ms,
                "restored": None if self._past.restored is None else asdict(self._past.restored),
                "read_bytes": self._past.read_bytes,
                "whole_bytes": self._past.whole_bytes,
                "pins": [
                    {"name": pin.name, "lsn": pin.lsn, "expires_ms": pin.expires_ms} for pin in image.pins.values()
                ],
            },
            "room": {
                "queries": [
                    {"query": root, "bytes": details.bytes, "files": details.files}
                    for root, details in self._queries.items()
                ],
            },
            "events": [
                {"time_ms": one.time_ms, "event": one.event, "text": one.text, "from": "log"}
                for one in self._past.happened
            ],
        }

    def _query_json(self, root: str, details: QueryDetails, image: Image) -> dict[str, object]:
        every = self._past.batches.get(root, {}) | details.batches
        ordered = [every[number] for number in sorted(every)]
        committed = [batch for batch in ordered if batch.committed_ms is not None]
        last = ordered[-1] if ordered else None
        claim = image.claims.of(root)
        return {
            "query": root,
            "last_batch": last.number if last else None,
            "last_committed": committed[-1].as_json() if committed else None,
            "running_since_ms": last.planned_ms if last and last.committed_ms is None else None,
            "holder": None if claim is None else {"application": claim.application, "start_time": claim.start_time},
            "verdict": details.verdict or {"severity": "UNKNOWN", "words": "not looked through yet"},
            "state": [size.as_json() for size in details.state],
            "batches": [batch.as_json() for batch in ordered[-SHOWN_BATCHES:]],
            "lengths": lengths_chart(committed),
            "commands": self._commands(root),
        }

    def _commands(self, root: str) -> dict[str, str]:
        """To be copied; `{N}` stands for the batch. They are about the whole volume, also where this is a shard's."""
        shard = parse_shard(self._source.volume)
        volume = shard.volume if shard else self._source.volume
        location = f"sos://{volume}/{root}".removesuffix("/")
        name = root.rpartition("/")[2] or volume
        fork = f"{location}-batch-NUMBER" if root else f"{location}/fork-batch-NUMBER"
        words = {
            "fork": ["sos-journal", "fork", location, fork, "--at", "batch:NUMBER"],
            "restore": ["sos-journal", "restore", location, f"{name}-batch-NUMBER", "--at", "batch:NUMBER"],
            "files": ["sos-journal", "ls", location, "--at", "batch:NUMBER"],
        }
        return {verb: f"{shlex.join(line)} {self._source.place}" for verb, line in words.items()}


async def _operators(view: TreeView, root: str, paths: list[str]) -> Mapping[int, OperatorStores]:
    prefix = f"{root}/" if root else ""
    found: dict[int, OperatorStores] = {}
    for path in operator_paths((path[len(prefix) :] for path in paths), batch=None):
        data = b"".join([piece async for piece in view.read(join(root, path))])
        try:
            described = parse_operator(data)
        except LogFormatError:
            continue
        found[described.operator] = described
    return found


def lengths_chart(committed: list[BatchTimes]) -> list[list[int]]:
    """(commit time, longest of a few batches) for at most this many points."""
    known = [(batch.committed_ms, took) for batch in committed if (took := batch.took_ms) is not None]
    step = -(-len(known) // CHART_POINTS) or 1
    groups = [known[at : at + step] for at in range(0, len(known), step)]
    return [[group[-1][0] or 0, max(took for _, took in group)] for group in groups]


def verdict_of(diagnosis: Diagnosis) -> dict[str, object]:
    """The doctor's verdict in words."""
    findings = [
        {"severity": one.severity.name, "what": one.what, "advice": one.advice}
        for one in sorted(diagnosis.findings, key=lambda one: -one.severity)
    ][:10]
    worst = next((one for one in diagnosis.findings if one.severity is diagnosis.severity), None)
    words = "all is well" if worst is None or diagnosis.severity is Severity.OK else worst.what
    return {"severity": diagnosis.severity.name, "words": words, "findings": findings, "looked_ms": _now_ms()}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _is_larger(directory: nodes.Directory, most: int) -> bool:
    """Whether there are more files below: found out without looking at more than that."""
    count, todo = 0, [directory]
    while todo and count <= most:
        at = todo.pop()
        count += len(at.children)
        todo += [node for node in at.children.values() if isinstance(node, nodes.Directory)]
    return count > most
