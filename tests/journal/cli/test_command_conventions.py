"""What a person trips over once: moments to come, roots that were mistyped, colours nobody wants, shells that ask."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import connectors.cli
import journal.cli
import sos_client.cli
import sos_server.cli
from sos_client.command.output import ago_text
from sos_client.command.parameters import Seconds
from sos_client.serving.access import Right, append_token, new_token
from tests.journal.cli.conftest import Cli, RunMain, VolumeOnDisk, write_query
from tests.journal.cli.servers import sos_servers
from tests.system.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = Path(sys.executable).parent
GROUPS = {
    "sos": sos_client.cli.command,
    "sos-server": sos_server.cli.command,
    "sos-journal": journal.cli.command,
    "sos-connector": connectors.cli.command,
}


def _run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [str(COMMANDS / command[0]), *command[1:]]
    variables = {"PATH": str(COMMANDS), "HOME": "/nonexistent", **environment}
    return subprocess.run(words, capture_output=True, text=True, env=variables, check=False, timeout=600)


def test_a_moment_to_come_is_refused(volume: VolumeOnDisk, run_main: RunMain) -> None:
    write_query(volume, "q1", "hdfs", batches=2)
    volume.save()
    ended = run_main("ls", "payments", "--at", "2999-01-01", "--dir", str(volume.root))
    assert ended.exit_code == 2
    assert "has not come yet" in ended.stderr


def test_each_query_is_told_how_much_it_takes(volume: VolumeOnDisk, cli: Cli) -> None:
    write_query(volume, "q1", "hdfs", batches=2)
    write_query(volume, "q2", "hdfs", batches=4)
    for _ in range(5):
        volume.put("q2/offsets/4", bytes(1000))
    volume.save()
    first, second = cli.lines("du", "payments")
    assert (first["query"], second["query"]) == ("q1", "q2")
    assert second["past_bytes"] > first["past_bytes"] + 4000
    live = sum(entry["size"] for entry in cli.lines("ls", "-R", "sos://payments/q1") if not entry["directory"])
    assert first["live_bytes"] == live


def test_how_long_ago_is_said_roughly() -> None:
    said = [ago_text(10**12 - seconds * 1000, 10**12) for seconds in (-5, 0, 90, 150, 7199, 7200, 200_000)]
    assert said == ["0 s ago", "0 s ago", "90 s ago", "2 min ago", "119 min ago", "2 h ago", "2 d ago"]
    assert ago_text(None, 10**12) == "-"


@pytest.mark.parametrize(("said", "seconds"), [("1.5", 1.5), ("90s", 90), ("2m", 120), ("1h", 3600)])
def test_seconds_may_be_said_as_people_say_them(said: str, seconds: float) -> None:
    assert Seconds(min=0).convert(said, None, None) == seconds


def test_a_root_that_was_mistyped_is_not_a_new_server(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("mine\n")
    done = _run("sos-server", "--root", str(tmp_path), "--listen", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "letters" in done.stderr
    assert "--new" in done.stderr
    checked = _run("sos-server", "check", "--root", str(tmp_path))
    assert (checked.returncode, checked.stdout, "is not a server's directory" in checked.stderr) == (2, "", True)
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]
    server = ServerProcess(tmp_path, "--new")
    server.root = tmp_path
    server.log_path = tmp_path.parent / "server.log"
    server.start()
    server.kill()


def test_who_may_not_delete_has_sealed_nothing(tmp_path: Path) -> None:
    rights = frozenset({Right.READ, Right.APPEND})
    text, grant = new_token(name="writer", namespaces=("*",), rights=rights, expires=None)
    append_token(tmp_path / "tokens.toml", grant)
    server = ServerProcess(tmp_path, "--tokens", str(tmp_path / "tokens.toml"))
    server.start()
    try:
        access = {"SOS_SERVER": server.address, "SOS_TOKEN": text}
        assert _run("sos", "put", "scratch/a", **access).returncode == 0
        assert _run("sos", "rm", "--seal", "scratch/a", **access).returncode == 6
        assert '"sealed":false' in _run("sos", "stat", "scratch/a", "--json", **access).stdout.replace(" ", "")
    finally:
        server.kill()


def test_rm_seals_for_who_may(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    server.start()
    try:
        assert _run("sos", "put", "scratch/a", SOS_SERVER=server.address).returncode == 0
        assert _run("sos", "rm", "scratch/a", SOS_SERVER=server.address).returncode == 4
        assert _run("sos", "rm", "--seal", "scratch/a", SOS_SERVER=server.address).returncode == 0
    finally:
        server.kill()


def test_the_second_of_two_members_is_not_given_up_without_a_question(tmp_path: Path) -> None:
    with sos_servers(tmp_path, "other") as servers:
        assert _run("sos-journal", "create", "payments", "--servers", servers.option).returncode == 0
        remove = ("sos-journal", "members", "remove", "payments", servers.addresses[2], "--servers", servers.option)
        asked = _run(*remove)
        assert asked.returncode == 130
        assert "2 of 2 must sync then" in asked.stderr
        assert "nothing was changed" in asked.stderr
        stranger = _run(*remove[:4], "127.0.0.1:9", *remove[5:])
        assert (stranger.returncode, "none of the members" in stranger.stderr) == (2, True)
        assert "must sync then" not in stranger.stderr, "nobody is asked about what cannot be done"
        assert _run(*remove, "--yes").returncode == 0


@pytest.mark.parametrize("program", ["sos", "sos-server", "sos-journal", "sos-connector"])
def test_every_command_completes_in_every_shell(program: str) -> None:
    for shell in ("bash", "zsh", "fish"):
        done = _run(program, "completion", shell)
        assert done.returncode == 0, done.stderr
        assert f"_{program.replace('-', '_').upper()}_COMPLETE" in done.stdout
        if found := shutil.which(shell):
            assert subprocess.run([found, "-n"], input=done.stdout, text=True, check=False).returncode == 0


@pytest.mark.parametrize("program", GROUPS)
def test_every_verb_shows_how_it_is_typed(program: str) -> None:
    for name, verb in _verbs(GROUPS[program], program):
        shown = f"{verb.help or ''}{verb.epilog or ''}"
        assert "\b\n" in shown, name
        assert name in shown.replace("sos-server --", "sos-server serve --"), name


def _verbs(group: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(group, click.Group):
        yield name, group
        return
    context = click.Context(group)
    for verb in group.list_commands(context):
        found = group.get_command(context, verb)
        assert found is not None
        yield from _verbs(found, f"{name} {verb}")


def test_bash_is_told_the_verbs() -> None:
    asked = _run("sos-journal", COMP_WORDS="sos-journal rew", COMP_CWORD="1", _SOS_JOURNAL_COMPLETE="bash_complete")
    assert asked.stdout.split() == ["plain,rewind"]


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(variables: dict[str, str]) -> None:
    script = shutil.which("script")
    if script is None:
        pytest.skip("no terminal can be made here without script(1)")
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "xterm"}
    for added, coloured in (({}, True), (variables, False)):
        command = f"{COMMANDS / 'sos-journal'} ls payments --dir /nonexistent"
        done = subprocess.run(
            [script, "-qec", command, "/dev/null"],
            capture_output=True,
            env=environment | added,
            check=False,
            timeout=600,
        )
        assert (b"\x1b[" in done.stdout) is coloured, done.stdout
