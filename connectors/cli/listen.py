"""`sos-connector listen`: takes what source connectors send, and serves it to readers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import trio
from click.core import ParameterSource

from connectors.cli.embedded_server import EmbeddedServer, embedded_server
from connectors.ingest.retention import MessageRetention
from connectors.listener.serve import ListenSettings, listen
from connectors.listener.settings import CREDITS, SOURCE_VERSION, ProtocolSettings
from journal.cli.create import Age, Size
from journal.cli.options import split_addresses, tls_context, token_of
from journal.cli.output import note
from journal.cli.serve import volume_opener
from journal.nurseries import first_of
from journal.records.settings import JournalSettings
from journal.service.serve import ServeSettings
from sos_client.net.addresses import parse_address
from sos_client.serving.tls import TlsFiles
from sos_client.settings import SettingsError
from sos_client.wire.names import check_name

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
WALLAROO_COOKIE: Final = "Dragons-Love-Tacos"
EXAMPLES: Final = """\b
Examples:
  sos-journal create clicks --servers a:7400,b:7400,c:7400
  sos-connector listen --volume clicks --servers a:7400,b:7400,c:7400 --dir /var/lib/sos
  sos-connector send /var/log/clicks.log --to 127.0.0.1:7431 --follow
  sos-connector listen --volume clicks --embedded --dir /tmp/clicks     (to try things)"""


@click.command("listen", epilog=EXAMPLES)
@click.option("--volume", required=True, help="The ingest volume; `sos-journal create` makes one.")
@click.option(
    "--servers",
    "--server",
    "servers",
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
    help="Local copy of the volume. A cache: losing it loses nothing.",
)
@click.option("--listen", default="127.0.0.1:7431", show_default=True, metavar="HOST:PORT", help="For sources.")
@click.option(
    "--files", default="127.0.0.1:0", show_default=True, metavar="HOST:PORT", help="For readers; 0 picks one."
)
@click.option("--advertise", default="", metavar="HOST:PORT", help="Where readers are sent; default: where it listens.")
@click.option("--cookie", help="What HELLO must carry (default: nothing; with --wallaroo what Wallaroo carries).")
@click.option("--protocol-version", default=SOURCE_VERSION, show_default=True, help="What HELLO must say.")
@click.option("--wallaroo", is_flag=True, help="Defaults as in Wallaroo.")
@click.option(
    "--credits", type=click.IntRange(1, 1 << 20), default=CREDITS, show_default=True, help="Messages on their way."
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there.")
@click.option("--tls-cert", type=_FILE, help="Certificate chain for sources and readers (PEM).")
@click.option("--tls-key", type=_FILE, help="Its private key (PEM).")
@click.option("--tokens", type=_FILE, help="Tokens of readers and sources; see `sos-server token`.")
@click.option("--insecure", is_flag=True, help="Listen beyond loopback without TLS and tokens.")
@click.option(
    "--embedded",
    is_flag=True,
    help="Start an SOS server of its own in --dir. For trying things: what is there does not survive this machine.",
)
@click.option("--token-file", type=_FILE, help="Token for the SOS servers; or the token itself in SOS_TOKEN.")
@click.option("--tls", is_flag=True, help="Speak TLS with the SOS servers.")
@click.option(
    "--tls-ca", type=_FILE, envvar="SOS_TLS_CA", help="Certificates to trust there (PEM); implies --tls [SOS_TLS_CA]."
)
@click.option("--standby", is_flag=True, help="Take the volume over only when the listener that has it is silent.")
@click.option("--create", is_flag=True, help="Make the volume if no server has it yet.")
@click.option(
    "--keep-messages-for",
    type=Age(),
    default="7d",
    show_default=True,
    help="Delete messages that all readers have passed when they are older than this; 0s: never for their age.",
)
@click.option(
    "--keep-messages-bytes",
    type=Size(),
    default="0",
    help="Delete messages that all readers have passed beyond this size, however young, e.g. 20G.",
)
@click.option(
    "--reader-lag-max",
    type=Size(),
    default="0",
    metavar="SIZE",
    help="Let sources wait while a reader is further behind than this, e.g. 10G (default: never).",
)
@click.option("--keep-for", type=Age(), help="Keep the journal's past for so long, e.g. 7d.")
@click.option("--keep-bytes", type=Size(), help="Keep no more of the journal's past than this, e.g. 20G.")
@click.option("--exit-with-fd", type=int, metavar="N", help="End when this inherited pipe ends (with the parent).")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def listen_command(**options: Any) -> None:
    """Take messages from source connectors until SIGTERM.

    Prints `files HOST:PORT` (for readers: the file protocol) and `ready HOST:PORT` (for sources). A message is
    acknowledged when it is durable on the servers. Logs go to stderr, one JSON object a line.

    With --tokens, a source shows its token as the cookie, and needs the right to append to the volume; a reader needs
    the right to read, and to append, for its own file. SIGHUP reloads tokens and certificates.
    """
    try:
        with ExitStack() as stack:
            if options["embedded"]:
                server = stack.enter_context(_embedded(options))
                options |= {"servers": (server.address,), "create": True}
            settings = _settings(options)
            if options["embedded"]:
                settings = replace(settings, files=replace(settings.files, token=server.token, authorities=None))
            writing = JournalSettings(
                retention_seconds=options["keep_for"] or 0, retention_bytes=options["keep_bytes"] or 0
            )
            trio.run(listen, settings, volume_opener(settings.files, writing, create=options["create"]))
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    except BaseExceptionGroup as group:
        first = first_of(group)
        raise click.UsageError(str(first)) if isinstance(first, SettingsError) else first from None


def _embedded(options: dict[str, Any]) -> AbstractContextManager[EmbeddedServer]:
    if (
        options["servers"]
        and click.get_current_context().get_parameter_source("servers") is ParameterSource.COMMANDLINE
    ):
        raise click.UsageError("--embedded does not go with --servers")
    if options["standby"]:
        raise click.UsageError("--embedded does not go with --standby: nobody else can take such a volume over")
    note(f"embedded: everything is in {options['directory']} of this machine, and is lost with it")
    return embedded_server(options["directory"] / "server")


def _settings(options: dict[str, Any]) -> ListenSettings:
    certificate, key = options["tls_cert"], options["tls_key"]
    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    servers = split_addresses(",".join(options["servers"]))
    if not servers:
        raise click.UsageError("say where the SOS servers are: --servers HOST:PORT,HOST:PORT,… (or SOS_SERVERS)")
    cookie = options["cookie"]
    if cookie is not None and options["tokens"] is not None:
        raise click.UsageError("--cookie does not go with --tokens: the token is the cookie then")
    if cookie is None:
        cookie = WALLAROO_COOKIE if options["wallaroo"] else ""
    metrics = options["metrics"]
    files = ServeSettings(
        volumes=(check_name(options["volume"]),),
        servers=servers,
        directory=options["directory"],
        listen=parse_address(options["files"], what="--files"),
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
    protocol = ProtocolSettings(
        version=options["protocol_version"], cookie=cookie.encode("utf-8"), credits=options["credits"]
    )
    retention = MessageRetention(
        seconds=options["keep_messages_for"],
        size=options["keep_messages_bytes"],
        lag_bytes_max=options["reader_lag_max"],
    )
    listen_at = parse_address(options["listen"], what="--listen")
    return ListenSettings(files=files, listen=listen_at, protocol=protocol, retention=retention)
