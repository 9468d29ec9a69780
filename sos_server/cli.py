"""The ``sos-server`` command: serve, check what is on disk, make tokens."""

from __future__ import annotations

import dataclasses
import errno
import os
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from journal.disk.disk import DiskLockedError, open_disk
from sos_client.command.connecting import decorated
from sos_client.command.output import json_text, progress
from sos_client.command.parameters import FILE, PRESENT_DIRECTORY
from sos_client.command.running import finish, run_async, run_command
from sos_client.command.serving import EXIT_WITH_FD_OPTION, SHARE_PORT_OPTION
from sos_client.command.setting_flags import flag_options
from sos_client.command.verbs import Verbs
from sos_client.printable import printable
from sos_client.serving.access import Right, append_token, new_token
from sos_client.wire.errors import ExitCode, SosError
from sos_server.config import SECTIONS, load_settings
from sos_server.serve import serve
from sos_server.store.checking import CheckReport, check_root
from sos_server.store.starting import DIRECTORIES, IDENTITY_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sos_client.command.connecting import Verb

SECONDS_PER_DAY: Final = 86_400
_STDOUT: Final = 1
_NOT_ALLOWED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

command: Final = Verbs(
    "sos-server",
    "sos_server",
    {"serve": ("cli", "serve_command"), "token": ("cli", "token_command"), "check": ("cli", "check_command")},
    help="""The SOS server: append-only objects, acknowledged when they are on disk.

    Without a verb it serves: sos-server --root DIR (sos-server serve --help has the options)
    """,
    default="serve",
)


def main() -> NoReturn:
    """Entry point of the command."""
    run_command(command, "sos-server")


def _setting_options(function: Verb) -> Verb:
    return decorated(function, [option for kind in SECTIONS.values() for option in flag_options(kind)])


@click.command("serve")
@click.option("--config", type=FILE, help="TOML file with settings; flags win over it.")
@_setting_options
@EXIT_WITH_FD_OPTION
@click.option("--new", is_flag=True, help="Begin in a directory that has other files in it.")
@SHARE_PORT_OPTION
def serve_command(*, config: Path | None, exit_with_fd: int | None, share_port: bool, new: bool, **flags: Any) -> None:
    """Serve until SIGTERM. Prints `ready HOST:PORT` when it does; SIGHUP reloads settings, tokens, certificates.

    \b
    sos-server serve --root /var/lib/sos
    sos-server --config /etc/sos/sos.toml
    """
    load = partial(load_settings, config, flags)
    root = load().root
    if not new:
        _check_ours(root, remedy=": --new begins one there")
    with _told_about(root, owned="another process owns this directory; is it served already?"):
        run_async(partial(serve, share_port=share_port), load, exit_with_fd)


def _check_ours(root: Path, *, remedy: str = "") -> None:
    """A root that was mistyped must not become a server in the middle of somebody's files, nor be called well."""
    try:
        names = {path.name for path in root.iterdir()} if root.is_dir() else set()
    except OSError:
        return  # opening it says what is wrong
    if names - {"lost+found"} and not names & {IDENTITY_FILE, *DIRECTORIES}:
        some = ", ".join(sorted(names)[:3])
        finish(ExitCode.USAGE, f"{root} is not a server's directory, and has other things in it ({some}){remedy}")


@click.command("token")
@click.option("--tokens", type=FILE, required=True, help="Tokens file to add to; made when there is none.")
@click.option("--name", required=True, help="What the audit log calls it.")
@click.option("--namespace", "namespaces", multiple=True, default=["*"], show_default=True, help="Name or glob.")
@click.option(
    "--right",
    "rights",
    multiple=True,
    type=click.Choice([str(right) for right in Right]),
    default=["read", "append", "fence"],
    show_default=True,
)
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="It expires after this many days.")
def token_command(
    *, tokens: Path, name: str, namespaces: Sequence[str], rights: Sequence[str], days: float | None
) -> None:
    """Make a token, add its hash to the tokens file, and print the token: once, it is kept nowhere.

    \b
    sos-server token --tokens tokens.toml --name spark --namespace payments --right read
    """
    expires = None if days is None else time.time() + days * SECONDS_PER_DAY
    granted = frozenset(Right(right) for right in rights)
    text, grant = new_token(name=name, namespaces=tuple(namespaces), rights=granted, expires=expires)
    try:
        append_token(tokens, grant)
    except OSError as error:
        finish(ExitCode.USAGE, f"{tokens}: cannot be written: {error.strerror}")
    try:
        _print(text)
    except OSError as error:
        lost = f"the token could not be shown ({error.strerror}) and is lost: take the entry {name!r} out of {tokens}"
        finish(ExitCode.USAGE, lost)


@click.command("check")
@click.option("--root", type=PRESENT_DIRECTORY, required=True, help="Directory of a server that is not running.")
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON object on standard output.")
def check_command(*, root: Path, as_json: bool) -> None:
    """Verify every byte that a server keeps, without starting it or changing anything.

    \b
    sos-server check --root /var/lib/sos
    """
    _check_ours(root)
    with _told_about(root, owned="a server is running on this directory; stop it first"):
        report = run_async(_check, root)
    code = ExitCode.DONE if report.is_whole else ExitCode.DAMAGED
    try:
        _print(_as_json(report) if as_json else _as_text(report))
    except OSError as error:
        finish(code or ExitCode.USAGE, f"the report cannot be shown: {error.strerror}")
    finish(code)


async def _check(root: Path) -> CheckReport:
    with progress("checking", None) as bar:
        async with open_disk(root) as disk:
            return await check_root(disk, on_progress=bar.reached)


def _as_json(report: CheckReport) -> str:
    return json_text({**dataclasses.asdict(report), "whole": report.is_whole})


def _as_text(report: CheckReport) -> str:
    lines = [f"DAMAGE: {sentence}" for sentence in report.damage]
    lines += [f"remark: {sentence}" for sentence in report.remarks]
    verdict = "all is well" if report.is_whole else f"{len(report.damage)} damaged"
    objects = f"{report.objects} objects in {report.namespaces} namespaces"
    return "\n".join([*map(printable, lines), f"{objects}, {report.verified_bytes} bytes verified: {verdict}"])


def _print(text: str) -> None:
    """To standard output, unbuffered. OSError when it cannot be written (all of it)."""
    rest = f"{text}\n".encode()
    while rest:
        rest = rest[os.write(_STDOUT, rest) :]


def disk_verdict(root: Path | None, error: OSError) -> tuple[str, ExitCode]:
    """What is told of this error of the disk below a root, and the exit code: not every one is a disk that failed."""
    reason = f"{error.strerror}: {error.filename!r}" if error.filename else str(error.strerror or error)
    if error.errno in _NOT_ALLOWED:
        return f"{root}: this process may not use it: {reason}", ExitCode.USAGE
    return f"{root}: the disk failed: {reason}", ExitCode.DAMAGED


@contextmanager
def _told_about(root: Path, *, owned: str) -> Iterator[None]:
    """What goes wrong with a server's directory in the block, as sentences and exit codes."""
    try:
        yield
    except DiskLockedError:
        finish(ExitCode.UNAVAILABLE, f"{root}: {owned}")
    except OSError as error:
        sentence, code = disk_verdict(root, error)
        finish(code, sentence)
    except SosError as error:
        finish(ExitCode.DAMAGED, str(error))
