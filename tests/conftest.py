"""What all tests share. Hypothesis measures no time, because a machine with other work to do is not a mistake."""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

COSTS = pytest.StashKey[defaultdict[str, float]]()
"""Seconds of processors by module, those of processes that tests have started and waited for included."""

settings.register_profile("any machine", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Nobody's own profiles: tests name what they talk to, and write the profiles that they use.
os.environ["XDG_CONFIG_HOME"] = f"{tempfile.gettempdir()}/nobody's configuration"

# A shell starts what it runs in the background with SIGINT ignored, and processes that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shared",
        metavar="DIR",
        type=Path,
        help="run one module after the other, each that no other process with this directory has taken",
    )
    parser.addoption(
        "--renew-traces", action="store_true", help="write traces as they happen now, instead of comparing"
    )
    parser.addoption("--costs", metavar="N", type=int, default=0, help="show N modules that take most of processors")
    parser.addoption("--one-by-one", action="store_true", help="take tests, which need not stay together, not modules")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With `--shared`: what is long in one process leaves more to the others, so that all end at about one time."""
    directory: Path | None = session.config.getoption("--shared")
    if directory is None or session.testsfailed:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    together: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in session.items:
        together[item.nodeid if session.config.getoption("--one-by-one") else str(item.path)].append(item)
    others = []
    for name, items in together.items():
        if not _taken(directory / hashlib.sha256(name.encode()).hexdigest()):
            others += items
            continue
        following: list[pytest.Item | pytest.Session] = [*items[1:], session]  # what a module has set up ends with it
        for item, after in zip(items, following, strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    session.config.hook.pytest_deselected(items=others)
    return True


def _taken(claim: Path) -> bool:
    """Whether it is this process that has."""
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    before = sum(os.times()[:4])
    yield
    costs = item.config.stash.setdefault(COSTS, defaultdict(float))
    costs[item.nodeid.partition("::")[0]] += sum(os.times()[:4]) - before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    costs = config.stash.get(COSTS, defaultdict(float))
    most = sorted(costs.items(), key=lambda cost: -cost[1])[: config.getoption("--costs")]
    if most:
        terminalreporter.section(f"{len(most)} modules that take most of processors")
        for module, seconds in most:
            terminalreporter.line(f"{seconds:.2f}s {module}")


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Prints a line that is part of the result, also when the test passes."""

    def show(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}")  # noqa: T201

    return show
