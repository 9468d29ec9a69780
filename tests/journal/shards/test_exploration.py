"""Every order, and a death at every step, of what uses a volume of two shards; each rule broken in turn."""

from __future__ import annotations

import re

import pytest

from tests.journal.shards.scenarios import SCENARIOS, explore, scenarios
from tests.journal.shards.small_world import ViolationError
from tests.journal.shards.wrong_rules import WRONG_RULES, WrongRule

pytestmark = pytest.mark.slow
LEAST = {"drivers": 60, "rewind": 90, "delete": 20, "claims": 50, "moves": 1, "fork": 60}
"""Runs, so that a world in which nothing can happen any more is found out."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_goes_wrong_whatever_happens(name: str) -> None:
    assert explore(SCENARIOS[name], deviations=1) >= LEAST[name]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_goes_wrong_when_two_things_happen(name: str) -> None:
    assert explore(scenarios(deaths=2)[name], deviations=2) >= LEAST[name]


@pytest.mark.parametrize("wrong", WRONG_RULES, ids=lambda one: one.mistake)
def test_each_rule_is_needed(wrong: WrongRule, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name, instead in wrong.patches:
        monkeypatch.setattr(place, name, instead)
    with pytest.raises(ViolationError, match=re.escape(wrong.seen)):
        explore(SCENARIOS[wrong.scenario], deviations=1)
