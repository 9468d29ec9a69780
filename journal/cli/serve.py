"""`sos-journal serve`: the journal service, for Spark and for everybody else who speaks the file protocol."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from journal.cli.create import Age, Size
from journal.cli.options import split_addresses, tls_context, token_of
from journal.errors import JournalCode, JournalError
from journal.nurseries import first_of
from journal.owner.journal import Journal, open_journal
from journal.records.settings import JournalSettings, Surroundings
from journal.service.serve import ServeSettings, serve
from journal.takeover.volume_creation import create_volume
from sos_client.clear_text import check_token_stays
from sos_client.net.addresses import parse_address
from sos_client.serving.event_log import EventLog, Level
from sos_client.serving.tls import TlsFiles
from sos_client.settings import SettingsError
from sos_client.wire.names import check_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from journal.service.serve import OpenVolume

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_SUPERVISOR_ONLY: Final = frozenset({"--supervise"})
EXAMPLES: Final = """\b
Examples:
  sos-journal serve --volume payments --servers a:7400,b:7400,c:7400 --dir /var/lib/sos
  sos-journal serve --volume q1 --volume q2 --servers a:7400,b:7400,c:7400 --dir /var/lib/sos --supervise
  sos-journal serve --volume payments --servers a:7400,b:7400,c:7400 --dir /var/lib/sos \\
      --listen 0.0.0.0:7420 --tls-cert cert.pem --tls-key key.pem --tokens tokens.toml --metrics 127.0.0.1:9420"""


@click.command("serve", epilog=EXAMPLES)
@click.option("--volume", "volumes", multiple=True, required=True, help="A volume to serve; once for each.")
@click.option(
    "--servers",
    "--server",
    multiple=True,
    envvar="SOS_SERVERS",
    metavar="HOST:PORT,…",
    help="SOS servers [SOS_SERVERS].",
)
@click.option(
    "--dir",
    "--directory",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Local copies, one directory for each volume. A cache: losing it loses nothing.",
)
@click.option("--listen", default="127.0.0.1:7420", show_default=True, metavar="HOST:PORT", help="Port 0 picks one.")
@click.option("--advertise", default="", metavar="HOST:PORT", help="Where others are sent; default: where it listens.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there.")
@click.option("--tls-cert", type=_FILE, help="Certificate chain for clients (PEM).")
@click.option("--tls-key", type=_FILE, help="Its private key (PEM).")
@click.option("--tokens", type=_FILE, help="Tokens of clients; see `sos-server token`.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Listen beyond loopback without TLS and tokens; the token for other hosts' SOS servers goes without TLS, too.",
)
@click.option("--token-file", type=_FILE, help="Token for the SOS servers; or the token itself in SOS_TOKEN.")
@click.option("--tls", is_flag=True, help="Speak TLS with the SOS servers.")
@click.option(
    "--tls-ca", type=_FILE, envvar="SOS_TLS_CA", help="Certificates to trust there (PEM); implies --tls [SOS_TLS_CA]."
)
@click.option("--standby", is_flag=True, help="Take a volume over only when the service that has it is silent.")
@click.option("--create", is_flag=True, help="Make a volume that no server has yet.")
@click.option("--keep-for", type=Age(), help="Keep the past for so long, e.g. 7d (default: as the volume was made).")
@click.option(
    "--keep-bytes", type=Size(), help="Keep no more of the past than this, e.g. 20G (default: as it was made)."
)
@click.option(
    "--tree-bytes-max",
    type=Size(),
    default=JournalSettings().tree_bytes_max,
    show_default="128M",
    help="Memory for the files, directories and claims of each volume, about 500 bytes each.",
)
@click.option("--supervise", is_flag=True, help="Start the service again when it crashes.")
@click.option("--exit-with-fd", type=int, metavar="N", help="End when this inherited pipe ends (with the parent).")
@click.option("--share-port", is_flag=True, help="Serve at a port that another process of this user keeps.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def serve_command(**options: Any) -> None:
    """Take volumes over and serve them until SIGTERM.

    Prints `ready HOST:PORT` when it has all of them (or stands by for them). SIGHUP reloads tokens and certificates.
    Logs go to stderr, one JSON object a line.
    """
    try:
        if options["supervise"]:
            sys.exit(_supervised(options))
        settings = _settings(options)
        writing = JournalSettings(
            retention_seconds=options["keep_for"] or 0,
            retention_bytes=options["keep_bytes"] or 0,
            tree_bytes_max=options["tree_bytes_max"],
        )
        trio.run(serve, settings, volume_opener(settings, writing, create=options["create"]))
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    except BaseExceptionGroup as group:
        first = first_of(group)
        raise click.UsageError(str(first)) if isinstance(first, SettingsError) else first from None


def _settings(options: dict[str, Any]) -> ServeSettings:
    certificate, key = options["tls_cert"], options["tls_key"]
    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    metrics = options["metrics"]
    return ServeSettings(
        volumes=tuple(dict.fromkeys(check_name(name) for name in options["volumes"])),
        servers=_servers(options["servers"]),
        directory=options["directory"],
        listen=parse_address(options["listen"], what="--listen"),
        share_port=options["share_port"],
        advertise=options["advertise"],
        metrics=parse_address(metrics, what="--metrics") if metrics else None,
        tls=TlsFiles(certificate=certificate, key=key) if certificate else None,
        tokens=options["tokens"],
        insecure=options["insecure"],
        standby=options["standby"],
        token=token_of(options["token_file"]),
        authorities=tls_context(options["tls_ca"], wanted=options["tls"]),
        exit_with_handle=options["exit_with_fd"],
        log_level=options["log_level"],
    )


def _servers(texts: Sequence[str]) -> tuple[str, ...]:
    servers = split_addresses(",".join(texts))
    if not servers:
        raise click.UsageError("say where the SOS servers are: --servers HOST:PORT,HOST:PORT,… (or SOS_SERVERS)")
    return servers


def _supervised(options: dict[str, Any]) -> int:
    """Supervise the same command line, but for what the supervisor does itself. Imports what only this needs."""
    from journal.service.supervisor import Supervision, supervise

    parse_address(options["listen"], what="--listen")
    arguments = [argument for argument in sys.argv[1:] if argument not in _SUPERVISOR_ONLY]
    supervision = Supervision(
        command=[sys.executable, "-m", "journal", *arguments],
        listen=options["listen"],
        log=EventLog(least=Level[options["log_level"].upper()]),
        exit_with_handle=options["exit_with_fd"],
    )
    return trio.run(supervise, supervision)


def volume_opener(settings: ServeSettings, writing: JournalSettings, *, create: bool) -> OpenVolume:
    """How a service opens a volume; with `create`, one that no server has yet is made."""
    encrypted = settings.insecure or settings.authorities is not None
    check_token_stays(settings.servers, token=settings.token, encrypted=encrypted)
    surroundings = Surroundings(token=settings.token, tls=settings.authorities, insecure=settings.insecure)

    def take_over(volume: str, unless_above: int | None) -> AbstractAsyncContextManager[Journal]:
        return open_journal(
            volume,
            servers=settings.servers,
            directory=settings.directory,
            settings=writing,
            surroundings=surroundings,
            unless_above=unless_above,
        )

    @asynccontextmanager
    async def opened(volume: str, unless_above: int | None) -> AsyncIterator[Journal]:
        async with AsyncExitStack() as stack:
            try:
                journal = await stack.enter_async_context(take_over(volume, unless_above))
            except JournalError as error:
                if error.code is not JournalCode.VOLUME_NOT_FOUND or not create:
                    raise
                await create_volume(volume, settings.servers, surroundings=surroundings, settings=writing)
                journal = await stack.enter_async_context(take_over(volume, unless_above))
            yield journal

    return opened
