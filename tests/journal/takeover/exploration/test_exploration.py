"""Takeover, tried in every way that a small world allows; and each rule broken on purpose, to see that it is noticed.

SOS_EXPLORE_MORE=1 raises every bound by one; SOS_EXPLORE_SECONDS then says how long each scenario may take.
"""

from __future__ import annotations

import os
from math import inf

import pytest

from tests.journal.takeover.exploration.explore import explore, with_more
from tests.journal.takeover.exploration.rules_table import BEGIN, DOCUMENT, END
from tests.journal.takeover.exploration.scenarios import SCENARIOS, Scenario
from tests.journal.takeover.exploration.wrong_rules import WRONG_RULES, WrongRule, applied

MORE = bool(os.environ.get("SOS_EXPLORE_MORE"))
SECONDS = float(os.environ.get("SOS_EXPLORE_SECONDS", "60"))


@pytest.mark.slow
@pytest.mark.timeout(1800 + SECONDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_nothing_acknowledged_is_lost_in_any_order_of_events(scenario: Scenario) -> None:
    found = explore(with_more(scenario) if MORE else scenario, seconds_max=SECONDS if MORE else inf)
    assert found.violation is None, "\n".join([*found.steps, str(found.violation)])
    assert MORE or found.complete


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG_RULES, ids=lambda one: one.mistake)
def test_each_mistake_is_noticed(wrong: WrongRule) -> None:
    scenario = next(one for one in SCENARIOS if one.name == wrong.scenario)
    with applied(wrong):
        found = explore(scenario)
    assert found.violation is not None, f"nobody notices: {wrong.mistake}"


def test_the_document_has_every_rule() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    written = [line.split(" | ")[:3] for line in lines[lines.index(BEGIN) + 3 : lines.index(END)]]
    rules = [[f"| {wrong.rule}", wrong.mistake, wrong.scenario] for wrong in WRONG_RULES]
    assert written == rules, "python -m tests.journal.takeover.exploration.rules_table --write"


def test_a_small_world_is_explored_completely() -> None:
    scenario = next(one for one in SCENARIOS if one.name == "all must acknowledge")
    found = explore(scenario)
    assert found.complete
    assert found.worlds > 1000
