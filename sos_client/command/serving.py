"""Options of whoever serves: metrics, TLS, tokens of clients, how the process ends, what it logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from sos_client.command.setting_flags import flag_option
from sos_client.serving.settings import CERTIFICATE, KEY, LOG_LEVELS, METRICS, TOKENS, WEB

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_client.command.connecting import Verb

EXIT_WITH_FD_OPTION: Final = click.option(
    "--exit-with-fd", type=int, metavar="N", help="End when this inherited pipe ends (with the parent)."
)
SERVING_OPTIONS: Final[tuple[Callable[[Verb], Verb], ...]] = (
    *(flag_option(setting) for setting in (METRICS, WEB, CERTIFICATE, KEY, TOKENS)),
    EXIT_WITH_FD_OPTION,
)
SHARE_PORT_OPTION: Final = click.option(
    "--share-port", is_flag=True, help="Serve at a port that another process of this user keeps."
)
LOG_LEVEL_OPTION: Final = click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True)
