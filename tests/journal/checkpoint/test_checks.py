"""What is wrong with a Spark checkpoint, in words; and nothing when nothing is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.checkpoint.batches import BatchHistory
from journal.checkpoint.checks import Severity
from journal.checkpoint.layout import (
    LogFormatError,
    batch_of,
    find_checkpoints,
    parse_checksum,
    parse_commit,
    parse_offsets,
    parse_query_id,
    parse_sst_list,
    state_file_of,
)
from journal.checkpoint.operator_metadata import parse_operator
from journal.checkpoint.state_checks import sst_files
from journal.records.change import Change, DeleteChange, PutChange, RenameChange
from journal.records.shards import shards_of
from tests.journal.checkpoints import QUERY_ID, Kind, checkpoint, commit, examine, offsets, rocksdb_zip, unique_id
from tests.journal.histories import History

KINDS: list[Kind] = ["none", "hdfs", "rocksdb", "changelog", "changelog2"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_checkpoint_has_no_findings(kind: Kind) -> None:
    diagnosis = examine(checkpoint(kind))
    assert diagnosis.findings == []
    assert (diagnosis.query_id, diagnosis.last_planned, diagnosis.last_committed) == (QUERY_ID, 4, 3)
    assert diagnosis.resumable == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_purged_checkpoint_has_no_findings(kind: Kind) -> None:
    files = checkpoint(kind)
    for batch in (0, 1):
        del files[f"offsets/{batch}"], files[f"commits/{batch}"]
    if kind in ("hdfs", "changelog"):
        for partition in (0, 1):
            files[f"state/0/{partition}/2.{'snapshot' if kind == 'hdfs' else 'zip'}"] = b"whole"
            for name in [n for n in files if n.startswith(f"state/0/{partition}/1.")]:
                del files[name]
    assert examine(files).findings == []


@pytest.mark.parametrize("kind", ["hdfs", "changelog", "changelog2", "rocksdb"])
def test_a_missing_state_file_is_named_with_the_batch_to_go_back_to(kind: Kind) -> None:
    files = checkpoint(kind)
    gone = next(name for name in files if name.startswith("state/0/1/4") and not name.endswith(".crc"))
    del files[gone]
    diagnosis = examine(files)
    assert diagnosis.severity == Severity.FAILURE
    assert diagnosis.resumable == 2
    finding = diagnosis.findings[0]
    assert "operator 0, partition 1: the file of version 4 is missing" in finding.what
    assert "batch:2" in finding.advice


def test_a_missing_delta_in_the_middle_breaks_every_later_batch() -> None:
    files = checkpoint("hdfs")
    del files["state/0/0/2.delta"]
    assert examine(files).resumable == 0


def test_a_missing_partition_is_seen() -> None:
    files = {name: data for name, data in checkpoint("hdfs").items() if not name.startswith("state/0/1/")}
    diagnosis = examine(files)
    assert "operator 0, partition 1: there are no state files at all" in diagnosis.findings[0].what
    assert diagnosis.resumable is None
    assert "no batch here" in diagnosis.findings[0].advice


def test_of_one_shard_only_the_state_that_belongs_there_is_missed() -> None:
    files = checkpoint("hdfs")
    for shard in shards_of("payments", 2):
        other = f"state/0/{1 - shard.index}/"
        mine = {path: data for path, data in files.items() if not path.startswith(other)}
        whole = examine(mine, shard)
        assert [(one.severity, one.what) for one in whole.findings] == [
            (Severity.NOTE, f"only shard {shard.index} of 2 was looked at: 1 of 2 state stores")
        ]
        assert whole.resumable == whole.last_committed
        del mine[f"state/0/{shard.index}/2.delta"]
        assert examine(mine, shard).severity is Severity.FAILURE
        assert examine(mine, shard).resumable == 0


def test_a_file_of_a_failed_attempt_does_not_count() -> None:
    files = checkpoint("changelog2")
    del files[f"state/0/0/4_{unique_id(4, 0)}.changelog"]
    files["state/0/0/4_some-other-attempt.changelog"] = b"x"
    assert examine(files).resumable == 2


def test_a_missing_or_wrong_sst_file_is_seen() -> None:
    files = checkpoint("rocksdb")
    del files["state/0/0/SSTs/000004-91a3c714.sst"]
    files["state/0/1/SSTs/000004-91a3c714.sst"] = b"short"
    whats = [finding.what for finding in examine(files).findings]
    assert whats == [
        "state/0/0/4.zip needs SSTs/000004-91a3c714.sst, which is missing",
        "SSTs/000004-91a3c714.sst has 5 bytes, but state/0/1/4.zip was written with 100",
    ]


def test_a_file_that_is_not_what_sparks_checksum_says_is_seen() -> None:
    files = checkpoint("hdfs")
    files["state/0/0/3.delta"] += b"!"
    (finding,) = examine(files).findings
    assert finding.path == "state/0/0/3.delta.crc"


def test_logs_that_do_not_fit_together() -> None:
    files = checkpoint("none")
    del files["offsets/3"], files["metadata"]
    whats = {finding.what: finding.severity for finding in examine(files).findings}
    assert whats["batch 3 is committed, but its plan offsets/3 is missing"] == Severity.FAILURE
    assert whats["offsets has gaps: 3 missing"] == Severity.WARNING
    files = checkpoint("none")
    del files["commits/3"], files["commits/1"]
    whats = {finding.what: finding.severity for finding in examine(files).findings}
    assert "batches up to 4 are planned, but only those up to 2 are committed" in whats
    assert "commits has gaps: 1 missing" in whats


@pytest.mark.parametrize("content", [b"", b"v1", b"v1\n{", b"v\n{}", b"w9\n{}", b"v2\n{}\n{}", b"\xff\xfe", b"v1\n[]"])
def test_a_broken_log_file_is_bad_when_it_is_the_newest(content: bytes) -> None:
    files = checkpoint("none")
    files["offsets/4"] = content
    files["commits/0"] = b"\xff"
    found = {finding.path: finding.severity for finding in examine(files).findings}
    assert found["commits/0"] == Severity.WARNING
    if content != b"v1":  # a version line alone is what some sources write
        assert found["offsets/4"] == Severity.FAILURE


def test_a_log_file_of_a_newer_spark_is_not_called_broken() -> None:
    files = checkpoint("none")
    files["offsets/4"] = b"v9\n{}"
    (finding,) = examine(files).findings
    assert (finding.severity, finding.path) == (Severity.WARNING, "offsets/4")
    assert "newer Spark" in finding.advice


def test_leftovers_and_broken_metadata_are_named() -> None:
    files = checkpoint("hdfs")
    files["offsets/.5.abc.tmp"] = b""
    files["metadata"] = b"{}"
    files["state/0/_metadata/metadata"] = b"v1\n{}"
    severities = sorted(finding.severity.name for finding in examine(files).findings)
    assert severities == ["FAILURE", "NOTE", "WARNING"]


def test_an_empty_directory_is_no_checkpoint_and_no_failure() -> None:
    assert examine({}).findings == []


def test_paths_say_what_they_are() -> None:
    assert batch_of("a/b/offsets/12") == ("a/b", "offsets", 12)
    assert batch_of("commits/0") == ("", "commits", 0)
    assert batch_of("a/myoffsets/1") is None
    assert batch_of("a/offsets/.1.tmp") is None
    assert find_checkpoints(["x/q1/offsets/0", "x/q1/commits/0", "q2/commits/1", "q3/other"]) == ["q2", "x/q1"]
    state = state_file_of("state/0/12/left-keyToNumValues/7_ab-c.changelog")
    assert state is not None
    assert (state.store.operator, state.store.partition, state.store.store) == (0, 12, "left-keyToNumValues")
    assert (state.version, state.unique_id, state.kind, state.whole) == (7, "ab-c", "changelog", False)
    assert str(state.store) == "operator 0, partition 12, store left-keyToNumValues"
    assert state_file_of("state/0/0/_metadata/schema") is None


def test_logs_say_what_spark_wrote() -> None:
    plan = parse_offsets(offsets(3))
    assert (plan.sources, plan.timestamp_ms, plan.shuffle_partitions) == (
        ('{"offset":15,"timestamp":2000}',), 1795014887509, 2
    )  # fmt: skip
    assert parse_offsets(b"v1\n{}\n-\n0").sources == ("-", "0")
    assert parse_commit(commit(2, "changelog2")).unique_ids == {0: ((unique_id(3, 0),), (unique_id(3, 1),))}


@given(st.binary(max_size=80) | st.text(max_size=60).map(lambda text: b"v1\n" + text.encode("utf-8", "replace")))
def test_any_bytes_are_a_log_or_the_one_error(data: bytes) -> None:
    for parse in (parse_offsets, parse_commit, parse_query_id, parse_operator, parse_sst_list, sst_files):
        try:
            parse(data)
        except LogFormatError:
            continue
    parse_checksum(data)


@given(st.integers(0, 500), st.integers(0, 255))
def test_any_damage_to_a_zip_is_the_one_error_or_no_matter(at: int, value: int) -> None:
    data = bytearray(rocksdb_zip({"000001-x.sst": 5}))
    data[at % len(data)] = value
    try:
        sst_files(bytes(data))
    except LogFormatError:
        return


def test_the_log_tells_the_batches() -> None:
    log, history = History(), BatchHistory()
    changes: list[Change] = [
        PutChange(path="q/metadata"),
        PutChange(path="q/offsets/0"),
        PutChange(path="q/state/0/0/1.delta"),
        PutChange(path="q/state/0/1/1.delta"),
        RenameChange(source="q/commits/.0.tmp", target="q/commits/0"),
        PutChange(path="other/offsets/0"),
        PutChange(path="q/offsets/1"),
        DeleteChange(path="q/offsets/0"),
    ]
    for change in changes:
        history.note(log.add(change), change)
    first, second = history.of("q")
    assert (first.number, first.duration_ms, first.state_files, first.state_versions) == (0, 3000, 2, 1)
    assert first.committed_lsn == log.headers[5].end_lsn
    assert (second.number, second.committed_ms, second.duration_ms) == (1, None, None)
    assert [one.query for one in history.of("")] == ["other", "q", "q"]


def test_in_real_time_mode_a_batch_takes_the_time_since_the_one_before_it() -> None:
    log, history = History(), BatchHistory()
    for number in range(3):
        for path in (f"q/state/0/0/{number + 1}.delta", f"q/offsets/{number}", f"q/commits/{number}"):
            history.note(log.add(PutChange(path=path)), PutChange(path=path))
    first, second, third = history.of("q")
    assert all(one.is_real_time and one.state_files == 1 for one in (first, second, third))
    assert first.duration_ms is None
    assert second.duration_ms == third.duration_ms == 3000
