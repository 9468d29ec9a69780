"""`sos-journal volumes`: what servers have is listed; a volume is dropped by its name, when nobody serves it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import trio
from click.testing import CliRunner

from journal.cli import command
from journal.errors import JournalError
from sos_client.client import open_client
from sos_client.serving.access import Right, append_token, new_token
from sos_client.wire.errors import SosError
from tests.journal.cli.servers import process
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

NOWHERE = {"SOS_SERVICE": None, "SOS_SERVERS": None, "SOS_TOKEN": None, "HOME": "/nonexistent"}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[str]]:
    with ExitStack() as stack:
        words = [("sos_server", "--root", str(tmp_path / f"s{n}"), "--listen", "127.0.0.1:0") for n in range(3)]
        yield [stack.enter_context(process(*one))[1] for one in words]


def run(*words: str, servers: list[str], given: str = "") -> Result:
    return CliRunner().invoke(command, [*words, "--servers", ",".join(servers)], env=NOWHERE, input=given)


def made(name: str, servers: list[str]) -> None:
    assert run("create", name, servers=servers).exit_code == 0


def told(*words: str, servers: list[str]) -> list[dict[str, object]]:
    done = run(*words, "--json", servers=servers)
    assert done.exception is None, done.exception
    return [json.loads(line) for line in done.stdout.splitlines()]


def refusal(done: Result) -> SosError:
    assert isinstance(done.exception, SosError), done.output
    return done.exception


async def put(server: str, namespace: str, name: str) -> None:
    async with open_client(server) as client:
        await client.use(namespace, create=True)
        async with client.append(namespace, name, size=0) as stream:
            await stream.send(b"something")


def test_volumes_are_listed_and_other_namespaces_are_not(servers: list[str]) -> None:
    made("payments", servers)
    made("alone", servers[:1])
    trio.run(put, servers[0], "plain", "object")
    alone, payments = told("volumes", "list", servers=servers)
    assert (alone["volume"], alone["servers"]) == ("alone", servers[:1])
    assert (payments["volume"], payments["servers"], payments["last_served_at"]) == ("payments", servers, None)
    assert payments["epoch"] == 1
    table = run("volumes", "list", servers=servers).stdout.splitlines()
    assert [line.split()[:4] for line in table[1:]] == [["alone", "1", "of", "3"], ["payments", "3", "of", "3"]]


def test_a_server_that_is_away_is_a_warning(servers: list[str]) -> None:
    made("payments", servers)
    away = f"127.0.0.1:{free_port()}"
    done = run("volumes", "list", "--json", servers=[*servers, away])
    assert json.loads(done.stdout)["servers"] == servers
    assert away in done.stderr
    assert getattr(done.exception, "code", None) == 12
    assert refusal(run("volumes", "list", servers=[away])).exit_code == 9


def test_a_volume_that_is_served_is_not_dropped(servers: list[str], tmp_path: Path) -> None:
    made("payments", servers)
    words = ("journal", "serve", "--volume", "payments", "--servers", ",".join(servers), "--listen", "127.0.0.1:0")
    with process(*words, "--dir", str(tmp_path / "cache")) as (service, address):
        (found,) = told("volumes", "list", servers=servers)
        assert found["last_served_at"] == address
        error = refusal(run("volumes", "drop", "payments", "--yes", servers=servers))
        assert error.exit_code == 4
        assert address in str(error)
        service.kill()
        service.wait()
        (dropped,) = told("volumes", "drop", "payments", "--yes", servers=servers)
        assert (dropped["servers"], dropped["kept_objects"]) == (servers, 0)
    assert told("volumes", "list", servers=servers) == []
    assert refusal(run("status", "payments", servers=servers)).exit_code == 3
    assert refusal(run("volumes", "drop", "payments", "--yes", servers=servers)).exit_code == 3
    made("payments", servers)  # and the directory of the old one does not harm the new one
    with process(*words, "--dir", str(tmp_path / "cache")) as (_, address):
        assert run("ls", "payments", servers=servers).stdout == ""


def test_its_name_has_to_be_typed(servers: list[str]) -> None:
    made("payments", servers)
    (planned,) = told("volumes", "drop", "payments", "--dry-run", servers=servers)
    assert (planned["dry_run"], planned["objects"]) == (True, 3)
    for given in ("y\n", "yes\n", "payment\n"):
        error = refusal(run("volumes", "drop", "payments", servers=servers, given=given))
        assert error.exit_code == 2
    assert len(told("volumes", "list", servers=servers)) == 1
    assert run("volumes", "drop", "payments", servers=servers, given="payments\n").exit_code == 0
    assert told("volumes", "list", servers=servers) == []


def test_what_is_no_volume_is_not_dropped(servers: list[str]) -> None:
    trio.run(put, servers[0], "plain", "object")
    error = refusal(run("volumes", "drop", "plain", "--yes", servers=servers))
    assert (error.exit_code, isinstance(error, JournalError)) == (3, True)
    assert "no volume's log" in str(error)


def test_a_member_that_was_not_named_is_told(servers: list[str]) -> None:
    made("payments", servers)
    done = run("volumes", "drop", "payments", "--yes", servers=servers[:2])
    assert getattr(done.exception, "code", None) == 12
    assert f"{servers[2]} is a member, too" in done.stderr
    (left,) = told("volumes", "list", servers=servers)
    assert left["servers"] == servers[2:]
    away = [*servers[2:], f"127.0.0.1:{free_port()}"]
    assert refusal(run("volumes", "drop", "payments", "--yes", servers=away)).exit_code == 9
    assert len(told("volumes", "list", servers=servers)) == 1


def test_without_the_right_to_delete_nothing_is_claimed(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    given = {}
    for name, rights in (("all", frozenset(Right)), ("some", frozenset(Right) - {Right.DELETE})):
        given[name], grant = new_token(name=name, namespaces=("payments",), rights=rights, expires=None)
        append_token(tokens, grant)
    words = ["sos_server", "--root", str(tmp_path / "s"), "--listen", "127.0.0.1:0", "--tokens", str(tokens)]
    with process(*words) as (_, server):

        def with_token(token: str, *arguments: str) -> Result:
            return CliRunner().invoke(
                command, [*arguments, "--servers", server], env=NOWHERE | {"SOS_TOKEN": given[token]}
            )

        assert with_token("all", "create", "payments").exit_code == 0
        before = json.loads(with_token("some", "volumes", "list", "--json").stdout)
        assert refusal(with_token("some", "volumes", "drop", "payments", "--yes")).exit_code == 6
        assert json.loads(with_token("some", "volumes", "list", "--json").stdout) == before
        assert with_token("all", "volumes", "drop", "payments", "--yes").exit_code == 0


def test_what_a_server_keeps_for_now_is_said_and_goes_later(tmp_path: Path) -> None:
    settings = tmp_path / "sos.toml"
    server_part = f'[server]\nroot = "{tmp_path / "s"}"\nlisten = "127.0.0.1:0"\n'
    settings.write_text(server_part + "[storage]\nretention_seconds = 2\n")
    with process("sos_server", "--config", str(settings)) as (_, server):
        made("payments", [server])
        done = run("volumes", "drop", "payments", "--yes", servers=[server])
        assert getattr(done.exception, "code", None) == 12
        assert "do it again" in done.stdout
        trio.run(trio.sleep, 2.5)
        assert run("volumes", "drop", "payments", "--yes", servers=[server]).exit_code == 0
        assert told("volumes", "list", servers=[server]) == []
