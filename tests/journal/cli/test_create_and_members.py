"""create, members, repair --accept-loss: a volume's life, with real processes."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest
import trio

from journal.gateway.client.client import open_volume
from sos_client.wire.errors import ExitCode
from tests.journal.cli.conftest import Cli, RunMain
from tests.journal.cli.servers import process

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, tuple[subprocess.Popen[str], str]]]:
    """Four empty SOS servers: name → (process, address)."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(process("sos_server", "--root", str(tmp_path / name), "--listen", "127.0.0.1:0"))
            for name in "abcd"
        }


Running = dict[str, "tuple[subprocess.Popen[str], str]"]


def _option(servers: Running, names: str) -> str:
    return ",".join(servers[name][1] for name in names)


def test_create_makes_a_volume_once_and_on_all_or_none(servers: Running, run_main: RunMain) -> None:
    three = ("--servers", _option(servers, "abc"))
    absent = run_main("create", "payments", "--servers", _option(servers, "ab") + ",127.0.0.1:1")
    assert absent.exit_code == 9
    ended = run_main("create", "payments", *three, "--keep-for", "7d", "--keep-bytes", "2G", "--json")
    assert ended.exit_code == 0, ended.stderr
    made = json.loads(ended.stdout)
    assert (made["acknowledgements"], len(made["members"])) == (2, 3)
    assert run_main("create", "payments", *three).exit_code == 4
    status = run_main("status", "payments", *three)
    assert status.exit_code == 0, status.stdout
    assert "7 d 0 h or 2.0 GiB, whichever comes first" in status.stdout
    assert run_main("verify", "payments", *three).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["create", "payments"], 2),
        (["create", "sos://payments/path", "--servers", "127.0.0.1:1"], 2),
        (["create", "payments", "--servers", "127.0.0.1:1", "--keep-for", "soon"], 2),
        (["create", "payments", "--servers", "127.0.0.1:1", "--keep-bytes", "much"], 2),
        (["create", "payments", "--servers", "127.0.0.1:1", "-k", "0"], 2),
        (["members", "add", "payments", "nowhere", "--servers", "127.0.0.1:1"], 2),
        (["members", "remove", "payments", "x"], 2),
        (["spark-conf", "payments"], 2),
        (["serve", "--volume", "payments"], 2),
    ],
)
def test_bad_arguments(run_main: RunMain, arguments: list[str], code: int) -> None:
    ended = run_main(*arguments)
    assert ended.exit_code == code, ended.stderr
    assert "Traceback" not in ended.stderr


class Load(threading.Thread):
    """Writes numbered files through the service until told to stop; what was acknowledged is remembered."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service
        self.acknowledged: list[int] = []
        self.stopping = False

    def run(self) -> None:
        trio.run(self._write)

    async def _write(self) -> None:
        async with open_volume([self.service], "payments") as volume:
            number = 0
            while not self.stopping:
                operation = volume.new_operation()
                await volume.put(f"load/{number:06}", b"%d" % number, overwrite=False, operation=operation)
                self.acknowledged.append(number)
                number += 1


def test_a_dead_server_is_replaced_under_load_and_then_another_is_lost(
    servers: Running, tmp_path: Path, run_main: RunMain
) -> None:
    assert run_main("create", "payments", "--servers", _option(servers, "abc")).exit_code == 0
    arguments = ("serve", "--volume", "payments", "--servers", _option(servers, "abc"), "--dir", str(tmp_path / "dir"))
    with process("journal", *arguments, "--listen", "127.0.0.1:0") as (_, service):
        load = Load(service)
        load.start()
        try:
            _wait(lambda: len(load.acknowledged) > 20)
            dead = servers["c"][1]
            servers["c"][0].send_signal(signal.SIGKILL)
            assert servers["d"][1] in _replace(run_main, servers, dead, servers["d"][1])
            before = len(load.acknowledged)
            _wait(lambda: len(load.acknowledged) > before + 50)
            _wait(lambda: _lag(run_main, servers, "abd") == 0)
            servers["a"][0].send_signal(signal.SIGKILL)
            before = len(load.acknowledged)
            _wait(lambda: len(load.acknowledged) > before + 50)
        finally:
            load.stopping = True
            load.join()
        listed = Cli(tmp_path)("ls", "sos://payments/load", "--service", service, "--json").stdout.splitlines()
    names = {json.loads(line)["path"] for line in listed}
    assert names >= {f"load/{number:06}" for number in load.acknowledged}


def _replace(run_main: RunMain, servers: Running, dead: str, new: str) -> str:
    """What the command prints. On a machine that is so loaded that servers are taken for dead, it is tried again."""
    for _ in range(5):
        ended = run_main("members", "replace", "payments", dead, new, "--servers", _option(servers, "ab"))
        if ended.exit_code != ExitCode.UNAVAILABLE:
            break
        time.sleep(2)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


def _lag(run_main: RunMain, servers: Running, names: str) -> int:
    ended = run_main("status", "payments", "--servers", _option(servers, names), "--json")
    return max(member["lag_bytes"] if member["identity"] else 10**9 for member in json.loads(ended.stdout)["members"])


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600  # longer than a client waits
    while not condition():
        assert time.monotonic() < deadline, "nothing has happened for minutes"
        time.sleep(0.05)


def test_a_volume_that_lost_too_many_members_goes_on_only_when_somebody_accepts_the_loss(
    servers: Running, tmp_path: Path, run_main: RunMain
) -> None:
    assert run_main("create", "payments", "--servers", _option(servers, "abc")).exit_code == 0
    serve = ("serve", "--volume", "payments", "--dir", str(tmp_path / "dir"), "--listen", "127.0.0.1:0")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "file").write_bytes(b"1")
    with process("journal", *serve, "--servers", _option(servers, "abc")) as (_, service):
        assert run_main("import", str(plain), "sos://payments/q", "--service", service).exit_code == 0
        _wait(lambda: _lag(run_main, servers, "abc") == 0)
    for name in "bc":
        servers[name][0].kill()
    left = ("--servers", _option(servers, "a"))
    refused = run_main("repair", "payments", *left, "--accept-loss", "--yes-lose", "other")
    assert refused.exit_code == 2
    assert "nothing was changed" in refused.stderr
    accepted = run_main("repair", "payments", *left, "--accept-loss", "--yes-lose", "payments", "--json")
    assert accepted.exit_code == 0, accepted.stderr
    given_up = json.loads(accepted.stdout)["accepted_loss"]
    assert servers["b"][1] in given_up
    with process("journal", *serve[:4], str(tmp_path / "new"), *serve[5:], *left) as (_, service):
        listed = run_main("ls", "-R", "payments", "--service", service)
        assert "q/file" in listed.stdout
    assert given_up in run_main("status", "payments", *left).stdout
    assert given_up in run_main("log", "payments", "--kind", "header", *left).stdout
