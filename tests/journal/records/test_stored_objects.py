"""What stands for an object that was written again."""

from __future__ import annotations

import pytest

from journal.errors import JournalError
from journal.records.stored_objects import CopiedObject, next_name, standing_objects

NAME = "0000000000000000-00000001-63636363636363636363636363636363.seg"


def stored(name: str, size: int = 10, *, sealed: bool = False) -> CopiedObject:
    return CopiedObject(name=name, size=size, sealed=sealed)


def test_what_was_never_written_anew_stands_for_itself() -> None:
    objects = [stored(NAME), stored("x.idx", sealed=True), stored("owner-7"), stored("x.seg.1"), stored("y.txt.01")]
    assert standing_objects(objects) == {one.name: one for one in objects}


def test_the_newest_that_was_finished_counts() -> None:
    first, second = stored(NAME + ".01", 7, sealed=True), stored(NAME + ".02", 8, sealed=True)
    unfinished, damaged = stored(NAME + ".03", 3), stored(NAME)
    standing = standing_objects([unfinished, damaged, second, first])
    expected = CopiedObject(name=NAME, size=8, sealed=True, stored_as=NAME + ".02", others=(unfinished, damaged, first))
    assert standing == {NAME: expected}
    assert next_name(standing[NAME]) == NAME + ".04"


def test_what_was_not_finished_does_not_count() -> None:
    unfinished, damaged = stored(NAME + ".01", 9), stored(NAME, 7)
    standing = standing_objects([damaged, unfinished])[NAME]
    assert (standing.stored_as, standing.size, standing.others) == (NAME, 7, (unfinished,))
    assert next_name(standing) == NAME + ".02"
    assert standing_objects([unfinished]) == {}, "as if it were not there"


def test_the_damaged_one_may_be_gone() -> None:
    standing = standing_objects([stored(NAME + ".01", 9, sealed=True)])[NAME]
    assert (standing.name, standing.stored_as, standing.others) == (NAME, NAME + ".01", ())
    assert next_name(standing) == NAME + ".02"


def test_numbers_end() -> None:
    standing = standing_objects([stored(NAME + ".99", sealed=True)])[NAME]
    with pytest.raises(JournalError, match="99 times"):
        next_name(standing)
