"""docs/journal-service.md says what the service really has: its options, its metrics, the events of its log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journal.cli.serve import serve_command
from journal.gateway.metrics import GatewayMetrics
from journal.service.exposition import registry_of
from journal.service.keeper import VolumeKeeper
from sos_client.net.addresses import Address
from sos_client.serving.event_log import EventLog
from sos_client.serving.serving_metrics import ServingMetrics
from tests.fakes.serve_memory_volume import listener_at

if TYPE_CHECKING:
    from sos_client.serving.listener import Accepted

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs/journal-service.md").read_text()


def test_options_exist() -> None:
    options = {name for parameter in serve_command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    example = "\n".join(re.findall(r"^sos-journal serve(?:.*\\\n)*.*$", DOCUMENT, re.MULTILINE))
    named = set(re.findall(r"--[a-z-]+", example)) | set(re.findall(r"\*\*`(--[a-z-]+)", DOCUMENT))
    assert named
    assert named <= options
    assert isinstance(serve_command, click.Command)


async def test_metrics_are_all_there() -> None:
    async def nobody_comes(accepted: Accepted) -> None:
        raise AssertionError(accepted.peer)

    listener = listener_at(Address(host="127.0.0.1", port=0))
    listener.stop()
    await listener.serve(nobody_comes)
    registry = registry_of(GatewayMetrics(), list[VolumeKeeper]())
    registry.register(ServingMetrics("sos_journal", listener, EventLog()))
    real = {family.name + ("_total" if family.type == "counter" else "") for family in registry.collect()}
    rows = re.findall(r"^\| (`sos_journal_.*?) \|", DOCUMENT, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == real


def test_events_are_in_the_code() -> None:
    code = "".join(path.read_text() for path in (ROOT / "journal").glob("**/*.py"))
    table = DOCUMENT.split("## Logs")[1].split("## Metrics")[0]
    events = [
        event for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for event in re.findall(r"`(.*?)`", row)
    ]
    assert len(events) > 5
    for event in events:
        assert f'"{event}"' in code, event
