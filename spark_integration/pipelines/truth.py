"""Whether a sink's batches are what the input must give, byte for byte. Knows nothing of Spark.

Each batch reads the next file, or the next few: Spark joins a file that was planned before a crash with the one after
it. So a batch is right if it is what the files from where the last one ended up to some later file must give.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from spark_integration.pipelines.batch_folder import conflicts
from spark_integration.pipelines.records import file_records

if TYPE_CHECKING:
    from pathlib import Path

FILES_IN_BATCH_MAX: Final = 16


class Truth:
    """The bytes that any run of files must give, for the two queries that can be judged so."""

    def __init__(self, *, per_file: int) -> None:
        self._per_file = per_file
        self._totals: list[dict[int, int]] = [{}]

    def text(self, query: str, begin: int, end: int) -> str:
        """What a batch of the files from `begin` to before `end` must put out."""
        records = [r for number in range(begin, end) for r in file_records(number, per_file=self._per_file)]
        if query == "passthrough":
            return _lines([{"id": r.id, "key": r.key, "value": r.value} for r in records])
        totals = self._totals_after(end)
        return _lines([{"key": key, "total": totals[key]} for key in {record.key for record in records}])

    def _totals_after(self, files: int) -> dict[int, int]:
        while len(self._totals) <= files:
            totals = dict(self._totals[-1])
            for record in file_records(len(self._totals) - 1, per_file=self._per_file):
                totals[record.key] = totals.get(record.key, 0) + record.value
            self._totals.append(totals)
        return self._totals[files]


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(sorted(json.dumps(row, sort_keys=True) + "\n" for row in rows))


class OutputJudge:
    """Follows the batches of one query. `files` says how far its output is right; `findings` what is wrong."""

    def __init__(self, folder: Path, query: str, *, per_file: int, first_batch: int = 0, first_file: int = 0) -> None:
        self.files = first_file
        self.batches = first_batch
        self.ends: dict[int, int] = {}
        """For each batch, how many files it and all before it have read."""
        self._folder = folder / query
        self._query = query
        self._truth = Truth(per_file=per_file)
        self._wrong: list[str] = []

    def look(self) -> int:
        """Judge what is new. How many files are out, rightly."""
        while not self._wrong and (path := self._folder / f"{self.batches:06d}.batch").exists():
            self._judge(path)
        return self.files

    def findings(self) -> list[str]:
        """A batch that is missing, is wrong, or came a second time with another content."""
        self.look()
        again = [f"{self._query}: {name}: a batch came again with another content" for name in conflicts(self._folder)]
        later = [path.name for path in self._folder.glob("*.batch") if int(path.stem) >= self.batches]
        missing = []
        if later and not self._wrong and not (self._folder / f"{self.batches:06d}.batch").exists():
            missing = [f"{self._query}: batch {self.batches} is missing, and {min(later)} is there"]
        return [*self._wrong, *again, *missing]

    def _judge(self, path: Path) -> None:
        text = path.read_text()
        for end in range(self.files + 1, self.files + 1 + FILES_IN_BATCH_MAX):
            if text == self._truth.text(self._query, self.files, end):
                self.ends[self.batches] = self.files = end
                self.batches += 1
                return
        self._wrong.append(
            f"{self._query}: batch {self.batches} is not what file {self.files} and the next ones give:\n{text}"
        )
