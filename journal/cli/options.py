"""Options that verbs share, and what they come to."""

from __future__ import annotations

import datetime as dt
import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from journal.records.moments import parse_moment
from sos_client.clear_text import check_token_stays
from sos_client.command.connecting import INSECURE_OPTION, TLS_CA_OPTION, TLS_OPTION, TOKEN_FILE_OPTION, decorated
from sos_client.command.parameters import DIRECTORY, AddressList
from sos_client.credentials import tls_context, token_of

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from journal.records.moments import Moment
    from sos_client.command.connecting import Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where a volume is looked for, and how to get in."""

    services: tuple[str, ...]
    servers: tuple[str, ...]
    directory: Path | None
    token: bytes | None
    tls: ssl.SSLContext | None
    insecure: bool = False  # the token may go to other hosts without TLS
    variables: tuple[str, ...] = ()  # of the environment, which named what the command line did not


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How to print."""

    json: bool
    zone: dt.tzinfo | None  # None: local


_PLACES: Final = {"service": "SOS_SERVICE", "servers": "SOS_SERVERS", "copy_directory": ""}
"""Options that say where a volume is, and the variables that stand in for them."""


def _from_environment(options: dict[str, Any]) -> tuple[str, ...]:
    """The variables that count. What the command line names stands alone: a backup is not read together with servers
    that some variable happens to name, or an empty directory would be restored from these."""
    context = click.get_current_context()
    sources = {option: context.get_parameter_source(option) for option in _PLACES}
    variables = [option for option, source in sources.items() if source is ParameterSource.ENVIRONMENT]
    if ParameterSource.COMMANDLINE in sources.values():
        for option in variables:
            options[option] = None
        return ()
    return tuple(_PLACES[option] for option in variables)


def _access(options: dict[str, Any]) -> Access:
    variables = _from_environment(options)
    access = Access(
        variables=variables,
        services=options.pop("service") or (),
        servers=options.pop("servers") or (),
        directory=options.pop("copy_directory"),
        token=token_of(options.pop("token_file")),
        tls=tls_context(options.pop("tls_ca"), wanted=options.pop("tls")),
        insecure=options.pop("insecure"),
    )
    encrypted = access.insecure or access.tls is not None
    check_token_stays((*access.services, *access.servers), token=access.token, encrypted=encrypted)
    return access


_ACCESS: Final = (
    click.option("--service", type=AddressList(), envvar="SOS_SERVICE", help="Journal services [SOS_SERVICE]."),
    click.option("--servers", type=AddressList(), envvar="SOS_SERVERS", help="SOS servers [SOS_SERVERS]."),
    click.option(
        "--dir",
        "copy_directory",
        type=DIRECTORY,
        help="Directory of a journal service, or a backup: DIR/VOLUME, or DIR itself if it has no such directory.",
    ),
    TOKEN_FILE_OPTION,
    INSECURE_OPTION,
    TLS_OPTION,
    TLS_CA_OPTION,
)
_STYLE: Final = (
    click.option("--json", is_flag=True, help="Print JSON: one object, or one a line for lists."),
    click.option("--utc", is_flag=True, help="Times in UTC, not in local time."),
)


def access_options(function: Verb) -> Verb:
    """Gives the verb `access`."""

    @functools.wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        return function(*args, access=_access(options), **options)

    return decorated(wrapper, _ACCESS)


def style_options(function: Verb) -> Verb:
    """Gives the verb `style`."""

    @functools.wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        style = Style(json=options.pop("json"), zone=dt.UTC if options.pop("utc") else None)
        return function(*args, style=style, **options)

    return decorated(wrapper, _STYLE)


def at_option(function: Verb) -> Verb:
    """Gives the verb `at`: a moment as text, for `moment_of`."""
    help_text = "Moment: LSN, time (2026-05-01T12:30), 15m (ago), or batch:N (as committed)."
    return decorated(function, (click.option("--at", metavar="MOMENT", default="now", help=help_text),))


def moment_of(text: str, style: Style) -> Moment:
    """The moment that `--at` says; times without a zone are local, or UTC with --utc."""
    zone = style.zone or dt.datetime.now().astimezone().tzinfo or dt.UTC
    return parse_moment(text, now_ms=time.time_ns() // 1_000_000, zone=zone)


def is_now(text: str) -> bool:
    """Whether a moment is the present, which a service can show, too."""
    return text.strip() in ("", "now")
