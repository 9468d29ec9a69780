"""The rules of shards, by the vectors that the Java client is tested with, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from journal.errors import JournalCode, JournalError
from journal.records.shards import (
    SHARDS_MAX,
    Shard,
    SpreadChange,
    has_partitions_of_all,
    is_in_partition,
    moves_within_shards,
    operator_directory,
    parse_shard,
    query_of_partition,
    shard_of,
    shards_of,
)
from sos_client.wire.errors import RefusedError

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/shards.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["paths"], ids=lambda vector: ascii(vector["path"]))
def test_the_shard_of_a_path(vector: dict[str, Any]) -> None:
    path = vector["path"]
    assert {count: shard_of(path, int(count)) for count in vector["shards"]} == vector["shards"]
    assert is_in_partition(path) == vector["in_partition"]
    assert has_partitions_of_all(path) == vector["partitions_below"]
    if is_in_partition(path):
        assert operator_directory(path) == vector["operator"]
        query, inside = query_of_partition(path)
        assert path == (f"{query}/{inside}" if query else inside)
        assert inside.startswith("state/")


@pytest.mark.parametrize("vector", VECTORS["moves"], ids=lambda vector: f"{vector['source']} to {vector['target']}")
def test_whether_a_move_keeps_everything_in_its_shard(vector: dict[str, Any]) -> None:
    source, target = vector["source"], vector["target"]
    assert moves_within_shards(source, target, 2) == vector["of_2"]
    assert moves_within_shards(source, target, 3) == vector["of_3"]


@pytest.mark.parametrize("below", ["x", "0/1/a", "1/a", "state/0/1/a", "a/state/2/5/b", "state/7", "5/state/0/1"])
def test_a_move_that_is_allowed_keeps_what_lies_below(below: str) -> None:
    places = ["q", "r", "q/state", "r/state", "q/state/0", "r/state/0", "q/state/0/1", "r/state/0/3", "q/state/0/2"]
    for source in places:
        for target in places:
            for count in (2, 3):
                if moves_within_shards(source, target, count):
                    assert shard_of(f"{source}/{below}", count) == shard_of(f"{target}/{below}", count)


def test_names_are_read_as_they_are_written() -> None:
    for vector in VECTORS["names"]:
        shard = parse_shard(vector["name"])
        assert shard == Shard(volume=vector["volume"], index=vector["index"], count=vector["count"])
    for other in ("payments", "payments.shard-2-of-2", "payments.shard-0-of-1", "p.shard-00-of-2", "p.shard-0-of-65"):
        assert parse_shard(other) is None
    assert [shard.name for shard in shards_of("v", 2)] == ["v.shard-0-of-2", "v.shard-1-of-2"]


@pytest.mark.parametrize(("volume", "count"), [("v", 1), ("v", SHARDS_MAX + 1), ("v.shard-0-of-2", 2)])
def test_impossible_shards_are_refused(volume: str, count: int) -> None:
    with pytest.raises(JournalError) as caught:
        shards_of(volume, count)
    assert caught.value.code is JournalCode.BAD_REQUEST
    with pytest.raises(RefusedError):
        shards_of("v" * 120, 2)


@pytest.mark.parametrize("vector", VECTORS["marks"], ids=lambda vector: str(len(vector["values"])))
def test_the_mark_of_a_change(vector: dict[str, Any]) -> None:
    change = SpreadChange(token=vector["token"], paths=tuple(vector["paths"]))
    assert change.values() == vector["values"]
    assert SpreadChange.read(change.values()) == change


def test_other_marks_are_not_of_a_change() -> None:
    assert SpreadChange.read({"batch": 7}) is None
    assert SpreadChange.read({"spread_change": 7}) is None


def test_whom_a_change_concerns() -> None:
    change = SpreadChange(token="t", paths=("a/q", "b"))
    assert all(change.concerns(path) for path in ("a/q", "a", "a/q/state", "b/c", ""))
    assert not any(change.concerns(path) for path in ("a/q2", "c"))
