"""What each of the four commands does in the same way: help, exit codes, tokens, addresses, how it ends."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
import trio

from connectors.cli import command as sos_connector
from journal.cli import command as sos_journal
from sos_client.cli import command as sos
from sos_client.command.running import confirm, finish, run_async, run_command
from sos_client.credentials import token_of
from sos_client.nurseries import first_of, ungrouped
from sos_client.settings import SettingsError
from sos_client.wire.errors import ConnectionLostError, ExitCode, MisuseError
from sos_server.cli import command as sos_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMANDS = {"sos": sos, "sos-server": sos_server, "sos-journal": sos_journal, "sos-connector": sos_connector}
TOKEN = bytes(range(32))


def ended(run: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """How a command with this body ends: its exit code, and what it says."""
    with pytest.raises(SystemExit) as left:
        run_command(click.Command("verb", callback=run), "sos-any", [])
    return int(left.value.code or 0), capfd.readouterr().err


def failing(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("program", COMMANDS)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_ends_with_the_exit_codes(program: str, option: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run_command(COMMANDS[program], program, [option])
    assert not left.value.code
    shown = capfd.readouterr().out
    assert f"Usage: {program} [OPTIONS] COMMAND" in shown
    assert "141  nobody reads standard output any more" in shown


@pytest.mark.parametrize("program", COMMANDS)
def test_each_verb_has_short_help(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    command = COMMANDS[program]
    for verb in command.list_commands(click.Context(command)):
        with pytest.raises(SystemExit) as left:
            run_command(command, program, [verb, "-h"])
        assert not left.value.code
        assert f"Usage: {program} {verb}" in capfd.readouterr().out


@pytest.mark.parametrize("program", COMMANDS)
def test_a_shell_can_ask_how_to_go_on(program: str) -> None:
    module = {"sos": "sos_client", "sos-server": "sos_server", "sos-journal": "journal", "sos-connector": "connectors"}
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    asked = os.environ | {variable: "bash_complete", "COMP_WORDS": f"{program} ", "COMP_CWORD": "1"}
    answer = subprocess.run([sys.executable, "-m", module[program]], env=asked, capture_output=True, check=True)
    verbs = list(COMMANDS[program].list_commands(click.Context(COMMANDS[program])))
    assert [line.partition(",")[2] for line in answer.stdout.decode().split()] == verbs


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "sos-any: interrupted"),
        (click.Abort(), 130, "sos-any: interrupted"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (ConnectionLostError("gone"), 9, "sos-any: gone"),
        (SettingsError("--listen: what?"), 2, "sos-any: --listen: what?"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 7, "what is written to: No space left on device"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), 7, "what is written to: Disk quota exceeded"),
        (OSError(errno.EACCES, os.strerror(errno.EACCES), "there"), 6, "there: Permission denied"),
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT), "there"), 3, "there: No such file or directory"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), 1, "the system: Input/output error"),
        (ZeroDivisionError("odd \x1b[2J"), 1, "a mistake in sos-any: ZeroDivisionError: odd \\u001b[2J"),
    ],
    ids=str,
)
def test_each_way_to_end_is_a_sentence_and_a_code(
    error: BaseException, code: int, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for raised in (error, BaseExceptionGroup("some", [BaseExceptionGroup("more", [error])])):
        found, said = ended(failing(raised), capfd)
        assert found == code
        assert words in said
        assert said.count("\n") == bool(words)
        assert "Traceback" not in said


def test_a_verdict_has_its_sentences(capfd: pytest.CaptureFixture[str]) -> None:
    assert ended(lambda: finish(ExitCode.DONE, "all is well"), capfd) == (0, "")
    assert ended(lambda: finish(ExitCode.WARNING, "one", "two"), capfd) == (12, "sos-any: one\nsos-any: two\n")


def test_of_a_group_what_explains_the_others_comes_out() -> None:
    cause = ValueError("why")

    async def fail() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            raise ConnectionLostError("gone") from cause

    async def other() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise MisuseError("a consequence")

    with pytest.raises(ConnectionLostError) as caught:
        run_async(fail)
    assert caught.value.__cause__ is cause
    group = BaseExceptionGroup("both", [MisuseError("x"), BaseExceptionGroup("", [KeyboardInterrupt()])])
    assert isinstance(first_of(group), KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt), ungrouped():
        raise group


def test_a_token_is_given_as_text_or_in_a_file_and_the_command_line_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOS_TOKEN", raising=False)
    monkeypatch.delenv("SOS_TOKEN_FILE", raising=False)
    assert token_of(None) is None
    file = tmp_path / "token"
    file.write_text(TOKEN.hex() + "\n")
    other = bytes(32)
    assert token_of(file) == TOKEN
    assert token_of(file, other.hex()) == other
    monkeypatch.setenv("SOS_TOKEN_FILE", str(file))
    assert token_of(None) == TOKEN
    monkeypatch.setenv("SOS_TOKEN", other.hex())
    assert token_of(None) == other
    assert token_of(file) == TOKEN
    file.write_text("not a token")
    with pytest.raises(MisuseError, match="cannot be read as a token: a token is 64 hexadecimal digits"):
        token_of(file)


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("sos", ["ping", "--server", "127.0.0.1:9"]),
        ("sos-journal", ["ls", "v", "--servers", "127.0.0.1:9"]),
        ("sos-journal", ["serve", "--volume", "v", "--servers", "127.0.0.1:9", "--dir", "d"]),
        ("sos-connector", ["listen", "--volume", "v", "--servers", "127.0.0.1:9", "--dir", "d"]),
    ],
)
def test_each_command_that_shows_a_token_reads_both_variables(
    program: str,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("SOS_TOKEN", raising=False)
    (tmp_path / "token").write_text("odd")
    for variable, value in (("SOS_TOKEN_FILE", str(tmp_path / "token")), ("SOS_TOKEN", "odd")):
        monkeypatch.setenv(variable, value)
        with pytest.raises(SystemExit) as left:
            run_command(COMMANDS[program], program, arguments)
        assert left.value.code == ExitCode.USAGE
        assert "a token is 64 hexadecimal digits" in capfd.readouterr().err


@pytest.mark.parametrize("wrong", ["7400", "a", "a:0", "a:65536", "::1:7400", "a:1,b", "", "a..b:1"])
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("sos-journal", ["ls", "v", "--servers"]),
        ("sos-journal", ["ls", "v", "--service"]),
        ("sos-journal", ["serve", "--volume", "v", "--dir", "d", "--servers"]),
        ("sos-journal", ["members", "add", "v", "--dry-run", "--"]),
        ("sos-connector", ["send", "file", "--to"]),
    ],
)
def test_what_is_not_an_address_is_said_in_the_same_words(
    program: str, arguments: list[str], wrong: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        run_command(COMMANDS[program], program, [*arguments, wrong])
    assert left.value.code == ExitCode.USAGE
    said = capfd.readouterr().err
    assert "Invalid value for" in said
    assert "address" in said


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        ("y\n", 0, ""),
        ("n\n", 130, "nothing was changed"),
        ("\n", 130, "nothing was changed"),
        ("", 130, "nobody said yes (scripts say --yes): nothing was changed"),
    ],
)
def test_who_is_asked_and_does_not_agree_is_told_that_nothing_was_changed(
    answer: str, code: int, words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    exit_code, said = ended(lambda: confirm("Delete it?"), capfd)
    assert (exit_code, "Delete it? [y/N]: " in said) == (code, True)
    assert said.endswith(f"sos-any: {words}\n") if words else "sos-any" not in said
