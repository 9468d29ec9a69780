"""Staged files, manifests and decisions: what is read, what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import connectors.relay
from connectors.relay.decision_lines import (
    COMMITS_REMEMBERED,
    DecisionHistory,
    encode_line,
    read_lines,
    state_line,
)
from connectors.relay.manifest import RowOrder, StagedPart, is_place, parse_manifest, place_of, staged_place
from connectors.relay.staged_rows import StagedRow, StagedRowReader, StagedRun, encode_rows, merged
from journal.errors import JournalError
from sos_client.wire.errors import SosError

DOCUMENT = (Path(connectors.relay.__file__).parent / "STAGING.md").read_text(encoding="utf-8")
QUERY = "c0ffee00-0000-4000-8000-000000000001"
PLACE = f"{QUERY}-68acf2c3623f905d"
ROWS = [StagedRow(7, b"k", b"v1"), StagedRow(8, None, "é".encode())]


def rows_of(run: StagedRun) -> list[StagedRow]:
    count = len(run.values)
    keys, sequences = run.keys or [None] * count, run.sequences or [0] * count
    return [StagedRow(*row) for row in zip(sequences, keys, run.values, strict=True)]


def read(data: bytes, *, piece_bytes: int) -> list[StagedRow]:
    reader = StagedRowReader("f")
    rows = [row for at in range(0, len(data), piece_bytes) for row in rows_of(reader.feed(data[at : at + piece_bytes]))]
    reader.end()
    return rows


def test_the_example_in_the_document_is_a_file() -> None:
    example = re.search(r"```rows\n.*\n((?:[0-9a-f ]+\n)+)```", DOCUMENT)
    assert example is not None
    assert bytes.fromhex(example[1]) == encode_rows(ROWS, keys=True, sequences=True)


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("keys", "sequences"), [(False, False), (True, False), (False, True), (True, True)])
def test_rows_come_out_as_they_went_in(piece_bytes: int, *, keys: bool, sequences: bool) -> None:
    expected = [StagedRow(row.sequence * sequences, row.key if keys else None, row.value) for row in ROWS]
    assert read(encode_rows(ROWS, keys=keys, sequences=sequences), piece_bytes=piece_bytes) == expected


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 80)), max_size=6),
    st.sampled_from([1000, 37, 4 * 21 * 16 + 2]),
)
def test_rows_of_one_size_are_read_as_others_are(stretches: list[tuple[int, int]], piece_bytes: int) -> None:
    sizes = [size for size, count in stretches for _ in range(count)]
    rows = [StagedRow(0, None, bytes([number % 256]) * size) for number, size in enumerate(sizes)]
    assert read(encode_rows(rows), piece_bytes=piece_bytes) == rows


def test_large_rows_of_one_size() -> None:
    rows = [StagedRow(0, None, bytes([number]) * 5000) for number in range(40)]
    assert read(encode_rows(rows), piece_bytes=100_000) == rows


def test_some_rows_of_a_run() -> None:
    run = StagedRun([b"a", b"b", b"c"], [b"k", None, b"l"], [1, 2, 3])
    assert run.cut(1, 3) == StagedRun([b"b", b"c"], [None, b"l"], [2, 3])
    assert StagedRun([b"a", b"b"], None, None).cut(0, 1) == StagedRun([b"a"], None, None)


def test_what_looks_like_the_size_of_a_row_is_not_taken_for_one() -> None:
    """Where the last of many rows of one size would begin, a larger one has the four bytes of that size in it."""
    looks_alike = 60 * (b"\0\0\0\x04" + b"same")
    rows = [StagedRow(0, None, value) for value in (b"same", b"size", looks_alike, b"four")]
    assert read(encode_rows(rows), piece_bytes=10_000) == rows


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans())), max_size=4))
def test_runs_are_merged_by_sequence_then_in_their_order(runs: list[list[tuple[int, bool]]]) -> None:
    columns: list[StagedRun] = []
    for number, run in enumerate(runs):
        rows = sorted(run)
        keys: list[bytes | None] = [b"k" if keyed else None for _, keyed in rows]
        values = [b"%d.%d" % (number, place) for place in range(len(rows))]
        columns.append(StagedRun(values, keys if number % 2 else None, [sequence for sequence, _ in rows]))
    expected = sorted((row for run in columns for row in rows_of(run)), key=lambda row: row.sequence)
    assert rows_of(merged(columns)) == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "ends in the middle"),
        ("01", "ends in the middle"),
        ("0200", "begins with 0200"),
        ("0104", "begins with 0104"),
        ("0100 00000000", "has a row of 0 bytes"),
        ("0100 7fffffff", "has a row of 2,147,483,647 bytes"),
        ("0101 00010000", "has a key of 65,536 bytes"),
        ("0101 ffffffff 00000000", "has a row of 0 bytes"),
        ("0100 00000002 61", "ends in the middle"),
        ("0101 0000", "ends in the middle"),
    ],
)
def test_what_is_not_a_staged_file(data: str, reason: str) -> None:
    with pytest.raises(JournalError, match=f"staged file f {reason}"):
        read(bytes.fromhex(data), piece_bytes=100)


def test_a_row_goes_where_the_document_says() -> None:
    """CRC32C of b"123456789" is e3069283: the check value that every description of it has."""
    sink = 0xE3069283 % 7
    with_keys = StagedRun([b"x", b"123456789", b"y"], [b"123456789", None, b"?"], [1, 2, 3])
    assert with_keys.of_sink(sink, 7) == StagedRun([b"x", b"123456789"], [b"123456789", None], [1, 2])
    assert StagedRun([b"123456789", b"?"], None, None).of_sink(sink, 7) == StagedRun([b"123456789"], None, None)
    assert sum(len(with_keys.of_sink(each, 7).values) for each in range(7)) == 3
    assert with_keys.of_sink(0, 1) == with_keys


def manifest(**changes: Any) -> bytes:
    example = re.search(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert example is not None
    fields = {**json.loads(example[1]), **changes}
    return json.dumps({name: value for name, value in fields.items() if value != "absent"}).encode()


def test_the_manifest_of_the_document() -> None:
    found = parse_manifest(manifest(), place=PLACE, batch=12)
    assert (found.volume, found.checkpoint, found.rows) == ("clicks", "queries/q1", 1000)
    assert found.sinks == ("127.0.0.1:7500", "127.0.0.1:7501")
    assert found.parts == (StagedPart(name="0-31", rows=1000, bytes=123456), StagedPart(name="1-32", rows=0, bytes=2))
    assert found.order is RowOrder.PARTITION
    assert found.plan == "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    short = parse_manifest(manifest(cookie="absent", attempts="absent", plan="absent"), place=PLACE, batch=12)
    assert (short.cookie, short.attempts, short.plan) == (b"", 5, "")
    top = place_of(QUERY, "sos://clicks")
    assert parse_manifest(manifest(checkpoint="sos://clicks"), place=top, batch=12).checkpoint == ""


def test_a_manifest_of_version_1_is_of_a_query_that_stages_under_its_id() -> None:
    found = parse_manifest(manifest(version=1), place=QUERY, batch=12)
    assert (found.query, found.place) == (QUERY, QUERY)
    with pytest.raises(JournalError, match="another query"):
        parse_manifest(manifest(version=1), place=PLACE, batch=12)
    with pytest.raises(JournalError, match="another query"):
        parse_manifest(manifest(), place=QUERY, batch=12)


def test_a_fork_stages_elsewhere_than_its_original() -> None:
    assert place_of(QUERY, "sos://clicks/queries/q1") == PLACE
    assert place_of(QUERY, "sos://clicks/queries/fork") != PLACE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 3}, "version 3"),
        ({"more": 1}, "unknown \\['more'\\]"),
        ({"run": "absent"}, "absent \\['run'\\]"),
        ({"run": "a/b"}, "run is 'a/b'"),
        ({"run": 5}, "run is '5'"),
        ({"plan": "x"}, "plan is 'x'"),
        ({"plan": 5}, "plan is '5'"),
        ({"batch": 13}, "another query, checkpoint or batch"),
        ({"query": "other"}, "another query, checkpoint or batch"),
        ({"query": 5}, "query is '5'"),
        ({"checkpoint": "sos://clicks/queries/fork"}, "another query, checkpoint or batch"),
        ({"checkpoint": "file:///tmp/c"}, "put it at sos://VOLUME/path"),
        ({"checkpoint": None}, "put it at sos://VOLUME/path"),
        ({"checkpoint": "sos://v/a/../b"}, "not a path of a volume"),
        ({"checkpoint": "sos://.v/a"}, "\\.v"),
        ({"sinks": []}, "1 to 64 sinks"),
        ({"sinks": "a:1"}, "1 to 64 sinks"),
        ({"sinks": ["a"]}, "'a' is not the address"),
        ({"sinks": ["a:0"]}, "'a:0' is not the address"),
        ({"sinks": [7]}, "'7' is not the address"),
        ({"sinks": ["a:1", "a:1"]}, "named twice"),
        ({"order": "random"}, "partition or sequence"),
        ({"cookie": 1}, "cookie"),
        ({"cookie": "é" * 513}, "cookie"),
        ({"attempts": 0}, "attempts is 0"),
        ({"attempts": True}, "attempts is True"),
        ({"parts": {}}, "parts are not a list"),
        ({"parts": [["a", 1]]}, "parts are not a list"),
        ({"parts": [["a", -1, 2]]}, "rows is -1"),
        ({"parts": [["a b", 1, 2]]}, "'a b' is not the name"),
        ({"parts": [["a", 1, 2], ["a", 1, 2]]}, "twice"),
    ],
)
def test_what_is_not_a_manifest(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SosError, match=reason):
        parse_manifest(manifest(**changes), place=PLACE, batch=12)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[1]", b"[" * 100_000])
def test_what_is_not_json(data: bytes) -> None:
    with pytest.raises(JournalError, match="the manifest is not"):
        parse_manifest(data, place=PLACE, batch=12)


def test_places_of_staged_files() -> None:
    assert staged_place(("q", "12", "r", "0-1")) == ("q", 12, "r", "0-1")
    assert is_place("q")
    assert not is_place("q/../q")
    for place in (("q", "12", "r"), ("q", "012", "r", "p"), ("..", "1", "r", "p"), ("q", "1", ".", "p")):
        with pytest.raises(JournalError, match="write PLACE/BATCH/RUN/PART"):
            staged_place(place)


def opened(generation: int) -> bytes:
    return encode_line({"kind": "opened", "generation": generation, "relay": "here:1"})


def commit(batch: int, *ends: int) -> bytes:
    line = {"kind": "commit", "transaction": f"q:{batch}:1.1", "batch": batch, "ends": list(ends), "rows": 10}
    return encode_line(line)


def test_the_history_is_what_the_lines_say() -> None:
    first = DecisionHistory()
    first.begin(query="q", sinks=2)
    data = state_line(first) + opened(1) + commit(4, 10, 20) + opened(2) + commit(5, 30, 20)
    history = read_lines(data, "f")
    assert (history.query, history.generation, history.ends, history.rows) == ("q", 2, (30, 20), 20)
    assert history.commits == {"q:4:1.1": 4, "q:5:1.1": 5}
    assert (history.last_batch, history.next_file) == (5, None)
    continued = read_lines(data + encode_line({"kind": "continued", "file": 2}), "f")
    assert continued.next_file == 2
    assert read_lines(state_line(history), "g") == history


def test_the_plan_of_the_last_batch_is_remembered() -> None:
    """A line from before there were plans says nothing of one."""
    history = DecisionHistory()
    history.apply(json.loads(commit(4, 10)) | {"plan": "abc"})
    assert read_lines(state_line(history), "f").plan == "abc"
    assert read_lines(state_line(history) + commit(5, 20), "f").plan == ""
    old = json.loads(state_line(history))
    del old["plan"]
    assert read_lines(encode_line(old), "f").plan == ""


def test_only_the_last_commits_are_remembered() -> None:
    history = DecisionHistory()
    for number in range(COMMITS_REMEMBERED + 5):
        history.remember(f"q:{number}:1.1", number)
    assert len(history.commits) == COMMITS_REMEMBERED
    assert history.last_batch == COMMITS_REMEMBERED + 4
    assert next(iter(history.commits.values())) == 5


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"{", "ends in the middle of a line"),
        (b"{\n", "line 1 is not a decision"),
        (b"[]\n", "line 1 is not a decision"),
        (b'{"kind": "opened", "generation": 1}\n', "another version"),
        (b'{"kind": "state", "format": 2}\n', "another version"),
    ],
)
def test_what_is_not_a_log_of_decisions(data: bytes, reason: str) -> None:
    with pytest.raises(JournalError, match=reason):
        read_lines(data, "f")


@pytest.mark.parametrize("line", [b"{}\n", b'{"kind": "undone"}\n', b'{"kind": "opened", "generation": "x"}\n'])
def test_a_line_that_says_nothing_known(line: bytes) -> None:
    with pytest.raises(JournalError, match="f: line 2 is not a decision"):
        read_lines(state_line(DecisionHistory()) + line, "f")


def test_the_decisions_of_the_document() -> None:
    document = (Path(connectors.relay.__file__).parent / "DECISIONS.md").read_text(encoding="utf-8")
    example = re.search(r"```decisions\n(.*?)```", document, re.DOTALL)
    assert example is not None
    history = read_lines(example[1].encode(), "f")
    assert (history.generation, history.ends, history.commits) == (1, (120, 80), {"q:0:1.1": 0})
    assert history.plan.startswith("9f86d081884c7d65")
    assert example[1].encode().splitlines(keepends=True)[0] == state_line(DecisionHistory(query="q", ends=(0, 0)))
