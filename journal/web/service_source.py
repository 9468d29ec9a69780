"""What `sos-journal serve --web` shows: volumes, members, the last hour, what it did. Implements StatusSource."""

from __future__ import annotations

import shlex
import shutil
import time
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, cast

import trio

from journal.errors import JournalCode
from journal.gateway.metrics import BUCKETS_SECONDS
from journal.gateway.wire.messages import FileMessageType
from journal.records.shards import parse_shard
from journal.web.outlook import BAD, DOUBTFUL, unknown
from journal.web.owned_volume import OwnedVolumeStatus
from journal.web.volume_details import VolumeDetails
from sos_client.web.sampling import STEP_SECONDS, Counters, Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from journal.gateway.metrics import GatewayMetrics
    from journal.owner.journal import Journal
    from journal.service.keeper import VolumeKeeper
    from journal.service.siblings import Siblings
    from sos_client.serving.event_log import EventLog
    from sos_client.web.status_source import ViewerSight

_PUTS: Final = (FileMessageType.PUT, FileMessageType.WRITE_COMMIT, FileMessageType.APPEND)
BUSY_PUTS_PER_SECOND: Final = 200
READY_KEPT_SECONDS: Final = 0.1
ROWS_MAX: Final = 50
PAST_PAUSE_SECONDS: Final = 10.0
"""Reading of the log goes on for this long after the last look: a page that is loaded again finds it going."""


