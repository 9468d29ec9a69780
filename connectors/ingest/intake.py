"""What has come in and is not committed yet: frames for the next block, and whom to tell once it is durable.

Pure. One intake collects while the one before it is being written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from connectors.ingest.known_streams import KnownStreams
    from connectors.wire.frames import Frame


class Sender(Protocol):
    """A connection whose frames were taken."""

    def durable(self, share: IntakeShare) -> None:
        """All of this is durable. Must not raise, and not wait."""


@dataclass(slots=True)
class IntakeShare:
    """What came of one connection: credits to give back, points of reference to acknowledge, answers to send first.

    `introduced` are streams that nobody knew, with their names.
    """

    credits: int = 0
    introduced: dict[int, str] = field(default_factory=dict)
    points: dict[int, int] = field(default_factory=dict)
    answers: list[Frame] = field(default_factory=list)


class Intake:
    """Frames in order of arrival."""

    def __init__(self) -> None:
        self.frames_bytes = 0
        self._pieces: list[tuple[bytes, int]] = []
        self._shares: dict[Sender, IntakeShare] = {}

    def __bool__(self) -> bool:
        return bool(self._shares)

    def add(self, frames: bytes, *, rows: int) -> None:
        """Whole frames as they came, and how many sequence numbers they need."""
        self._pieces.append((frames, rows))
        self.frames_bytes += len(frames)

    def share_of(self, sender: Sender) -> IntakeShare:
        """What this connection is told when all that was added up to now is durable."""
        share = self._shares.get(sender)
        if share is None:
            share = self._shares[sender] = IntakeShare()
        return share

    def blocks(self, frames_bytes_max: int) -> Iterator[tuple[list[bytes], int]]:
        """The frames in as few blocks as they fit, each with its rows. No piece may be larger than a block."""
        block: list[bytes] = []
        rows = size = 0
        for frames, frames_rows in self._pieces:
            if size + len(frames) > frames_bytes_max and block:
                yield block, rows
                block, rows, size = [], 0, 0
            block.append(frames)
            rows += frames_rows
            size += len(frames)
        if block:
            yield block, rows

    def settle(self, streams: KnownStreams) -> None:
        """It is durable: `streams` are what is durable, tell everybody."""
        for sender, share in self._shares.items():
            for stream_id, name in share.introduced.items():
                streams.introduce(stream_id, name)
            # Of one stream, an intake has messages of one sender: another one is told its point of reference, and so
            # may send, only after this.
            assert all(point >= streams.points[stream_id] for stream_id, point in share.points.items())
            streams.points.update(share.points)
            sender.durable(share)
