"""The query in whose foreachBatch function the caller is, and the files that it keeps beside its checkpoint's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_integration.pyspark_private import hadoop_path, query_with_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK_BYTES: Final = 1 << 20
"""What goes from Python to the JVM, or back, at once."""


def running_query(session: SparkSession) -> Any:
    """Spark's StreamExecution; None outside foreachBatch."""
    query = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    return None if query is None else query_with_id(session, query)


class BatchFiles:
    """A file for each batch in a directory of the query's checkpoint, as durable as the checkpoint is: they are written
    by the same file manager, whole or not at all."""

    def __init__(self, session: SparkSession, query: Any, directory: str) -> None:
        self._session = session
        self._directory = hadoop_path(session, str(query.resolvedCheckpointRoot()), directory)
        self._files = query.commitLog().fileManager()
        self.retained = int(session.conf.get("spark.sql.streaming.minBatchesToRetain", "100") or 100)
        """So many batches back a checkpoint can be put."""

    def numbers(self) -> list[int]:
        if not self._files.exists(self._directory):
            return []
        names = [one.getPath().getName() for one in self._files.list(self._directory)]
        return sorted(int(name) for name in names if name.isdigit())

    def reader(self, batch: int) -> BatchFileReader | None:
        """None if there is no such file."""
        path = self._file_of(batch)
        return BatchFileReader(self._files.open(path)) if self._files.exists(path) else None

    def writer(self, batch: int) -> BatchFileWriter:
        self._files.mkdirs(self._directory)
        return BatchFileWriter(self._files.createAtomic(self._file_of(batch), True))  # noqa: FBT003 - overwrite

    def drop(self, batch: int) -> None:
        """Whether it is there or not."""
        if batch >= 0:
            self._files.delete(self._file_of(batch))

    def _file_of(self, batch: int) -> Any:
        return hadoop_path(self._session, str(self._directory), str(batch))


class BatchFileReader:
    """A file object for Arrow."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.closed = False

    def __enter__(self) -> BatchFileReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True
        self._stream.close()

    def readable(self) -> bool:
        return True

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        pieces = []
        while size > 0 and (piece := bytes(self._stream.readNBytes(min(size, CHUNK_BYTES)))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


class BatchFileWriter:
    """A file object for Arrow. The file is there when the `with` block ends, and not if it raises."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._waiting = bytearray()
        self.closed = False

    def __enter__(self) -> BatchFileWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.closed = True
        if kind is not None:
            self._stream.cancel()
            return
        self._send()
        self._stream.close()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._waiting += memoryview(data)
        if len(self._waiting) >= CHUNK_BYTES:
            self._send()
        return len(memoryview(data))

    def flush(self) -> None:
        pass  # whole or not at all

    def _send(self) -> None:
        if self._waiting:
            self._stream.write(self._waiting)
            self._waiting = bytearray()
