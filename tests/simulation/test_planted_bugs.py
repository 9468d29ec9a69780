"""Every planted bug is caught. What is published in docs/testing.md comes from the same code (`make planted-bugs`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.journal_scenario import profile_of
from tests.simulation.planted_bugs import BUGS, catch, catch_at, published_seed, published_table, seeds_to_try
from tests.simulation.runner import processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.pool import Pool

    from tests.simulation.planting import PlantedBug

ALL = [(half, bug) for half, bugs in BUGS.items() for bug in bugs]


def test_there_are_enough_of_them_and_no_two_have_one_name() -> None:
    for bugs in BUGS.values():
        assert len(bugs) >= 15
        assert len({bug.name for bug in bugs}) == len(bugs)


def test_the_published_table_has_a_row_for_each() -> None:
    table = published_table()
    for half, bug in ALL:
        assert f"| {half} | {bug.name} |" in table, "run `make planted-bugs`"
    assert "| not in" not in table


def test_each_seed_is_tried_and_those_with_the_same_profile_first() -> None:
    assert seeds_to_try("server", 10, like=2) == [2, 9, 0, 1, 3, 4, 5, 6, 7, 8]
    assert seeds_to_try("ingest", 4, like=2) == [0, 1, 2, 3]
    assert seeds_to_try("journal", 30) == list(range(30))
    tried = seeds_to_try("journal", 100, like=2)
    alike = [seed for seed in range(100) if profile_of(seed) is profile_of(2)]
    assert len(alike) > 1
    assert tried[: len(alike)] == alike
    assert sorted(tried) == list(range(100))


@pytest.fixture(scope="module")
def process() -> Iterator[Pool]:
    """One for all first tries: to start it takes longer than most of them."""
    with processes(1) as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.timeout(2400)  # a search through all of its seeds, on a busy machine
@pytest.mark.parametrize(("half", "bug"), ALL, ids=[f"{half}: {bug.name}" for half, bug in ALL])
def test_is_caught(half: str, bug: PlantedBug, process: Pool) -> None:
    """At the seed that the table names, else in one of those that it may need."""
    seed = published_seed(half, bug)
    caught = (None if seed is None else catch_at(half, bug, seed, process)) or catch(half, bug, like=seed)
    assert caught.report is not None, f"{bug.name} was not seen in {bug.seeds_max} seeds"
