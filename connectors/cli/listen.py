"""`sos-connector listen`: takes what source connectors send, and serves it to readers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from connectors.cli.embedded_server import EmbeddedServer, embedded_server
from connectors.ingest.retention import MessageRetention
from connectors.listener.serve import ListenSettings, RegistryPlace, listen
from connectors.listener.settings import CREDITS, SOURCE_VERSION, ProtocolSettings
from journal.cli.service_options import journal_settings, service_options, service_settings, volume_opener, web_server
from journal.kept_past import Retention
from sos_client.command.connecting import decorated
from sos_client.command.output import note
from sos_client.command.running import run_async
from sos_client.command.serving import SHARE_PORT_OPTION
from sos_client.command.setting_flags import flag_options
from sos_client.declarations import said
from sos_client.net.addresses import parse_address, split_addresses
from sos_client.wire.names import check_name

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sos_client.command.connecting import Verb

WALLAROO_COOKIE: Final = "Dragons-Love-Tacos"
PAST_SECONDS: Final = 86_400
"""A volume that a listener makes keeps what was deleted for this long."""
EXAMPLES: Final = """\b
Examples:
  sos-journal create clicks --servers a:7400,b:7400,c:7400
  sos-connector listen --volume clicks --servers a:7400,b:7400,c:7400 --dir /var/lib/sos
  sos-connector send /var/log/clicks.log --to 127.0.0.1:7431 --follow
  sos-connector listen --volume clicks --embedded --dir /tmp/clicks     (to try things)"""


def _retention_options(function: Verb) -> Verb:
    return decorated(function, flag_options(MessageRetention))


@click.command("listen", epilog=EXAMPLES)
@click.option("--volume", required=True, help="The ingest volume; `sos-journal create` makes one.")
@click.option("--listen", default="127.0.0.1:7431", show_default=True, metavar="HOST:PORT", help="For sources.")
@click.option(
    "--files", default="127.0.0.1:0", show_default=True, metavar="HOST:PORT", help="For readers; 0 picks one."
)
@click.option("--cookie", help="What HELLO must carry (default: nothing; with --wallaroo what Wallaroo carries).")
@click.option("--protocol-version", default=SOURCE_VERSION, show_default=True, help="What HELLO must say.")
@click.option("--wallaroo", is_flag=True, help="Defaults as in Wallaroo.")
@click.option(
    "--credits", type=click.IntRange(1, 1 << 20), default=CREDITS, show_default=True, help="Messages on their way."
)
@click.option(
    "--registry",
    metavar="VOLUME@HOST:PORT,…",
    help="A volume, and the journal services that serve it, in which several listeners of one source claim streams.",
)
@click.option(
    "--embedded",
    is_flag=True,
    help="Start an SOS server of its own in --dir. For trying things: what is there does not survive this machine.",
)
@_retention_options
@service_options
@SHARE_PORT_OPTION
@click.option("--insecure", is_flag=True, help="Listen beyond loopback without TLS and tokens.")
def listen_command(**options: Any) -> None:
    """Take messages from source connectors until SIGTERM.

    Prints `files HOST:PORT` (for readers: the file protocol) and `ready HOST:PORT` (for sources). A message is
    acknowledged when it is durable on the servers. Logs go to stderr, one JSON object a line.

    With --tokens, a source shows its token as the cookie, and needs the right to append to the volume; a reader needs
    the right to read, and to append, for its own file. SIGHUP reloads tokens and certificates.

    What is deleted stays in the volume's past as long as --keep-for says, as in every volume, and takes room as long:
    a day with --create or --embedded, else as the volume was made.
    """
    with ExitStack() as stack:
        if options["embedded"]:
            server = stack.enter_context(_embedded(options))
            options |= {"servers": ((server.address,),), "create": True}
        if options["create"] and options["retention"] is None:
            options |= {"retention": Retention(seconds=PAST_SECONDS)}
        settings = _settings(options)
        if options["embedded"]:
            settings = replace(settings, files=replace(settings.files, token=server.token, authorities=None))
        opener = volume_opener(settings.files, journal_settings(options), create=options["create"])
        run_async(listen, settings, opener, web_server(settings.files))


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
    cookie = options["cookie"]
    if cookie is not None and options["tokens"] is not None:
        raise click.UsageError("--cookie does not go with --tokens: the token is the cookie then")
    if cookie is None:
        cookie = WALLAROO_COOKIE if options["wallaroo"] else ""
    files = service_settings(options, volumes=[options["volume"]], listen=options["files"], what="--files")
    protocol = ProtocolSettings(
        version=options["protocol_version"], cookie=cookie.encode("utf-8"), credits=options["credits"]
    )
    listen_at = parse_address(options["listen"], what="--listen")
    return ListenSettings(
        files=files,
        listen=listen_at,
        protocol=protocol,
        retention=MessageRetention(**said(MessageRetention, options)),
        registry=_registry(options["registry"]),
    )


def _registry(text: str | None) -> RegistryPlace | None:
    if text is None:
        return None
    volume, _, services = text.partition("@")
    if not split_addresses(services):
        raise click.UsageError("--registry is VOLUME@HOST:PORT,…: a volume, and where `sos-journal serve` serves it")
    return RegistryPlace(volume=check_name(volume), services=split_addresses(services))
