"""Checkpoints that live Spark wrote, 4.0 to 4.3: nothing is wrong with them, and what is taken away is missed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from journal.checkpoint.batches import BatchHistory
from journal.checkpoint.checks import Diagnosis, Severity, diagnose, wanted_contents
from journal.checkpoint.layout import NewerLogError, arrange, parse_offsets
from journal.checkpoint.operator_metadata import (
    checkpoint_of,
    moved_metadata,
    operator_paths,
    parse_operator,
    schema_path_of,
)
from journal.checkpoint.state_checks import has_no_key
from journal.records.change import PutChange
from journal.volume import FileStatus
from tests.journal.checkpoints import rocksdb_zip
from tests.journal.histories import History

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors/spark_checkpoints.json").read_text())
LIVE: list[dict[str, Any]] = VECTORS["checkpoints"]
NAMES = [f"{one['spark']} {one['what']}" for one in LIVE]
STATEFUL = [one for one in LIVE if any(path.startswith("state/") for path in one["files"])]
NAMES_OF_STATEFUL = [f"{one['spark']} {one['what']}" for one in STATEFUL]
TWS = [one for one in LIVE if one["what"] == "tws"]


def _examine(files: dict[str, Any], home: str) -> Diagnosis:
    contents = {path: _content(one) for path, one in files.items()}
    sizes = {path: len(contents[path]) if isinstance(one, str) else one["size"] for path, one in files.items()}
    statuses = [FileStatus(path=f"q/{path}", is_directory=False, size=sizes[path], modified_ms=1) for path in files]
    found = arrange("q", statuses)
    return diagnose(found, {path: contents[path] for path in wanted_contents(found)}, home=home)


def _content(one: Any) -> bytes:
    if isinstance(one, str):
        return one.encode()
    return rocksdb_zip(one["ssts"]) if "ssts" in one else bytes.fromhex(one.get("hex", ""))


@pytest.mark.parametrize("live", LIVE, ids=NAMES)
def test_nothing_is_wrong_with_it(live: dict[str, Any]) -> None:
    diagnosis = _examine(live["files"], live["place"])
    assert diagnosis.severity <= Severity.NOTE, diagnosis.findings
    assert diagnosis.resumable == diagnosis.last_committed is not None
    is_smaller = live["what"].startswith("repart-less")
    assert [one.what for one in diagnosis.findings if "partitions" in one.what] == (
        ["partitions 1, 2 are not used any more: the state was repartitioned to fewer"] if is_smaller else []
    )


@pytest.mark.parametrize("live", STATEFUL, ids=NAMES_OF_STATEFUL)
def test_every_newest_state_file_of_a_partition_in_use_is_missed(live: dict[str, Any]) -> None:
    files = live["files"]
    version = max(int(path.partition("/")[2]) for path in files if path.startswith("commits/")) + 1
    newest = [path for path in files if re.fullmatch(rf"state/\d+/\d+/(?:[^/]+/)?{version}[._].*", path)]
    assert newest
    for folder in {path.rpartition("/")[0] for path in newest}:
        rest = {path: one for path, one in files.items() if path not in newest or not path.startswith(f"{folder}/")}
        assert _examine(rest, live["place"]).severity == Severity.FAILURE, folder


@pytest.mark.parametrize("live", TWS, ids=[one["spark"] for one in TWS])
def test_schema_addresses_of_another_place_are_seen_and_written_anew(live: dict[str, Any]) -> None:
    home = "sos://payments/new place/q"
    files = dict(live["files"])
    diagnosis = _examine(files, home)
    assert diagnosis.severity == Severity.FAILURE
    assert all("names a schema file of another place" in one.what for one in diagnosis.findings)
    moved = [path for path in files if checkpoint_of(path) == ""]
    assert moved
    for path in moved:
        files[path] = moved_metadata(files[path].encode(), home).decode()
        before, after = (json.loads(text.partition("\n")[2]) for text in (live["files"][path], files[path]))
        for metadata in (before, after):
            for store in metadata["stateStoreInfo"]:
                del store["stateSchemaFilePaths"]
        assert before == after
    assert _examine(files, home).severity <= Severity.NOTE
    schema = next(path for path in files if "_stateSchema" in path)
    del files[schema]
    (finding,) = _examine(files, home).findings
    assert (finding.severity, finding.path) == (Severity.FAILURE, schema)


def test_a_schema_that_says_something_else_is_of_an_operator_with_a_key() -> None:
    opening = b"\0\2v2\0\0\0\1"
    for schema in (b"", opening, opening + b"\0\2{}", opening + b"\0\2\xff\xff", opening + b'\0\x0e{"fields":["a"]}'):
        assert not has_no_key(schema)
    assert has_no_key(opening + b'\0\x0d{"fields":[]}')


def test_metadata_that_names_no_place_is_left_as_it_is() -> None:
    for live in STATEFUL:
        for path in operator_paths(live["files"], batch=None):
            data = live["files"][path].encode()
            assert moved_metadata(data, live["place"]) == data
            if checkpoint_of(path) is None:
                assert moved_metadata(data, "sos://elsewhere") == data


def test_which_metadata_counts() -> None:
    paths = [
        "state/0/_metadata/v2/0",
        "state/0/_metadata/v2/9",
        "state/0/_metadata/v2/10",
        "state/1/_metadata/metadata",
    ]
    assert operator_paths(paths, batch=9) == ["state/0/_metadata/v2/9", "state/1/_metadata/metadata"]
    assert operator_paths(paths, batch=None) == ["state/0/_metadata/v2/10", "state/1/_metadata/metadata"]
    assert checkpoint_of("a/b/state/0/_metadata/v2/3") == "a/b"
    assert checkpoint_of("state/0/_metadata/v2/3.crc") is None
    assert schema_path_of("sos://v/q/state/0/_stateSchema/default/0_a") == "state/0/_stateSchema/default/0_a"
    assert schema_path_of("sos://v/q/other") is None
    with pytest.raises(NewerLogError):
        parse_operator(b"v3\n{}")


def test_real_time_mode_is_known_by_the_order_of_its_files() -> None:
    (live,) = (one for one in LIVE if one["what"] == "real-time-stateful")
    log, history = History(), BatchHistory()
    for path in live["order"]:
        history.note(log.add(PutChange(path=f"q/{path}")), PutChange(path=f"q/{path}"))
    found = history.of("q")
    assert [batch.number for batch in found] == [0, 1, 2, 3]
    assert all(batch.is_real_time and batch.state_files == 2 for batch in found)
    assert all(batch.duration_ms and batch.duration_ms > 3000 for batch in found[1:])


def test_named_sources_keep_their_names() -> None:
    (live,) = (one for one in LIVE if (one["spark"], one["what"]) == ("4.3.0", "named-sources"))
    plan = parse_offsets(live["files"]["offsets/1"].encode())
    assert dict(zip(plan.names, plan.sources, strict=True)) == {"first": '{"logOffset":1}', "second": '{"logOffset":1}'}
