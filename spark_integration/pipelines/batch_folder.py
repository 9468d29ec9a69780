"""A sink that knows which batches it has: one file per batch id, and it notices a replayed batch that is not the same.

It stands for the world outside, which crashes of Spark do not touch: as a user's own idempotent sink would.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


def batch_writer(folder: Path) -> Callable[[DataFrame, int], None]:
    """For foreachBatch: writes the batch's rows to a file named by its id, atomically."""
    place = str(folder)

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        store_batch(Path(place), batch_id, rows)

    return write


def store_batch(folder: Path, batch_id: int, rows: list[dict[str, Any]]) -> None:
    """A batch that is there already must be the same; one that is not is kept beside it, as evidence."""
    lines = sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)
    text = "".join(line + "\n" for line in lines)
    target = folder / f"{batch_id:06d}.batch"
    if target.exists() and target.read_text() != text:
        target = folder / f"{batch_id:06d}.conflict"
    unfinished = folder / f".{batch_id:06d}.{os.getpid()}"
    unfinished.write_text(text)
    unfinished.replace(target)


def stored_batches(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """The rows of each batch."""
    return {
        int(path.stem): [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.glob("*.batch"))
    }


def conflicts(folder: Path) -> list[str]:
    """Batches that came twice with different rows: each is a broken promise."""
    return sorted(path.name for path in folder.glob("*.conflict"))
