"""docs/journal-service.md says what the service really has: its options, its metrics, the events of its log."""

from __future__ import annotations

import re
from pathlib import Path

import click

from journal.cli.serve import serve_command
from journal.gateway.exposition import registry_of
from journal.gateway.keeper import VolumeKeeper
from journal.gateway.metrics import GatewayMetrics

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs/journal-service.md").read_text()


def test_options_exist() -> None:
    options = {name for parameter in serve_command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    example = "\n".join(re.findall(r"^sos-journal serve(?:.*\\\n)*.*$", DOCUMENT, re.MULTILINE))
    named = set(re.findall(r"--[a-z-]+", example)) | set(re.findall(r"\*\*`(--[a-z-]+)", DOCUMENT))
    assert named
    assert named <= options
    assert isinstance(serve_command, click.Command)


def test_metrics_are_all_there() -> None:
    registry = registry_of(GatewayMetrics(), list[VolumeKeeper]())
    real = {family.name + ("_total" if family.type == "counter" else "") for family in registry.collect()}
    assert set(re.findall(r"^\| `(sos_journal_\w+)`", DOCUMENT, re.MULTILINE)) == real


def test_events_are_in_the_code() -> None:
    code = "".join(path.read_text() for path in (ROOT / "journal/gateway").glob("*.py"))
    table = DOCUMENT.split("## Logs")[1].split("## Metrics")[0]
    events = [
        event for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for event in re.findall(r"`(.*?)`", row)
    ]
    assert len(events) > 5
    for event in events:
        assert f'"{event}"' in code, event
