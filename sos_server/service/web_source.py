"""What `sos-server --web` shows: whether it can keep what it is sent, room, namespaces. Implements StatusSource."""

from __future__ import annotations

import heapq
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import trio

from sos_client.web.sampling import STEP_SECONDS, Counters, LogPace, Samples
from sos_server.service.metrics import NAMESPACES_SHOWN
from sos_server.store.statistics import SYNC_SECONDS_BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sos_client.serving.event_log import EventLog
    from sos_client.web.status_source import ViewerSight
    from sos_server.service.metrics import Traffic
    from sos_server.store.object_store import ObjectStore

STUCK_SECONDS: Final = 2.0
"""A commit that is under way for this long is not explained by a slow disk."""
NEARLY_FULL_DAYS: Final = 7.0


class ServerSource:
    """`run` in a nursery for as long as the server serves."""

    def __init__(self, store: ObjectStore, traffic: Traffic, log: EventLog, *, address: str) -> None:
        self._store = store
        self._traffic = traffic
        self._log = log
        self._address = address
        self._started_ms = _now_ms()
        self._samples = Samples(SYNC_SECONDS_BOUNDS, self._counters, store.log.files.uncopied_bytes)
        self._pace = LogPace()
        self._in_flight: tuple[object, float] = None, 0.0
        self._version = 0
        self._seen: object = None

    @property
    def names(self) -> Iterable[str]:
        return self._store.contents.namespaces

    async def run(self) -> None:
        """Keep the last hour, until cancelled."""
        step = 0
        while True:
            self._look_at_commit()
            self._pace.take(time.time(), self._traffic.appended_bytes)
            if step % STEP_SECONDS == 0:
                self._samples.take(time.time())
            step += 1
            await trio.sleep(1)

    def _look_at_commit(self) -> None:
        batch = self._store.log.in_flight
        if batch is not self._in_flight[0]:
            self._in_flight = batch, time.monotonic()

    def _counters(self) -> Counters:
        statistics = self._store.statistics
        return Counters(
            puts=self._traffic.appends,
            bytes=self._traffic.appended_bytes,
            slower_than=tuple(statistics.sync_seconds_buckets),
        )

    def _outlook(self) -> dict[str, object]:
        why, statistics = self._why_unready(), self._store.statistics
        bad = statistics.failed_syncs + statistics.failed_copies + statistics.damaged_reads
        if why is not None:
            return {"level": "bad", "sentence": f"No: {why}.", "may_lose": -1}
        if bad:
            sentence = (
                f"Yes, but look at the disk: {statistics.failed_syncs} syncs and {statistics.failed_copies} copies "
                f"failed, and {statistics.damaged_reads} reads found damage since the start."
            )
            return {"level": "warning", "sentence": sentence, "may_lose": 0}
        days = self._days_left()
        if days is not None and days < NEARLY_FULL_DAYS:
            sentence = f"Yes, but at this rate the disk is full in {days:.1f} days."
            return {"level": "warning", "sentence": sentence, "may_lose": 0}
        return {"level": "good", "sentence": "Yes: what it is sent is on the disk a moment later.", "may_lose": 0}

    def _why_unready(self) -> str | None:
        if self._store.log.broken is not None:
            return f"every append is refused: {self._store.log.broken.message}"
        if self._store.refuses_appends:
            return f"every append is refused: {self._store.space.free_bytes:,} bytes are free on the disk"
        self._look_at_commit()
        batch, since = self._in_flight
        seconds = time.monotonic() - since
        if batch is not None and seconds >= STUCK_SECONDS:
            return f"the disk has not finished a sync for {seconds:.0f} s"
        return None

    def _days_left(self) -> float | None:
        grown = self._pace.bytes_per_day(time.time())
        return self._store.space.free_bytes / grown if grown else None

    # ---- what is shown

    def urgent(self) -> object:
        outlook = self._outlook()
        return outlook["level"]

    def live(self, sight: ViewerSight) -> dict[str, object]:
        outlook = self._outlook()
        if not sight.is_whole:
            outlook["sentence"] = "Yes." if outlook["level"] != "bad" else "No: every append is refused."
        found: dict[str, object] = {
            "kind": "server",
            "version": version("sos-checkpoints"),
            "time_ms": _now_ms(),
            "started_ms": self._started_ms,
            "address": self._address,
            "volumes": [{"volume": "this server", "outlook": outlook, "members": []}],
        }
        if sight.is_whole:
            found["now"] = self._samples.points[-1].as_json() if self._samples.points else None
            found["disk"] = self._disk()
        return found

    def _disk(self) -> dict[str, object]:
        free, grown, days = self._store.space.free_bytes, self._pace.bytes_per_day(time.time()), self._days_left()
        sentence = f"{free / 1e9:,.1f} GB are free on the disk."
        if grown is not None:
            sentence += f" {grown / 1e9:,.2f} GB come in a day at this rate"
            sentence += f": full in {days:,.1f} days, if nothing is deleted." if days is not None else "."
        return {"free_bytes": free, "bytes_per_day": grown, "days_left": days, "sentence": sentence}

    @property
    def details_version(self) -> int:
        return self._log.recent.version + self._version

    def details(self, sight: ViewerSight) -> dict[str, object]:
        every = self._store.contents.namespaces
        seen = [(name, every[name]) for name in sight.names if name in every]
        largest = heapq.nlargest(NAMESPACES_SHOWN, seen, key=lambda entry: entry[1].used_bytes)
        found: dict[str, object] = {
            "namespaces": [
                {"namespace": name, "bytes": one.used_bytes, "objects": len(one.objects)} for name, one in largest
            ],
            "events": [
                {
                    "time_ms": int(one.time * 1000), "level": one.level, "event": one.event, "text": one.text,
                    "count": one.count, "volume": one.volume,
                }
                for one in self._log.recent.newest_first()
                if (sight.is_whole if one.volume is None else one.volume in sight.names)
            ],
        }  # fmt: skip
        if sight.is_whole:
            found["hour"] = self._samples.as_json()
        return found

    async def refresh(self) -> None:
        seen = [(name, one.used_bytes) for name, one in self._store.contents.namespaces.items()]
        if seen != self._seen:
            self._seen = seen
            self._version += 1

    async def unready(self) -> str | None:
        return "appends are refused or hang: nothing could be acknowledged" if self._why_unready() else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
