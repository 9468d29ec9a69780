"""What CI makes of tests that fail: once, always, too many of them, in one of two processes, or without an end."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path

import pytest

from tests import stages
from tests.stages import AGAIN_MAX, STAGES, Outcome, Stage, passes

ROOT = Path(__file__).resolve().parent.parent
FINE = "def test_it():\n    pass\n"
WRONG = "def test_it():\n    assert 0\n"
ONCE = "def test_it(request):\n    seen = request.path.with_suffix('.seen')\n    first = not seen.exists()\n"
ONCE += "    seen.touch()\n    assert not first\n"
ENDLESS = "import time\ndef test_it():\n    time.sleep(600)\n"


@pytest.fixture
def outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setattr(stages, "BUILD", tmp_path / "build")
    return Outcome()


def stage(directory: Path, *modules: str, processes: int = 1) -> Stage:
    tests = directory / "tests"
    tests.mkdir(parents=True)
    for number, module in enumerate(modules):
        (tests / f"test_{number}.py").write_text(module)
    return Stage(name="tried", markers="", processes=processes, options=(str(tests), "-p", "tests.conftest"))


NOTES_IT = """
import pytest
@pytest.fixture(scope="module")
def noted(request):
    (request.path.parent / f"{request.path.stem} begins").touch(exist_ok=False)
    yield
    (request.path.parent / f"{request.path.stem} ends").touch(exist_ok=False)
def test_it(noted):
    pass
def test_that(noted):
    pass
"""
LONG = """
import time
def test_it(request):
    while len(list(request.path.parent.glob("*.ended"))) < {others}:
        time.sleep(0.05)
"""
SHORT = "def test_{name}(request):\n    (request.path.parent / f'{{request.path.stem}} {name}.ended').touch()\n"


def test_two_processes_run_each_test_once_and_a_modules_together(tmp_path: Path, outcome: Outcome) -> None:
    modules = 20
    assert passes(stage(tmp_path, *[NOTES_IT] * modules, processes=2), outcome)
    assert len(list((tmp_path / "tests").glob("* begins"))) == len(list((tmp_path / "tests").glob("* ends"))) == modules
    passed = [int(found[1]) for summary in outcome.summaries if (found := re.search(r": (\d+) passed", summary))]
    assert sum(passed) == 2 * modules


def test_who_is_busy_for_long_leaves_the_rest_to_the_others(tmp_path: Path, outcome: Outcome) -> None:
    assert passes(stage(tmp_path, LONG.format(others=4), *[SHORT.format(name="it")] * 4, processes=2), outcome)
    assert sorted(summary.partition(": ")[2].partition(" in ")[0] for summary in outcome.summaries) == [
        "1 passed, 4 deselected",
        "4 passed, 1 deselected",
    ]
    assert outcome.text().splitlines()[-1].partition(" in ")[0] in outcome.summaries[1]


def test_what_fails_twice_is_wrong(tmp_path: Path, outcome: Outcome) -> None:
    assert not passes(stage(tmp_path, FINE, WRONG), outcome)
    assert [summary.partition(" in ")[0] for summary in outcome.summaries] == [
        "tried: 1 failed, 1 passed",
        "tried, once more what has failed: 1 failed",
    ]
    assert outcome.text().splitlines()[-1].startswith("1 failed")


@pytest.mark.parametrize("command", ["make chaos ARGS=--seed=7", "python -m tests.chaos.connectors --seed 7"])
def test_how_to_see_it_again_is_said(command: str, tmp_path: Path, outcome: Outcome) -> None:
    assert not passes(stage(tmp_path, FINE, f"def test_it():\n    assert 0, '{command}'\n"), outcome)
    assert f"== see it again: {command}" in outcome.text()


def test_what_a_seed_has_shown_is_wrong_at_once(tmp_path: Path, outcome: Outcome) -> None:
    command = "python -m tests.simulation --half journal --seeds 7..7 --trace"
    once = ONCE.replace("assert not first", f"assert not first, '{command}'")
    outcome.repeat = "make chaos ARGS=--seed=7"  # of an earlier stage, where it passed the second time
    assert not passes(stage(tmp_path, FINE, once), outcome)
    assert f"== see it again: {command}" in outcome.text()
    assert len(outcome.summaries) == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_what_passes_the_second_time_is_listed(processes: int, tmp_path: Path, outcome: Outcome) -> None:
    assert passes(stage(tmp_path, FINE, ONCE, processes=processes), outcome)
    (again,) = outcome.again
    assert again.endswith("test_1.py::test_it")
    assert f"== FAILED, and passed when run again: {again}" in outcome.text().splitlines()


def test_too_many_of_them_are_wrong(tmp_path: Path, outcome: Outcome) -> None:
    outcome.again = ["an earlier one"] * AGAIN_MAX
    assert not passes(stage(tmp_path, FINE, ONCE), outcome)


def test_a_stage_ends_when_there_is_no_time_left(tmp_path: Path, outcome: Outcome) -> None:
    outcome.seconds_left = 3.0
    assert not passes(stage(tmp_path, ENDLESS), outcome)
    assert outcome.summaries[0].startswith("tried: no time left, ")
    assert "== tried: no time left, " in outcome.text()


def test_stages_are_chosen_by_name_and_what_did_not_run_is_said(
    tmp_path: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome.seconds_left, "its place is another directory"
    names = ("fine", "wrong", "later")
    found = [stage(tmp_path / name, WRONG if name == "wrong" else FINE) for name in names]
    named = [dataclasses.replace(one, name=name) for one, name in zip(found, names, strict=True)]
    monkeypatch.setattr(stages, "STAGES", named)
    monkeypatch.setattr("sys.argv", ["stages", "fine"])
    assert stages.main() == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 passed in ")
    monkeypatch.setattr("sys.argv", ["stages", "wrong", "later"])
    assert stages.main() == 1
    assert "== stage wrong FAILED; NOT RUN: later" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["stages", "--seconds-gone", str(stages.MINUTES_MAX * 60 + 1), "fine"])
    assert stages.main() == 1
    assert "== fine: no time left, " in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["stages", "final"])
    with pytest.raises(SystemExit):
        stages.main()
    assert "there is no stage final" in capsys.readouterr().err


def run_all(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **modules: str
) -> tuple[int, str]:
    """Stages with these names and modules; the one that gives way is called so."""
    made = [
        dataclasses.replace(stage(directory / name, module), name=name, gives_way=name == "gives_way")
        for name, module in modules.items()
    ]
    monkeypatch.setattr(stages, "STAGES", made)
    monkeypatch.setattr("sys.argv", ["stages"])
    return stages.main(), capsys.readouterr().out


WAITS_FOR_THE_NEXT = """
import pathlib, time
def test_it(request):
    begun = request.path.parents[2] / "begun"
    while not begun.exists():
        time.sleep(0.05)
