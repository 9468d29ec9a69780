"""What is known of the messages of a run, and what an ingest volume may say of them. The judge of the ingest part.

Who sends writes his name into it, another one each time that he is given the stream. So a row says who had the stream,
and a stream that two had at the same time is seen.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.world import World

NOTHING_SEEN = (1 << 64) - 1


class Row(NamedTuple):
    """A message that is stored."""

    sequence: int
    stream_id: int
    message_id: int
    payload: bytes


@dataclass(slots=True)
class Reign:
    """A stream that a connection was given: from which message on, and what it sent."""

    sender: str
    stream_id: int
    granted: int
    flying: list[tuple[int, bytes]]


class Ledger:
    """Everything that was sent, and heard of it; -1 where nothing was seen."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sent: dict[int, dict[int, set[bytes]]] = defaultdict(lambda: defaultdict(set))
        self._certain: dict[tuple[int, int], bytes] = {}
        self._granted: dict[tuple[str, int], int] = {}
        self._read: dict[int, Row] = {}
        self._heard: dict[int, int] = {}

    @property
    def acknowledged(self) -> int:
        return len(self._certain)

    def heard(self, stream_id: int) -> int:
        """The highest point of reference that anybody was told."""
        return self._heard.get(stream_id, -1)

    # ── producers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def grant(self, sender: str, stream_id: int, point: int, *, before: int) -> Reign:
        """A connection was given the stream. `before`: what was known to be durable when it asked."""
        point = -1 if point == NOTHING_SEEN else point
        highest = max(self._sent[stream_id], default=-1)
        self._world.require(
            before <= point <= highest,
            f"{sender} was told that stream {stream_id} is at {point}: acknowledged were {before}, sent {highest}",
        )
        self._tell(stream_id, point)
        self._granted[sender, stream_id] = point
        return Reign(sender, stream_id, point, [])

    def send(self, reign: Reign, message_id: int, payload: bytes) -> None:
        """It is about to be sent."""
        self._sent[reign.stream_id][message_id].add(payload)
        if message_id > reign.granted:
            reign.flying.append((message_id, payload))

    def acknowledge(self, reign: Reign, point: int) -> None:
        """The connection was told that everything up to `point` is durable."""
        if point == NOTHING_SEEN:
            return
        last = reign.flying[-1][0] if reign.flying else reign.granted
        self._world.require(
            point <= max(last, reign.granted),
            f"{reign.sender} sent up to {last} of stream {reign.stream_id}, acknowledged is {point}",
        )
        while reign.flying and reign.flying[0][0] <= point:
            message_id, payload = reign.flying.pop(0)
            reign.granted = message_id
            if payload:
                self._certain[reign.stream_id, message_id] = payload
        self._tell(reign.stream_id, point)

    def _tell(self, stream_id: int, point: int) -> None:
        self._heard[stream_id] = max(self.heard(stream_id), point)

    # ── readers ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, reader: str, rows: Iterable[tuple[int, int, int, bytes]]) -> list[Row]:
        """What a reader was given: each row is what it was for everybody who read it before."""
        taken = [Row(*row) for row in rows]
        for row in taken:
            before = self._read.setdefault(row.sequence, row)
            self._world.require(before == row, f"{reader} read {row}, where {before} was read before")
            self._world.require(
                row.payload in self._sent[row.stream_id].get(row.message_id, ()), f"nobody has sent {row}"
            )
        return taken

    def judge(self, rows: list[Row]) -> None:
        """All rows, at the end."""
        require = self._world.require
        require(
            [row.sequence for row in rows] == list(range(len(rows))), "sequence numbers are missing, or twice there"
        )
        require(len(rows) >= len(self._read), f"{len(self._read)} rows were read, {len(rows)} are left")
        stored: dict[tuple[int, int], bytes] = {}
        last: dict[int, int] = {}
        reigning: dict[int, str] = {}
        over: set[tuple[int, str]] = set()
        for row in rows:
            before = last.get(row.stream_id, -1)
            require(row.message_id > before, f"stream {row.stream_id} has {row.message_id} after {before}")
            last[row.stream_id] = row.message_id
            stored[row.stream_id, row.message_id] = row.payload
            sender = sender_of(row.payload)
            if reigning.get(row.stream_id) != sender:
                require(
                    (row.stream_id, sender) not in over, f"stream {row.stream_id} went back to {sender}: two had it"
                )
                if row.stream_id in reigning:
                    over.add((row.stream_id, reigning[row.stream_id]))
                reigning[row.stream_id] = sender
        for (stream_id, message_id), payload in self._certain.items():
            require(
                stored.get((stream_id, message_id)) == payload,
                f"message {message_id} of stream {stream_id} was acknowledged as {payload[:40]!r}, "
                f"stored is {stored.get((stream_id, message_id), b'nothing')[:40]!r}",
            )
        self._world.counts["messages judged"] += len(rows)


def payload_of(sender: str, stream_id: int, message_id: int, size: int) -> bytes:
    """What a sender sends under this id."""
    head = f"{sender}|{stream_id}|{message_id}|".encode()
    return head + b"." * max(0, size - len(head))


def sender_of(payload: bytes) -> str:
    """Who sent a row."""
    return payload.partition(b"|")[0].decode()
