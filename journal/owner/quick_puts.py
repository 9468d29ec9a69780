"""The hot path of the writer: a PUT that is answered by a callback. All of it happens at once, without a task.

Belongs here: what `Journal.change` does for any change, for the one that comes tens of thousands of times a second, in
half of the time. The rules are where they are for all: preconditions.py, operation_window.py, log.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from journal.errors import JournalError
from journal.image import preconditions
from journal.image.operation_window import NOT_ASKED
from journal.records.change import encode_put
from journal.records.record import Kind
from journal.volume import PUT_BYTES_MAX, FileStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.image.image import Image
    from journal.owner.housekeeping import Housekeeping
    from journal.owner.log import Log
    from journal.owner.shown_image import ShownImage
    from journal.records.record import RecordHeader
    from journal.volume import Answer, OperationId, PathClaim

    Encode = Callable[[Kind, bytes, bytes, int | None, OperationId], tuple[bytes, RecordHeader]]


class QuickPuts:
    """`put_soon` of the volume. `encode` makes the next record, `roll` begins the next segment."""

    def __init__(
        self,
        log: Log,
        pending: Image,
        shown: ShownImage,
        housekeeping: Housekeeping,
        *,
        encode: Encode,
        roll: Callable[[], None],
    ) -> None:
        self._log = log
        self._acknowledged = log.acknowledged
        self._pending = pending
        self._shown = shown
        self._housekeeping = housekeeping
        self._encode = encode
        self._roll = roll

    def put_soon(
        self,
        path: str,
        payload: bytes,
        payload_crc: int,
        overwrite: bool,  # noqa: FBT001 - by position: this is called tens of thousands of times a second
        operation: OperationId,
        claim: PathClaim | None,
        modified_ms: int | None,
        answered: Callable[[Answer], None],
    ) -> bool:
        """See journal/volume.py."""
        log, pending = self._log, self._pending
        self._acknowledged.check_owner()
        if log.is_full or len(payload) > PUT_BYTES_MAX:
            return False
        answer = pending.operations.first_answer(operation, FileStatus)
        if answer is NOT_ASKED:
            try:
                preconditions.check_write(pending, path, overwrite=overwrite, claim=claim)
            except JournalError as refusal:
                answer = pending.operations.keep_refusal(operation, refusal, time_ms=pending.time_ms)
            else:
                answer = self._write(path, modified_ms, payload, payload_crc, operation)
        self._acknowledged.call_back(log.end, answered, cast("Answer", answer))
        return True

    def _write(
        self, path: str, modified_ms: int | None, payload: bytes, payload_crc: int, operation: OperationId
    ) -> FileStatus:
        """As `Journal.write`; the image that others see shares what was packed for the pending one."""
        log = self._log
        head, header = self._encode(Kind.PUT, encode_put(path, modified_ms), payload, payload_crc, operation)
        status, file = self._pending.put_own(header, path, modified_ms)
        log.add(header, head, payload)
        self._shown.put(header, path, file)
        if log.segment_bytes >= self._housekeeping.segment_bytes_max:
            self._roll()
        return status
