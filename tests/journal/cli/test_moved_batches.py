"""Batches of a checkpoint that was imported or forked: listed, and gone back to as far as they can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from journal.records.change import RenameChange
from tests.journal.checkpoints import checkpoint
from tests.journal.cli.conftest import Cli, RunMain, VolumeOnDisk, write_query

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def moved(volume: VolumeOnDisk) -> VolumeOnDisk:
    """A query that was imported with batches up to 3 and went on to 4."""
    write_query(volume, ".sos-new-00000001", "hdfs", batches=4)
    volume.history.add(RenameChange(source=".sos-new-00000001", target="q1"))
    files = checkpoint("hdfs", batches=5)
    for name in ("offsets/4", "state/0/0/5.delta", "state/0/1/5.delta", "commits/4"):
        volume.put(f"q1/{name}", files[name])
    volume.save()
    return volume


def test_batches_are_listed(moved: VolumeOnDisk, cli: Cli) -> None:
    found = cli.lines("batches", "sos://payments/q1")
    assert [batch["batch"] for batch in found] == [0, 1, 2, 3, 4]
    assert all(batch["committed_ms"] for batch in found)
    assert found[3]["committed_lsn"] is None
    assert found[4]["committed_lsn"]
    assert [batch["batch"] for batch in cli.lines("batches", "sos://payments/q1", "-n", "2")] == [3, 4]


def test_the_last_that_came_can_be_gone_back_to(moved: VolumeOnDisk, cli: Cli, tmp_path: Path) -> None:
    for batch in (3, 4):
        target = tmp_path / str(batch)
        done = cli.here("restore", "sos://payments/q1", str(target), "--at", f"batch:{batch}")
        assert done.exit_code == 0, done.output
        assert {path.name for path in (target / "commits").iterdir()} == {str(n) for n in range(batch + 1)}


def test_the_others_are_told_from_those_that_never_were(moved: VolumeOnDisk, run_main: RunMain) -> None:
    where = ("--dir", str(moved.root))
    ended = run_main("ls", "sos://payments/q1", "--at", "batch:1", *where)
    assert ended.exit_code == 2
    assert "came here with batch 3 as its last" in ended.stderr
    assert run_main("ls", "sos://payments/q1", "--at", "batch:9", *where).exit_code == 3
