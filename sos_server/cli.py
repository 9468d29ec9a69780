"""The ``sos-server`` command: serve, check what is on disk, make tokens. Exit codes are those of ``sos``."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click
import trio

from journal.disk.disk import DiskLockedError, open_disk
from sos_client.printable import printable
from sos_client.serving.access import Right, append_token, new_token
from sos_client.settings import SettingsError
from sos_client.standard_handles import occupy_standard_handles
from sos_client.wire.errors import ExitCode, SosError
from sos_server.config import Flags, load_settings
from sos_server.serve import serve
from sos_server.store.checking import CheckReport, check_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Problem = TypeVar("Problem", bound=Exception)
SECONDS_PER_DAY = 86_400
_STDOUT = 1
_NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FILE = click.Path(path_type=Path, dir_okay=False)
_ROOT = click.Path(path_type=Path, file_okay=False)
_EXISTING_ROOT = click.Path(path_type=Path, file_okay=False, exists=True)


class ServeByDefault(click.Group):
    """``sos-server --root DIR`` is ``sos-server serve --root DIR``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "--version")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ServeByDefault)
@click.version_option(version("sos-checkpoints"), prog_name="sos-server")
def main() -> None:
    """The SOS server: append-only objects, acknowledged when they are on disk.

    Without a command it serves: sos-server --root DIR (sos-server serve --help has the options)
    """
    occupy_standard_handles()


@main.command("serve")
@click.option("--root", type=_ROOT, help="Directory that holds everything; made when there is none.")
@click.option("--listen", metavar="HOST:PORT", help="Where to serve (default 127.0.0.1:7400); port 0 picks one.")
@click.option("--config", type=_FILE, help="TOML file with settings; flags win over it.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there.")
@click.option("--tls-cert", type=_FILE, help="Certificate chain (PEM).")
@click.option("--tls-key", type=_FILE, help="Private key (PEM).")
@click.option("--tokens", type=_FILE, help="Tokens file; see `sos-server token`.")
@click.option("--insecure", is_flag=True, default=None, help="Listen beyond loopback without TLS and tokens.")
@click.option("--exit-with-fd", type=int, metavar="N", help="End when this inherited pipe ends (with the parent).")
@click.option("--share-port", is_flag=True, help="Serve at a port that another process of this user keeps.")
def serve_command(
    *,
    root: Path | None,
    listen: str | None,
    config: Path | None,
    metrics: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tokens: Path | None,
    insecure: bool | None,
    exit_with_fd: int | None,
    share_port: bool,
) -> None:
    """Serve until SIGTERM. Prints `ready HOST:PORT` when it does; SIGHUP reloads settings, tokens, certificates."""
    flags = Flags(
        config=config,
        root=root,
        listen=listen,
        metrics=metrics,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tokens=tokens,
        insecure=insecure,
    )
    try:
        root = load_settings(flags).root
        trio.run(partial(serve, share_port=share_port), partial(load_settings, flags), exit_with_fd)
    except* SettingsError as errors:
        _leave(_texts(errors), ExitCode.USAGE)
    except* DiskLockedError:
        _leave([f"{root}: another process owns this directory; is it served already?"], ExitCode.UNAVAILABLE)
    except* OSError as errors:
        _leave_disk(root, errors)
    except* SosError as errors:
        _leave(_texts(errors), ExitCode.DAMAGED)


@main.command("token")
@click.option("--tokens", type=_FILE, required=True, help="Tokens file to add to; made when there is none.")
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
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="It expires after so many days.")
def token_command(
    *, tokens: Path, name: str, namespaces: Sequence[str], rights: Sequence[str], days: float | None
) -> None:
    """Make a token, add its hash to the tokens file, and print the token: once, it is kept nowhere."""
    expires = None if days is None else time.time() + days * SECONDS_PER_DAY
    granted = frozenset(Right(right) for right in rights)
    text, grant = new_token(name=name, namespaces=tuple(namespaces), rights=granted, expires=expires)
    try:
        append_token(tokens, grant)
    except SettingsError as error:
        _leave([str(error)], ExitCode.USAGE)
    except OSError as error:
        _leave([f"{tokens}: cannot be written: {error.strerror}"], ExitCode.USAGE)
    try:
        _print(text)
    except OSError as error:
        lost = f"the token could not be shown ({error.strerror}) and is lost: take the entry {name!r} out of {tokens}"
        _leave([lost], ExitCode.USAGE)


@main.command("check")
@click.option("--root", type=_EXISTING_ROOT, required=True, help="Directory of a server that is not running.")
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON object on standard output.")
def check_command(*, root: Path, as_json: bool) -> None:
    """Verify every byte that a server keeps, without starting it or changing anything."""
    try:
        report = trio.run(_check, root)
    except* DiskLockedError:
        _leave([f"{root}: a server is running on this directory; stop it first"], ExitCode.UNAVAILABLE)
    except* OSError as errors:
        _leave_disk(root, errors)
    try:
        _print(_as_json(report) if as_json else _as_text(report))
    except OSError as error:
        code = ExitCode.USAGE if report.is_whole else ExitCode.DAMAGED
        _leave([f"the report cannot be shown: {error.strerror}"], code)
    if not report.is_whole:
        sys.exit(ExitCode.DAMAGED)


async def _check(root: Path) -> CheckReport:
    show = _progress if sys.stderr.isatty() else None
    async with open_disk(root) as disk:
        return await check_root(disk, on_progress=show)


def _progress(verified_bytes: int, all_bytes: int) -> None:
    percent = 100 * verified_bytes // max(1, all_bytes)
    click.echo(f"\r{percent:3} % of {all_bytes / 1e6:,.0f} MB", err=True, nl=verified_bytes == all_bytes)


def _as_json(report: CheckReport) -> str:
    identity = report.identity.hex() if report.identity else None
    return printable(json.dumps({**dataclasses.asdict(report), "identity": identity, "whole": report.is_whole}))


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


def _leave_disk(root: Path | None, errors: BaseExceptionGroup[OSError]) -> NoReturn:
    verdicts = [disk_verdict(root, error) for error in _leaves(errors)]
    _leave([sentence for sentence, _ in verdicts], max(code for _, code in verdicts))


def _texts(errors: BaseExceptionGroup[Exception]) -> list[str]:
    return [str(error) for error in _leaves(errors)]


def _leaves(errors: BaseExceptionGroup[Problem]) -> Iterator[Problem]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _leave(lines: Sequence[str], code: ExitCode) -> NoReturn:
    for line in lines:
        click.echo(f"sos-server: {printable(line)}", err=True)
    sys.exit(code)
