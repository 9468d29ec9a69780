"""Options of whoever speaks to a server: which token is shown, and how TLS is spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from sos_client.command.parameters import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Verb: TypeAlias = "Callable[..., Any]"

TOKEN_FILE_OPTION: Final = click.option(
    "--token-file", type=FILE, help="File with the token [SOS_TOKEN_FILE]; or the token itself in SOS_TOKEN."
)
TLS_OPTION: Final = click.option("--tls", is_flag=True, envvar="SOS_TLS", help="Speak TLS [SOS_TLS].")
TLS_CA_OPTION: Final = click.option(
    "--tls-ca", type=FILE, envvar="SOS_TLS_CA", help="Certificates to trust (PEM); implies --tls [SOS_TLS_CA]."
)
TLS_CERT_OPTION: Final = click.option(
    "--tls-cert", type=FILE, envvar="SOS_TLS_CERT", help="Certificate of this client (PEM) [SOS_TLS_CERT]."
)
TLS_KEY_OPTION: Final = click.option("--tls-key", type=FILE, envvar="SOS_TLS_KEY", help="Its key (PEM) [SOS_TLS_KEY].")
INSECURE_OPTION: Final = click.option("--insecure", is_flag=True, help="Let the token go to other hosts without TLS.")


def decorated(function: Verb, options: Iterable[Callable[[Verb], Verb]]) -> Verb:
    """The function with these options, which --help shows in this order."""
    for option in reversed(list(options)):
        function = option(function)
    return function
