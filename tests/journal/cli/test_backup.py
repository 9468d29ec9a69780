"""Backups: whatever happens to one is seen, nothing less than all of it is called a success, and `backup` mends it."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest
import trio

from journal.copies.backup_mark import MARK_NAME
from journal.copies.copies import open_directory_copy
from journal.copies.local_log import open_local_log
from journal.errors import JournalCode, JournalError
from sos_client.serving.event_log import EventLog, Level
from tests.journal.cli.conftest import Cli, VolumeOnDisk, write_query

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BATCHES = 20


@pytest.fixture
def saved(volume: VolumeOnDisk) -> VolumeOnDisk:
    write_query(volume, "q1", "hdfs", batches=BATCHES, roll_every=6)
    volume.save()
    return volume


@pytest.fixture
def backup(saved: VolumeOnDisk, cli: Cli, tmp_path: Path) -> Path:
    root = tmp_path / "backup"
    (made,) = cli.lines("backup", "payments", str(root))
    assert made["objects"]
    assert not made["damaged"]
    return root / "payments"


async def test_nobody_else_writes_where_a_service_does(saved: VolumeOnDisk, cli: Cli, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(saved.root, cache)
    async with open_local_log(cache, "payments", EventLog(least=Level.ERROR)):
        before = _tree(cache)
        refused = await trio.to_thread.run_sync(cli.here, "backup", "payments", str(cache))
        assert isinstance(refused.exception, JournalError), refused.output
        assert (refused.exception.code, refused.exception.exit_code) == (JournalCode.LOCKED, 9)
        async with open_directory_copy(cache, "payments") as copy:  # what repair mends it with
            with pytest.raises(JournalError, match="in use"):
                await copy.replace("0" * 16, b"mended", present=False)
        assert _tree(cache) == before


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _four_bytes_in_the_newest(backup: Path) -> None:
    """In the last segment that has content (the very last one has a header only)."""
    file = sorted(backup.glob("*.seg"))[-2]
    data = bytearray(file.read_bytes())
    at = len(data) // 3
    data[at : at + 4] = bytes(byte ^ 0xFF for byte in data[at : at + 4])
    file.write_bytes(data)
    sorted(backup.glob("*.seg"))[-1].unlink()


def _newest_cut_short(backup: Path) -> None:
    last = sorted(backup.glob("*.seg"))[-1]
    last.write_bytes(last.read_bytes()[:-1])


def _newest_deleted(backup: Path) -> None:
    sorted(backup.glob("*.seg"))[-1].unlink()


def _two_newest_deleted(backup: Path) -> None:
    for segment in sorted(backup.glob("*.seg"))[-2:]:
        segment.unlink()


def _snapshot_deleted(backup: Path) -> None:
    sorted(backup.glob("*.idx"))[0].unlink()


def _mark_damaged(backup: Path) -> None:
    mark = backup / MARK_NAME
    data = bytearray(mark.read_bytes())
    data[-1] ^= 1
    mark.write_bytes(data)


HARM: list[Callable[[Path], None]] = [
    _four_bytes_in_the_newest,
    _newest_cut_short,
    _newest_deleted,
    _two_newest_deleted,
    _snapshot_deleted,
    _mark_damaged,
]


def _restored(backup: Path, target: Path) -> dict[str, bytes] | None:
    """What a restore of the present gives, if it calls itself a success."""
    result = Cli(backup.parent).here("restore", "sos://payments", str(target))
    return _tree(target) if result.exit_code == 0 else None


@pytest.mark.parametrize("harm", HARM)
def test_harm_is_seen_never_restored_and_mended(
    harm: Callable[[Path], None], backup: Path, cli: Cli, tmp_path: Path
) -> None:
    whole = _restored(backup, tmp_path / "whole")
    assert whole is not None
    harm(backup)
    verified = Cli(backup.parent).here("verify", "payments")
    assert verified.exit_code != 0, verified.output
    assert "FAILURE" in verified.output
    assert _restored(backup, tmp_path / "harmed") in (None, whole)
    (again,) = cli.lines("backup", "payments", str(backup.parent))
    assert again["damaged"]
    assert Cli(backup.parent).here("verify", "payments").exit_code == 0
    assert _restored(backup, tmp_path / "mended") == whole
    assert cli.lines("backup", "payments", str(backup.parent))[0]["objects"] == []


def test_any_byte_and_any_length(backup: Path, tmp_path: Path) -> None:
    """Wherever one bit is wrong or bytes are missing: FAILURE, and no success with other content."""
    chance = random.Random(7)
    whole = _restored(backup, tmp_path / "whole")
    files = [path for path in sorted(backup.iterdir()) if path.name != "lock"]
    for number in range(40):
        file = chance.choice(files)
        data = file.read_bytes()
        at = chance.randrange(len(data))
        if at in (5, 6, 7) and file.suffix != ".seg":
            continue  # reserved
        harmed = bytearray(data)
        if number % 2:
            harmed[at] ^= 1 << chance.randrange(8)
        else:
            del harmed[at:]
        file.write_bytes(harmed)
        assert Cli(backup.parent).here("verify", "payments").exit_code != 0, (file.name, at)
        assert _restored(backup, tmp_path / f"try-{number}") in (None, whole), (file.name, at)
        file.write_bytes(data)
    assert Cli(backup.parent).here("verify", "payments").exit_code == 0


def test_what_is_left_can_be_had_by_its_lsn_or_batch(backup: Path, tmp_path: Path) -> None:
    _four_bytes_in_the_newest(backup)
    where = Cli(backup.parent)
    refused = where.here("restore", "sos://payments/q1", str(tmp_path / "all"))
    assert refused.exit_code != 0
    message = str(refused.exception)
    assert "goes up to LSN" in message
    left = message.rpartition("--at ")[2].split()[0]
    for number, moment in enumerate((left, "batch:3")):
        result = where.here("restore", "sos://payments/q1", str(tmp_path / f"left-{number}"), "--at", moment)
        assert result.exit_code == 0, result.output
        assert "damaged" in result.stderr
    later = where.here("restore", "sos://payments/q1", str(tmp_path / "later"), "--at", "2100-01-01T00:00")
    assert later.exit_code != 0
    assert where.here("fork", "sos://payments/q1", "sos://payments/x", "--dry-run").exit_code != 0
    assert where.here("diff", "payments", "batch:3", "now").exit_code != 0
    assert where.here("backup", "payments", str(tmp_path / "second")).exit_code != 0


def test_a_backup_that_was_not_finished_counts_as_it_was_before(
    saved: VolumeOnDisk, backup: Path, cli: Cli, tmp_path: Path
) -> None:
    before = (backup / MARK_NAME).read_bytes()
    whole = _restored(backup, tmp_path / "before")
    saved.put("q1/new", b"later")
    saved.save()
    assert cli.lines("backup", "payments", str(backup.parent))[0]["objects"]
    (backup / MARK_NAME).write_bytes(before)
    assert Cli(backup.parent).here("verify", "payments").exit_code == 0
    later = _restored(backup, tmp_path / "later")
    assert later is not None
    assert whole is not None
    assert later.keys() == whole.keys() | {"q1/new"}


def test_a_backup_is_not_put_back_to_less_or_to_another_history(
    saved: VolumeOnDisk, backup: Path, tmp_path: Path
) -> None:
    short = tmp_path / "short"
    shutil.copytree(saved.root, short)
    _two_newest_deleted(short / "payments")
    ended = Cli(short).here("backup", "payments", str(backup.parent))
    assert ended.exit_code != 0
    assert "Nothing was changed" in str(ended.exception)
    other = VolumeOnDisk(tmp_path / "other")
    write_query(other, "q2", "hdfs", batches=BATCHES + 9, roll_every=6)
    other.save()
    ended = Cli(other.root).here("backup", "payments", str(backup.parent))
    assert ended.exit_code != 0
    assert "history" in str(ended.exception)
    assert Cli(backup.parent).here("verify", "payments").exit_code == 0


def test_a_copy_made_of_a_log_without_a_known_end_says_so(
    saved: VolumeOnDisk, backup: Path, cli: Cli, tmp_path: Path
) -> None:
    warning = "nothing says how far the log in"
    of_directory = cli.here("restore", "sos://payments/q1", str(tmp_path / "a"))
    assert warning in of_directory.stderr
    of_backup = Cli(backup.parent).here("restore", "sos://payments/q1", str(tmp_path / "b"))
    of_batch = cli.here("restore", "sos://payments/q1", str(tmp_path / "c"), "--at", "batch:3")
    for result in (of_backup, of_batch):
        assert result.exit_code == 0
        assert warning not in result.stderr


def test_without_a_mark_everything_is_copied_again(saved: VolumeOnDisk, backup: Path, cli: Cli) -> None:
    (backup / MARK_NAME).unlink()
    report = Cli(backup.parent).lines("verify", "payments")
    assert "no backup.end" in report[0]["remarks"][0]
    (planned,) = cli.lines("backup", "payments", str(backup.parent), "--dry-run")
    (made,) = cli.lines("backup", "payments", str(backup.parent))
    everything = sorted(path.name for path in backup.glob("*.*") if path.name != MARK_NAME)
    assert planned["objects"] == made["objects"] == everything
