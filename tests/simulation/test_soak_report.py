"""The table of what was simulated adds up."""

from __future__ import annotations

from collections import Counter

from tests.simulation.planted_bugs import DOCUMENT
from tests.simulation.runner import Summary
from tests.simulation.soak_report import BEGIN, END, soaked_in, with_run


def test_each_soak_adds_to_the_table() -> None:
    document = f"before\n{BEGIN}\n{END}\nafter\n"
    first = with_run(document, "journal", Summary(runs=3, counts=Counter({"took over": 5, "write": 99})))
    both = with_run(first, "journal", Summary(runs=4, counts=Counter({"took over": 2, "members changed": 1})))
    other = with_run(both, "server", Summary(runs=1))
    assert soaked_in(other)["journal"].runs == 7
    assert soaked_in(other)["journal"].events == {"took over": 7, "members changed": 1}
    assert "| journal | 7 | 0 | took over 7, members changed 1 |" in other
    assert "| server | 1 | 0 |  |" in other
    assert other.startswith("before\n")
    assert other.endswith("\nafter\n")


def test_the_document_has_the_table() -> None:
    assert BEGIN in DOCUMENT.read_text(encoding="utf-8")
