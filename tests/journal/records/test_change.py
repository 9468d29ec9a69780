"""Which paths a record names: one answer for the log's listing, for batches, and for the DataFrame."""

from __future__ import annotations

from typing import get_args

import pytest

from journal.records import change as c
from journal.records.record import Lsn

WITH_PATHS: list[tuple[c.Change, tuple[str, ...], str | None]] = [
    (c.PutChange(path="a"), ("a",), "a"),
    (c.CommitChange(upload=1, path="a", size=2), ("a",), "a"),
    (c.RenameChange(source="a", target="b"), ("a", "b"), "b"),
    (c.AppendChange(path="a", size=0), ("a",), None),
    (c.TruncateChange(path="a", size=0, tail_crc=0), ("a",), None),
    (c.DeleteChange(path="a"), ("a",), None),
    (c.MakeDirectoryChange(path="a"), ("a",), None),
    (c.RelocateChange(path="a", object="o", offset=0), ("a",), None),
    (c.ClaimChange(path="", application="q", start_time=1), ("",), None),
    (c.ReleaseChange(path="a"), ("a",), None),
    (c.ChunkChange(upload=1, offset=0), (), None),
    (c.AbandonChange(upload=1), (), None),
    (c.MarkChange(values={"k": 1}), (), None),
    (c.TrimChange(lsn=Lsn(1)), (), None),
    (c.PinChange(name="p", lsn=Lsn(1), expires_ms=1), (), None),
]


@pytest.mark.parametrize(("change", "paths", "content"), WITH_PATHS, ids=lambda value: type(value).__name__)
def test_which_paths_a_record_names(change: c.Change, paths: tuple[str, ...], content: str | None) -> None:
    assert c.paths_of(change) == paths
    assert c.content_path(change) == content
    assert (change.kind in c.CONTENT_KINDS) == (content is not None)


def test_each_kind_of_change_was_asked() -> None:
    assert {type(change) for change, _, _ in WITH_PATHS} == set(get_args(c.Change))
