"""log, batches, diff, doctor: what happened, and whether a query can go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from journal.records.change import DeleteChange
from tests.journal.cli.conftest import Cli, RunMain, VolumeOnDisk, write_query

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def saved(volume: VolumeOnDisk) -> VolumeOnDisk:
    write_query(volume, "q1", "hdfs", batches=6)
    volume.history.add(DeleteChange(path="q1/offsets/0"))
    volume.history.add(DeleteChange(path="q1/commits/0"))
    volume.save()
    return volume


def test_log_shows_records_and_filters_them(saved: VolumeOnDisk, cli: Cli) -> None:
    records = cli.lines("log", "payments")
    assert [record["lsn"] for record in records] == [header.lsn for header in saved.history.headers[:-1]]
    assert records[0]["kind"] == "header"
    commits = cli.lines("log", "payments", "--path", "*/commits/*", "--kind", "put")
    assert [record["path"] for record in commits] == [f"q1/commits/{n}" for n in range(6)]
    assert commits == cli.lines("log", "sos://payments/q1/commits", "--kind", "put")
    assert commits[-2:] == cli.lines("log", "sos://payments/q1/commits", "--kind", "put", "-n", "2")
    since = cli.lines("log", "sos://payments/q1/commits", "--since", "batch:3", "--until", "batch:4")
    assert [record["path"] for record in since] == ["q1/commits/4"]


def test_log_is_aligned_for_people(saved: VolumeOnDisk, cli: Cli) -> None:
    lines = cli.here("log", "sos://payments/q1/offsets", "--utc").stdout.splitlines()
    assert len(lines) == 8
    assert len({line.index(" put ") for line in lines if " put " in line}) == 1
    assert lines[-1].split()[-2:] == ["delete", "q1/offsets/0"]


def test_batches_shows_also_what_spark_has_purged(saved: VolumeOnDisk, cli: Cli) -> None:
    found = cli.lines("batches", "sos://payments/q1", "--offsets")
    assert [batch["batch"] for batch in found] == list(range(7))
    first, last = found[0], found[-1]
    assert (first["duration_ms"], first["state_version"], first["state_files"]) == (5000, 1, 2)
    assert first["offsets"] == ['{"offset":0,"timestamp":2000}']
    assert last["committed_ms"] is None
    assert [batch["batch"] for batch in cli.lines("batches", "sos://payments/q1", "-n", "2")] == [5, 6]
    text = cli.here("batches", "sos://payments/q1", "--utc").stdout
    assert "BATCH  PLANNED" in text
    assert "not committed" in text
    assert "version 1, 2 files" in text


def test_batches_of_several_queries_name_them(volume: VolumeOnDisk, cli: Cli) -> None:
    write_query(volume, "a/one", "none", batches=1)
    write_query(volume, "a/two", "none", batches=1)
    volume.save()
    assert "QUERY" in cli.here("batches", "sos://payments/a").stdout
    assert {batch["query"] for batch in cli.lines("batches", "payments")} == {"a/one", "a/two"}


def test_diff_of_two_batches(saved: VolumeOnDisk, cli: Cli, run_main: RunMain) -> None:
    changes = cli.lines("diff", "sos://payments/q1", "batch:2", "batch:3")
    assert {change["path"] for change in changes if change["what"] == "added"} == {
        "q1/offsets/3", "q1/commits/3", "q1/state/0/0/4.delta", "q1/state/0/0/4.delta.crc", "q1/state/0/1/4.delta",
        "q1/state/0/1/4.delta.crc",
    }  # fmt: skip
    assert {change["what"] for change in changes} == {"added"}
    assert cli.lines("diff", "payments", "batch:5", "now")[0]["what"] == "removed"
    assert cli.lines("diff", "payments", "batch:3", "batch:3") == []
    ended = run_main("diff", "payments", "0", "now", "--exit-code", "--dir", str(saved.root))
    assert ended.exit_code == 4
    assert "added" in ended.stdout


def test_doctor_has_nothing_to_say_about_a_healthy_query(saved: VolumeOnDisk, run_main: RunMain) -> None:
    ended = run_main("doctor", "payments", "--dir", str(saved.root))
    assert ended.exit_code == 0
    assert "q1: OK" in ended.stdout
    assert "planned up to batch 6, committed up to 5, state complete" in ended.stdout


def _remove(path: str) -> Callable[[VolumeOnDisk], object]:
    return lambda volume: volume.history.add(DeleteChange(path=path))


@pytest.mark.parametrize(
    ("harm", "code", "words"),
    [
        (_remove("q1/state/0/1/6.delta"), 8, "the file of version 6 is missing"),
        (_remove("q1/metadata"), 12, "the file `metadata` is missing"),
        (_remove("q1/offsets/5"), 8, "its plan offsets/5 is missing"),
        (lambda volume: volume.put("q1/offsets/6", b""), 8, "offsets/6 cannot be used"),
    ],
)
def test_doctor_says_what_is_wrong_and_what_to_do(
    volume: VolumeOnDisk, run_main: RunMain, harm: Callable[[VolumeOnDisk], object], code: int, words: str
) -> None:
    write_query(volume, "q1", "hdfs", batches=6)
    harm(volume)
    volume.save()
    ended = run_main("doctor", "sos://payments/q1", "--dir", str(volume.root))
    assert ended.exit_code == code
    assert words in ended.stdout
    assert "→" in ended.stdout


def test_doctor_where_there_is_no_checkpoint(saved: VolumeOnDisk, run_main: RunMain) -> None:
    ended = run_main("doctor", "sos://payments/q1/state", "--dir", str(saved.root))
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert "there is no checkpoint" in ended.stderr
