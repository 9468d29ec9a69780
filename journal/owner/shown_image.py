"""The image that others see: records wait here until they are acknowledged, and are applied to it then."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast

from journal.image.operation_window import OperationWindow
from journal.records.record import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.image.image import Image
    from journal.image.nodes import PackedFile
    from journal.records.change import Change
    from journal.records.record import Lsn, RecordHeader
    from journal.records.segment import SegmentHeader


class ShownImage:
    """Keeps `image`, which begins as a copy of the pending one, at what is acknowledged. It keeps no answers."""

    def __init__(self, pending: Image) -> None:
        self.image = pending.copy(OperationWindow())
        self.image.keeps_answers = False
        self._pending = pending
        # Where each record ends, its header, the change; of a PUT the path and the file as it is kept.
        self._waiting: deque[tuple[Lsn, RecordHeader, Change | SegmentHeader | str, PackedFile]] = deque()

    def written(self, header: RecordHeader, change: Change | SegmentHeader) -> None:
        """A record is in the log, and in the pending image."""
        self._waiting.append((header.end_lsn, header, change, b""))

    def put(self, header: RecordHeader, path: str, file: PackedFile) -> None:
        """As `written`, of a PUT as the pending image has it."""
        self._waiting.append((self._pending.lsn, header, path, file))

    def acknowledged(self, lsn: Lsn, *, segment_opened: Callable[[Image, int], None]) -> int:
        """Apply what ends at or before `lsn`; returns how many records still wait.

        At each new segment `segment_opened` is given the image where it begins, and when that was.
        """
        waiting = self._waiting
        while waiting and waiting[0][0] <= lsn:
            _, header, change, file = waiting.popleft()
            if type(change) is str:
                self.image.put_again(header, change, file)
                continue
            if header.kind is Kind.HEADER:
                answers = self._pending.operations.copy(until_ms=self.image.time_ms)
                segment_opened(self.image.copy(answers), header.time_ms - cast("SegmentHeader", change).paused_ms)
            self.image.apply_own(header, cast("Change | SegmentHeader", change))
        return len(waiting)
