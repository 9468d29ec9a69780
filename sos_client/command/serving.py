"""Options of whoever serves: metrics, TLS, tokens of clients, how the process ends, what it logs."""

from __future__ import annotations

from typing import Final

import click

from sos_client.command.parameters import FILE

SERVING_OPTIONS: Final = (
    click.option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there."),
    click.option("--web", metavar="HOST:PORT", help="Serve the page, /status.json, /readyz and /metrics there."),
    click.option("--tls-cert", type=FILE, help="Certificate chain for clients (PEM)."),
    click.option("--tls-key", type=FILE, help="Its private key (PEM)."),
    click.option("--tokens", type=FILE, help="Tokens of clients; see `sos-server token`."),
    click.option("--exit-with-fd", type=int, metavar="N", help="End when this inherited pipe ends (with the parent)."),
)
SHARE_PORT_OPTION: Final = click.option(
    "--share-port", is_flag=True, help="Serve at a port that another process of this user keeps."
)
LOG_LEVEL_OPTION: Final = click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
