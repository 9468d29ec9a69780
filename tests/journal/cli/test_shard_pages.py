"""Pages about a volume that is spread over shards: of all of it from its servers, and of one shard from its service."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import trio

from tests.journal.cli.conftest import Cli
from tests.journal.cli.servers import process
from tests.journal.cli.shards import NAMES, files_up_to, write
from tests.json_contract.contract import hold
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_SECONDS = 40.0


class Site:
    """A server, a service for each of two shards, each with a page."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.stack = stack
        started, self.server = stack.enter_context(
            process("sos_server", "--root", str(root / "a"), "--listen", "127.0.0.1:0")
        )
        self.server_process = started
        self.cli = Cli(root)
        assert self.cli("create", "payments", "--shards", "2", "--servers", self.server).exit_code == 0
        self.pages = [f"127.0.0.1:{free_port()}" for _ in NAMES]
        services = []
        for number, page in enumerate(self.pages):
            where = ["--servers", self.server, "--dir", str(root / "dir"), "--listen", "127.0.0.1:0", "--web", page]
            shard = ["--volume", "payments", "--shards", "2", "--shard", str(number)]
            services.append(stack.enter_context(process("journal", "serve", *shard, *where)))
        self.processes = [running for running, _ in services]
        self.services = ",".join(sorted(address for _, address in services))

    def web(self) -> str:
        """The page that `sos-journal web` serves."""
        page = f"127.0.0.1:{free_port()}"
        command = ["journal", "web", "payments", "--servers", self.server, "--listen", page]
        self.stack.callback(_ended, subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL))
        return page


def _ended(running: subprocess.Popen[bytes]) -> None:
    running.terminate()
    running.wait(30)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


def status(page: str, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """What the page says when it says so."""
    until = time.monotonic() + _SECONDS
    found: dict[str, Any] = {}
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://{page}/status.json", timeout=20) as reply:
                found = json.load(reply)
        except OSError:
            time.sleep(0.1)
            continue
        if condition(found):
            return found
        time.sleep(0.2)
    raise AssertionError(found)


def looked_through(found: dict[str, Any]) -> bool:
    return any(query["verdict"].get("looked_ms") for one in found["details"] for query in one["queries"])


def test_the_page_from_the_servers_shows_one_volume(site: Site) -> None:
    files = files_up_to(4)
    trio.run(write, site.services, files)
    page = site.web()
    found = status(page, looked_through)
    hold("status", "servers", found)
    (volume,), (details,) = found["volumes"], found["details"]
    assert (volume["volume"], details["volume"]) == ("payments", "payments")
    assert [one["volume"] for one in volume["shards"]] == NAMES
    assert (volume["files"], volume["live_bytes"]) == (len(files), sum(len(data) for data in files.values()))
    assert [member["address"] for member in volume["members"]] == [site.server]
    assert volume["members"][0]["in_sync"]
    (query,) = details["queries"]
    assert (query["query"], query["last_batch"], query["verdict"]["severity"]) == ("q", 4, "OK")
    assert [(one["partitions"], one["version"]) for one in query["state"]] == [(2, 5)]
    (room,) = details["room"]["queries"]
    assert room["bytes"] == volume["live_bytes"]


def test_the_page_from_the_servers_says_which_shard_lacks_state(site: Site) -> None:
    trio.run(write, site.services, files_up_to(4))
    lost = "sos://payments.shard-1-of-2/q/state/0/1/5.delta"
    removed = site.cli("rm", lost, "--yes", "--service", site.services)
    assert removed.exit_code == 0, removed.output
    (details,) = status(site.web(), looked_through)["details"]
    (query,) = details["queries"]
    assert query["verdict"]["severity"] == "FAILURE"
    assert "operator 0, partition 1" in query["verdict"]["words"]


def test_the_page_of_a_shards_service_speaks_of_that_and_leads_to_the_rest(site: Site) -> None:
    trio.run(write, site.services, files_up_to(4))
    found = status(site.pages[0], looked_through)
    hold("status", "service", found)
    (volume,), (details,) = found["volumes"], found["details"]
    assert (volume["volume"], volume["shard_of"]) == (NAMES[0], "payments")
    (query,) = details["queries"]
    assert query["verdict"]["severity"] == "NOTE"
    assert "only shard 0 of 2 was looked at: 1 of 2 state stores" in query["verdict"]["words"]
    command = shlex.split(query["commands"]["files"].replace("NUMBER", "3"))
    assert command[-2:] == ["--service", site.services]
    listed = site.cli(*command[1:], "-R", "--json")
    assert listed.exit_code == 0, listed.output
    shown = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {one["path"] for one in shown if not one["directory"]} == {f"q/{name}" for name in files_up_to(3)}
    assert status(site.pages[1], lambda page: page["details"])["details"][0]["queries"] == []


def test_a_page_whose_servers_are_gone_says_which_shard_it_cannot_read(site: Site) -> None:
    trio.run(write, site.services, files_up_to(1))
    page = site.web()
    status(page, looked_through)
    site.server_process.kill()
    gone = status(page, lambda found: found["volumes"][0]["outlook"]["level"] == "bad")
    assert gone["volumes"][0]["outlook"]["may_lose"] < 0
