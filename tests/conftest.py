"""What all tests share. Hypothesis measures no time, because a machine with other work to do is not a mistake."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import defaultdict
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
    parser.addoption("--part", metavar="N/M", help="only the Nth of M parts; a module's tests stay together")
    parser.addoption(
        "--renew-traces", action="store_true", help="write traces as they happen now, instead of comparing"
    )
    parser.addoption("--costs", metavar="N", type=int, default=0, help="show N modules that take most of processors")
    parser.addoption("--any-part", action="store_true", help="parts of tests that need not stay together")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if part := config.getoption("--part"):
        number, _, parts = part.partition("/")
        together = [item.nodeid if config.getoption("--any-part") else str(item.path) for item in items]
        own = set(list(dict.fromkeys(together))[int(number) - 1 :: int(parts)])
        mine = [item for item, name in zip(items, together, strict=True) if name in own]
        config.hook.pytest_deselected(items=[item for item in items if item not in mine])
        items[:] = mine


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
