"""`sos-journal serve`: the journal service, for Spark and for everybody else who speaks the file protocol."""

from __future__ import annotations

import sys
from typing import Any, Final

import click
import trio

from journal.cli.service_options import (
    journal_settings,
    service_options,
    service_settings,
    volume_opener,
    web_server,
)
from journal.service.serve import serve
from sos_client.command.running import run_async
from sos_client.command.serving import SHARE_PORT_OPTION
from sos_client.net.addresses import parse_address
from sos_client.serving.event_log import EventLog, Level

_SUPERVISOR_ONLY: Final = frozenset({"--supervise"})
EXAMPLES: Final = """\b
Examples:
  sos-journal serve --volume payments --servers a:7400,b:7400,c:7400 --dir /var/lib/sos
  sos-journal serve --volume q1 --volume q2 --servers a:7400,b:7400,c:7400 --dir /var/lib/sos --supervise
  sos-journal serve --volume payments --servers a:7400,b:7400,c:7400 --dir /var/lib/sos \\
      --listen 0.0.0.0:7420 --tls-cert cert.pem --tls-key key.pem --tokens tokens.toml --metrics 127.0.0.1:9420"""


@click.command("serve", epilog=EXAMPLES)
@click.option("--volume", "volumes", multiple=True, required=True, help="A volume to serve; once for each.")
@click.option("--listen", default="127.0.0.1:7420", show_default=True, metavar="HOST:PORT", help="Port 0 picks one.")
@service_options
@click.option(
    "--insecure",
    is_flag=True,
    help="Listen beyond loopback without TLS and tokens; the token for other hosts' SOS servers goes without TLS, too.",
)
@click.option("--supervise", is_flag=True, help="Start the service again when it crashes.")
@SHARE_PORT_OPTION
def serve_command(**options: Any) -> None:
    """Take volumes over and serve them until SIGTERM.

    Prints `ready HOST:PORT` when it has all of them (or stands by for them). SIGHUP reloads tokens and certificates.
    Logs go to stderr, one JSON object a line.
    """
    if options["supervise"]:
        sys.exit(_supervised(options))
    settings = service_settings(options, volumes=options["volumes"], listen=options["listen"])
    opener = volume_opener(settings, journal_settings(options), create=options["create"])
    run_async(serve, settings, opener, web_server(settings))


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
