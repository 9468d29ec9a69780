"""Paths have one spelling."""

from __future__ import annotations

import pytest

from journal.errors import JournalCode, RefusedByVolumeError
from journal.records.paths import check_path, is_within, join, name_of, parent_of


@pytest.mark.parametrize(
    "path", ["", "a", "a/b", "ü/" + "x" * 255, "a b/%20", "...", "é" * 100, "/".join(["x" * 200] * 5)]
)
def test_paths(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/a", "empty component"),
        ("a/", "empty component"),
        ("a//b", "empty component"),
        (".", r"'\.'"),
        ("a/../b", r"'\.\.'"),
        ("a\0b", "zero byte"),
        ("\udcff", "UTF-8"),
        ("é" * 128, "longer than 255"),
        ("/".join(["x" * 200] * 21), "longer than 4096"),
        ("/".join("x" * 129), "more than 128"),
    ],
)
def test_what_is_no_path(path: str, why: str) -> None:
    with pytest.raises(RefusedByVolumeError, match=why) as caught:
        check_path(path)
    assert caught.value.code == JournalCode.BAD_PATH
    str(caught.value).encode()


def test_parts() -> None:
    assert (parent_of("a/b/c"), name_of("a/b/c")) == ("a/b", "c")
    assert (parent_of("a"), name_of("a")) == ("", "a")
    assert (join("", "a"), join("a", "b")) == ("a", "a/b")
    assert is_within("a/b", "a")
    assert is_within("a", "a")
    assert is_within("a", "")
    assert not is_within("ab", "a")
