"""For pytest: `--sos-sink-rules FILE`, the faults that sinks commit while tests run.

Sinks that tests start as processes find FILE in SOS_SINK_RULES; `serve_sink` in the tests' own process takes the
fixture `sos_sink_rules`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from connectors.sink.sink_rules import SinkRules, parse_rules
from sos_client.settings import SettingsError

VARIABLE: Final = "SOS_SINK_RULES"
_RULES: Final = pytest.StashKey[SinkRules]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("sos-connector").addoption(
        "--sos-sink-rules", metavar="FILE", help="faults that sinks commit: votes to abort, closed connections"
    )


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--sos-sink-rules")
    rules = SinkRules()
    if name is not None:
        try:
            rules = parse_rules(Path(name).read_text(encoding="utf-8").splitlines())
        except (OSError, UnicodeDecodeError, SettingsError) as error:
            raise pytest.UsageError(f"--sos-sink-rules {name}: {error}") from error
        os.environ[VARIABLE] = str(Path(name).resolve())
    config.stash[_RULES] = rules


@pytest.fixture(scope="session")
def sos_sink_rules(request: pytest.FixtureRequest) -> SinkRules:
    """The rules of `--sos-sink-rules`; none without it."""
    return request.config.stash[_RULES]
