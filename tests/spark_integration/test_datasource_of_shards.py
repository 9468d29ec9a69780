"""A volume that is spread over shards as a DataFrame: one volume, whose records name their journal. Needs no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from journal.errors import JournalCode, JournalError
from spark_integration.datasource import SCHEMAS, JournalReader, _Question
from tests.journal.cli.spread_on_disk import NAMES, SpreadOnDisk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark  # imports PySpark


@pytest.fixture
def spread(tmp_path: Path) -> SpreadOnDisk:
    """Three batches, the state of the last one twice: a task that was tried again after the commit of batch 1."""
    spread = SpreadOnDisk(tmp_path)
    for batch in range(3):
        spread.state(f"{batch + 1}.delta")
        spread.commit(batch)
    spread.state("4.delta")
    spread.save()
    return spread


def rows(root: Path, table: str, **options: str) -> list[dict[str, Any]]:
    reader = JournalReader(_Question.of({"path": "sos://payments/q", "dir": str(root), "table": table, **options}))
    names = [column.split()[0] for column in SCHEMAS[table].split(", ")]
    return [dict(zip(names, row, strict=True)) for part in reader.partitions() for row in reader.read(part)]


def test_files_are_those_of_all_shards_at_any_batch(spread: SpreadOnDisk, tmp_path: Path) -> None:
    for at, version in (("batch:0", 1), ("batch:1", 2), ("batch:2", 3)):
        found = {row["path"] for row in rows(tmp_path, "files", at=at) if not row["is_directory"]}
        states = {f"q/state/0/{partition}/{n}.delta" for partition in (0, 1) for n in range(1, version + 1)}
        assert {path for path in found if "/state/" in path} == states
    assert "q/state/0/1/4.delta" in {row["path"] for row in rows(tmp_path, "files")}


def test_batches_count_the_state_of_all_shards(spread: SpreadOnDisk, tmp_path: Path) -> None:
    found = rows(tmp_path, "batches")
    assert [(row["batch"], row["state_files"], row["state_version"]) for row in found] == [
        (0, 2, 1),
        (1, 2, 2),
        (2, 2, 3),
    ]
    then = rows(tmp_path, "batches", at="batch:1")
    assert [(row["batch"], row["state_files"]) for row in then] == [(0, 2), (1, 2)]


def test_records_name_their_journal(spread: SpreadOnDisk, tmp_path: Path) -> None:
    found = rows(tmp_path, "records")
    assert {row["journal"] for row in found} == set(NAMES)
    for number, name in enumerate(NAMES):
        mine = [row["path"] for row in found if row["journal"] == name and "/state/" in (row["path"] or "")]
        assert mine
        assert all(path.startswith(f"q/state/0/{number}/") for path in mine)
        assert [row["lsn"] for row in found if row["journal"] == name] == sorted(
            row["lsn"] for row in found if row["journal"] == name
        )
    then = {row["path"] for row in rows(tmp_path, "records", at="batch:0")}
    assert "q/state/0/1/1.delta" in then
    assert "q/state/0/1/2.delta" not in then


def test_an_lsn_is_refused_with_what_to_say_instead(spread: SpreadOnDisk, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="say batch:N or a time") as caught:
        rows(tmp_path, "files", at="100")
    assert caught.value.code is JournalCode.BAD_REQUEST
    with pytest.raises(JournalError, match="orders") as caught:
        rows(tmp_path, "files", path="sos://orders/q")
    assert caught.value.code is JournalCode.VOLUME_NOT_FOUND