"""
IS_THE_NEXT = "def test_it(request):\n    (request.path.parents[2] / 'begun').touch()\n"


def test_a_stage_that_gives_way_runs_beside_the_next_ones_and_counts(
    tmp_path: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome.seconds_left, "its place is another directory"
    code, said = run_all(tmp_path, monkeypatch, capsys, gives_way=WAITS_FOR_THE_NEXT, next=IS_THE_NEXT)
    assert code == 0
    assert said.index("== next: 1 passed") < said.index("== gives_way: 1 passed")
    for name in ("next", "gives_way"):
        assert re.search(rf"^== {name}: \d+\.\d minutes of processors$", said, re.MULTILINE)
    assert re.search(r"^\d+\.\d\ds \S*test_0\.py$", said, re.MULTILINE), "what each module has cost"


def test_a_stage_that_gives_way_and_fails_is_a_failure(
    tmp_path: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome.seconds_left, "its place is another directory"
    code, said = run_all(tmp_path, monkeypatch, capsys, gives_way=WRONG, next=FINE)
    assert code == 1
    assert "== stage gives_way FAILED\n" in said


def test_a_stage_that_gives_way_is_ended_when_another_fails(
    tmp_path: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome.seconds_left, "its place is another directory"
    code, said = run_all(tmp_path, monkeypatch, capsys, gives_way=ENDLESS, next=WRONG, later=FINE)
    assert code == 1
    assert "== stage next FAILED; NOT RUN: gives_way, later\n" in said
    assert f"== gives_way: {stages.OTHER_FAILED}, " in said


def test_nothing_runs_beside_what_measures() -> None:
    names = [one.name for one in STAGES]
    assert not any(one.gives_way for one in STAGES[: names.index("alone") + 1])


def test_every_test_but_soaking_is_in_one_stage() -> None:
    """Whatever marks a test has. Of the two stages with the same marks one runs the folders that the other leaves."""
    stages_by_name = {one.name: one for one in STAGES}
    assert list(stages_by_name) == ["quick", "alone", "computing", "slow", "chaos", "spark"]
    computing, slow = stages_by_name.pop("computing"), stages_by_name["slow"]
    assert computing.markers == slow.markers
    assert slow.options == tuple(f"--ignore={path}" for path in computing.paths)
    assert all((ROOT / path).exists() for path in computing.paths)
    kinds = ("slow", "spark", "chaos", "alone", "soak")
    for chosen in itertools.product([False, True], repeat=len(kinds)):
        marks = dict(zip(kinds, chosen, strict=True))
        if marks["alone"] and not (marks["slow"] or marks["spark"]):
            continue  # what is quick is run beside others
        homes = [one.name for one in stages_by_name.values() if eval(one.markers, {}, marks)]
        assert len(homes) == (0 if marks["soak"] else 1), (marks, homes)


def test_what_measures_is_slow() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        assert text.count("mark." + "alone") <= text.count("mark.slow") + text.count("mark.spark"), path


def test_processes_may_divide_one_module(tmp_path: Path, outcome: Outcome) -> None:
    module = LONG.format(others=2) + SHORT.format(name="second") + SHORT.format(name="third")
    tried = stage(tmp_path, module, processes=2)
    assert passes(dataclasses.replace(tried, options=(*tried.options, "--one-by-one")), outcome)
    assert sorted(summary.partition(": ")[2].partition(" in ")[0] for summary in outcome.summaries) == [
        "1 passed, 2 deselected",
        "2 passed, 1 deselected",
    ]
