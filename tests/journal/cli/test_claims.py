"""claims and rm: the checkpoint of a query that is over is somebody's no longer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import trio
from click.testing import CliRunner

from journal.cli import command
from journal.gateway.client.client import open_volume
from journal.volume import PathClaim
from tests.journal.cli.servers import memory_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

    from journal.volume import ClaimedPath
    from tests.journal.cli.conftest import RunMain

OVER = PathClaim(application="app-over", start_time=1_790_000_000_000)


@pytest.fixture
def service() -> Iterator[str]:
    """A service with one query's checkpoint, claimed, and a claim below a path of its own."""
    with memory_service("payments") as address:

        async def write() -> None:
            async with open_volume([address], "payments") as volume:
                for path in ("q1", "junk/1", "junk/2"):
                    await volume.claim(path, OVER, operation=volume.new_operation())
                    operation = volume.new_operation()
                    await volume.put(f"{path}/metadata", b"{}", overwrite=False, operation=operation, claim=OVER)

        trio.run(write)
        yield address


def _claims(address: str) -> list[ClaimedPath]:
    async def ask() -> list[ClaimedPath]:
        async with open_volume([address], "payments") as volume:
            return list((await volume.claims()).claims)

    return trio.run(ask)


def _answering(answer: str, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, input=answer, env={"SOS_SERVICE": None, "SOS_TOKEN": None})


def test_claims_are_listed(service: str, run_main: RunMain) -> None:
    ended = run_main("claims", "list", "sos://payments", "--service", service, "--utc")
    assert ended.exit_code == 0, ended.stderr
    assert [line.split()[0] for line in ended.stdout.splitlines()] == ["PATH", "junk/1", "junk/2", "q1"]
    assert "app-over" in ended.stdout
    ended = run_main("claims", "list", "sos://payments/q1", "--service", service, "--json")
    assert json.loads(ended.stdout) == {"path": "q1", "application": "app-over", "start_time": OVER.start_time}


def test_a_claim_is_released_after_a_question(service: str, run_main: RunMain) -> None:
    arguments = ("claims", "release", "sos://payments/q1", "--service", service)
    asked = _answering("n\n", *arguments)
    assert asked.exit_code != 0
    assert "app-over" in asked.stderr
    assert len(_claims(service)) == 3
    assert _answering("y\n", *arguments).exit_code == 0
    assert [one.path for one in _claims(service)] == ["junk/1", "junk/2"]
    assert run_main(*arguments).exit_code == 3
    ended = run_main("claims", "release", "sos://payments/junk", "--below", "--yes", "--json", "--service", service)
    assert [json.loads(line)["released"] for line in ended.stdout.splitlines()] == [True, True]
    assert _claims(service) == []


def test_rm_takes_the_claim_with_the_checkpoint(service: str, run_main: RunMain) -> None:
    where = ("--service", service)
    assert run_main("rm", "sos://payments/q1", "--yes", *where).exit_code == 4
    refused = run_main("rm", "sos://payments/q1", *where)
    assert (refused.exit_code, "sos://payments/q1 is not empty: -r deletes it" in refused.stderr) == (4, True)
    assert "If these applications" not in refused.stderr, "nobody is asked about what cannot be done"
    asked = _answering("n\n", "rm", "-r", "sos://payments/q1", *where)
    assert asked.exit_code != 0
    assert "app-over" in asked.stderr
    ended = run_main("rm", "-r", "sos://payments/q1", "--yes", "--json", *where)
    assert json.loads(ended.stdout) == {"deleted": "q1", "claims": ["q1"]}
    assert run_main("rm", "-r", "sos://payments/q1", "--yes", *where).exit_code == 3
    assert run_main("rm", "sos://payments/junk/1/metadata", "--yes", *where).exit_code == 0
    assert [one.path for one in _claims(service)] == ["junk/1", "junk/2"]
