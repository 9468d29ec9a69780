"""`sos-connector relay`: rows of Spark's tasks to sinks, in two phases."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import Any, Final

import click

from connectors.relay.serve import serve_relay
from connectors.relay.settings import RelaySettings, ServiceAccess
from sos_client.clear_text import check_token_stays
from sos_client.command.connecting import TLS_CA_OPTION, TLS_OPTION, TOKEN_FILE_OPTION
from sos_client.command.parameters import DIRECTORY, FILE, AddressList, Size
from sos_client.command.running import run_async
from sos_client.command.serving import EXIT_WITH_FD_OPTION, LOG_LEVEL_OPTION, SHARE_PORT_OPTION
from sos_client.command.setting_flags import flag_option
from sos_client.credentials import tls_context, token_of
from sos_client.net.addresses import parse_address
from sos_client.serving.settings import CERTIFICATE, KEY, METRICS
from sos_client.serving.tls import tls_files

EXAMPLES: Final = """\b
Examples:
  sos-connector relay --listen 127.0.0.1:7433 --service 127.0.0.1:7420
  df.writeStream.format("sos-connector").option("relay", "127.0.0.1:7433").option("connect", "127.0.0.1:7500")…"""


@click.command("relay", epilog=EXAMPLES)
@click.option("--listen", default="127.0.0.1:7433", show_default=True, metavar="HOST:PORT", help="For Spark.")
@click.option(
    "--service",
    required=True,
    envvar="SOS_SERVICE",
    type=AddressList(),
    help="Journal services that have the checkpoints: decisions are kept there [SOS_SERVICE].",
)
@click.option(
    "--spool",
    type=DIRECTORY,
    help="Where staged rows lie. Losing it makes a batch run again. Default: a directory below TMPDIR, for this port.",
)
@click.option("--spool-bytes", type=Size(), default="20G", show_default=True, help="Stage no more than this.")
@click.option(
    "--accept-duplicates",
    is_flag=True,
    help="Send batches again that the sinks have, when a checkpoint was put back; write after what a sink has.",
)
@click.option("--sink-tls", is_flag=True, help="Speak TLS with the sinks.")
@click.option("--sink-tls-ca", type=FILE, help="Certificates to trust there (PEM); implies --sink-tls.")
@flag_option(METRICS)
@flag_option(CERTIFICATE)
@flag_option(KEY)
@click.option(
    "--tokens", type=FILE, help="Tokens of those who stage and commit, on volume `relay`; see `sos-server token`."
)
@click.option(
    "--insecure", is_flag=True, help="Listen beyond loopback without TLS and tokens; send the token without TLS."
)
@TOKEN_FILE_OPTION
@TLS_OPTION
@TLS_CA_OPTION
@SHARE_PORT_OPTION
@EXIT_WITH_FD_OPTION
@LOG_LEVEL_OPTION
def relay_command(**options: Any) -> None:
    """Give the batches of Spark queries to sinks, each batch once, until SIGTERM.

    Prints `ready HOST:PORT`. Tasks stage their rows here; a batch is committed at all its sinks or at none. What was
    decided is kept on the volume of the query's checkpoint, so that another relay, anywhere, goes on with it. Logs go
    to stderr, one JSON object a line.
    """
    run_async(serve_relay, _settings(options))


def _settings(options: dict[str, Any]) -> RelaySettings:
    service = ServiceAccess(
        addresses=options["service"],
        token=token_of(options["token_file"]),
        tls=tls_context(options["tls_ca"], wanted=options["tls"]),
        insecure=options["insecure"],
    )
    check_token_stays(service.addresses, token=service.token, encrypted=service.insecure or service.tls is not None)
    listen = parse_address(options["listen"], what="--listen")
    metrics = options["metrics"]
    return RelaySettings(
        listen=listen,
        share_port=options["share_port"],
        service=service,
        spool=options["spool"] or Path(tempfile.gettempdir()) / f"sos-relay-{os.getuid()}-{listen.port or os.getpid()}",
        name=f"{socket.gethostname()}:{os.getpid()}",
        spool_bytes_max=options["spool_bytes"],
        sink_tls=tls_context(options["sink_tls_ca"], wanted=options["sink_tls"]),
        accept_duplicates=options["accept_duplicates"],
        metrics=parse_address(metrics, what="--metrics") if metrics else None,
        tls=tls_files(options["tls_cert"], options["tls_key"]),
        tokens=options["tokens"],
        insecure=options["insecure"],
        exit_with_handle=options["exit_with_fd"],
        log_level=options["log_level"],
    )
