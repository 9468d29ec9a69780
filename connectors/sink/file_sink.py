"""A sink that is a file: each row and a newline. What is committed is what the log of transactions says: the filter.

The file's tail may hold rows that are not committed; `committed_pieces` leaves them out, and so does who reads up to
the last committed row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from connectors.sink.durable_file import READ_BYTES, DurableFile
from connectors.sink.sink_history import SinkHistory, SinkLogError
from connectors.sink.sink_log import read_log
from connectors.sink.sink_rows import payloads_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from connectors.sink.sink_history import SinkTransaction
    from connectors.sink.sink_rows import SinkRow

NEWLINE: Final = b"\n"


class FileSink:
    """The four functions of a sink, over one file."""

    def __init__(self, path: Path, history: SinkHistory) -> None:
        """SinkLogError when the file has less than was committed: it is not the one that the log is about."""
        self._file = DurableFile(path)
        least = history.end + history.rows * len(NEWLINE)
        if self._file.size < least:
            self._file.close()
            raise SinkLogError(
                f"{path} has {self._file.size:,} bytes, and {least:,} are committed by its log: rows are lost"
            )

    def receive(self, rows: Sequence[SinkRow]) -> None:
        self._file.append(NEWLINE.join([*payloads_of(rows), b""]))

    def prepare(self, transaction: SinkTransaction) -> bool:
        del transaction
        self._file.sync()
        return True

    def commit(self, transaction: SinkTransaction) -> None:
        """The log says it, which is all."""

    def abort(self, transaction: SinkTransaction) -> None:
        self._file.cut(transaction.first + transaction.first_row * len(NEWLINE))

    def close(self) -> None:
        self._file.close()


def committed_pieces(out: Path, log: Path) -> Iterator[bytes]:
    """The bytes of all committed transactions, in their order. SinkLogError when they are not there."""
    history = SinkHistory()
    with out.open("rb") as file:
        for _, transaction in read_log(log, history):
            if transaction is None:
                continue
            first = transaction.first + transaction.first_row * len(NEWLINE)
            left = transaction.after - transaction.first + transaction.rows * len(NEWLINE)
            file.seek(first)
            while left:
                piece = file.read(min(left, READ_BYTES))
                if not piece:
                    raise SinkLogError(f"{out} ends before what {transaction.id} committed")
                yield piece
                left -= len(piece)