class ServiceSource:
    """`run` in a nursery for as long as the service serves."""

    def __init__(
        self,
        keepers: Sequence[VolumeKeeper],
        metrics: GatewayMetrics,
        log: EventLog,
        *,
        address: str,
        reachable: str,
        siblings: Siblings,
        directory: Path,
        connectors: Callable[[], dict[str, Any] | None] = lambda: None,
    ) -> None:
        """`address`: where files are served. `reachable`: the same for a command that is copied.

        `connectors`: what a listener beside this service says of its streams, as JSON; None: there is none.
        """
        self._keepers = {keeper.name: keeper for keeper in keepers}
        self._metrics = metrics
        self._log = log
        self._address = address
        self._reachable = reachable
        self._siblings = siblings
        self._directory = directory
        self._connectors = connectors
        self._started_ms = _now_ms()
        self._statuses: dict[str, OwnedVolumeStatus] = {}
        self._details: dict[str, VolumeDetails] = {}
        self._samples = Samples(BUCKETS_SECONDS, self._counters, self._gap_bytes)
        self._looked_at = trio.Event()
        self._last_look = 0.0
        self._ready: tuple[float, str | None] = -1e9, None
        self._asking = trio.Lock()
        self._report: dict[str, object] | None = None
        self._reports = 0

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._keepers)

    async def run(self) -> None:
        """Keep the last hour; read the log while somebody looks. Until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_past_while_watched)
            step = 0
            while True:
                for status in self._owned():
                    status.take(time.time())
                if step % STEP_SECONDS == 0:
                    self._samples.take(time.time())
                step += 1
                await trio.sleep(1)

    async def _read_past_while_watched(self) -> None:
        while True:
            await self._looked_at.wait()
            async with trio.open_nursery() as nursery:
                reading = list(self._details.values())
                for details in reading:
                    nursery.start_soon(details.read_past)
                while trio.current_time() - self._last_look < PAST_PAUSE_SECONDS:
                    await trio.sleep(1)
                    if list(self._details.values()) != reading:
                        break
                nursery.cancel_scope.cancel()
            if trio.current_time() - self._last_look >= PAST_PAUSE_SECONDS:
                self._looked_at = trio.Event()

    def _owned(self) -> list[OwnedVolumeStatus]:
        """Of the volumes that this service has now; what is known of others goes."""
        for name, keeper in self._keepers.items():
            volume, known = cast("Journal | None", keeper.owned_volume), self._statuses.get(name)  # or around one
            if volume is None:
                self._statuses.pop(name, None)
                self._details.pop(name, None)
            elif known is None or known.journal is not volume:
                status = OwnedVolumeStatus(volume, place=place_of([self._reachable]), is_busy=self._is_busy)
                status.take(time.time())
                self._statuses[name], self._details[name] = status, VolumeDetails(status)
        return list(self._statuses.values())

    def _is_busy(self) -> bool:
        points = self._samples.points
        return bool(points) and points[-1].puts > BUSY_PUTS_PER_SECOND

    def _counters(self) -> Counters:
        histograms = [self._metrics.seconds[code] for code in _PUTS]
        return Counters(
            puts=sum(sum(one.counts) for one in histograms),
            bytes=self._metrics.bytes_in,
            slower_than=[sum(counts) for counts in zip(*(one.counts for one in histograms), strict=True)],
        )

    def _gap_bytes(self) -> int:
        return sum(status.gap_bytes for status in self._statuses.values())

    # ---- what is shown

    def urgent(self) -> object:
        owned = {status.volume: status.urgent() for status in self._owned()}
        return [(name, owned.get(name)) for name in self._keepers]

    def live(self, sight: ViewerSight) -> dict[str, object]:
        owned = {status.volume: status for status in self._owned()}
        volumes = [
            owned[name].live() if name in owned else self._absent(name) for name in self._keepers if name in sight.names
        ]
        found: dict[str, object] = {
            "kind": "service",
            "version": version("sos-checkpoints"),
            "time_ms": _now_ms(),
            "started_ms": self._started_ms,
            "address": self._address,
            "volumes": volumes,
        }
        if sight.is_whole:
            found["now"] = self._samples.points[-1].as_json() if self._samples.points else None
            with suppress(OSError):  # a standby has not made its directory yet
                found["disk"] = {"free_bytes": shutil.disk_usage(self._directory).free}
        return found

    def _absent(self, name: str) -> dict[str, object]:
        absence = self._keepers[name].absence
        level = DOUBTFUL if absence.code is JournalCode.NOT_OWNER else BAD  # a standby is not a reason to be alarmed
        why = unknown(f"This service does not have the volume: {absence.message}", level)
        return {"volume": name, "owned": False, "outlook": why.as_json(), "members": []}

    @property
    def details_version(self) -> int:
        return self._log.recent.version + self._reports + sum(details.version for details in self._details.values())

    def details(self, sight: ViewerSight) -> dict[str, object]:
        found: dict[str, object] = {
            "details": [details.as_json() for name, details in self._details.items() if name in sight.names],
            "events": self._events(sight),
        }
        if sight.is_whole:
            found["hour"] = self._samples.as_json()
            found["connectors"] = self._report
        return found

    def _events(self, sight: ViewerSight) -> list[dict[str, object]]:
        return [
            {
                "time_ms": int(one.time * 1000), "level": one.level, "event": one.event, "text": one.text,
                "count": one.count, "volume": one.volume,
            }
            for one in self._log.recent.newest_first()
            if (sight.is_whole if one.volume is None else one.volume in sight.names)
        ]  # fmt: skip

    async def refresh(self) -> None:
        self._last_look = trio.current_time()
        self._owned()
        self._looked_at.set()
        report = shortened(self._connectors())
        if report != self._report:
            self._report = report
            self._reports += 1
        for name, status in list(self._statuses.items()):
            if parse_shard(name) is not None:  # commands are about the whole volume, and need all its services
                status.place = place_of(await self._siblings.addresses(name, self._reachable))
        for details in list(self._details.values()):
            await details.refresh()

    async def unready(self) -> str | None:
        async with self._asking:
            asked, why = self._ready
            if trio.current_time() - asked >= READY_KEPT_SECONDS:
                why = await self._why_unready()
                self._ready = trio.current_time(), why
            return why

    async def _why_unready(self) -> str | None:
        owned = self._owned()
        missing = len(self._keepers) - len(owned)
        if missing:
            return f"{missing} of {len(self._keepers)} volumes are not this service's now"
        for status in owned:
            why = await status.unready()
            if why is not None:
                return f"one of {len(owned)} volumes cannot be written now: {why}" if len(owned) > 1 else why
        return None


def place_of(addresses: Sequence[str]) -> str:
    """The options of `sos-journal` that lead to services."""
    return f"--service {shlex.quote(','.join(addresses))}"


def shortened(report: dict[str, Any] | None) -> dict[str, object] | None:
    """What a listener says of itself, with no more of each list than a person reads."""
    if report is None:
        return None
    return {
        name: value[:ROWS_MAX] if isinstance(value, list) else value
        for name, value in report.items()
        if name not in {"volume", "epoch", "time_ms"}
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
