"""Options that verbs share, and what they come to."""

from __future__ import annotations

import datetime as dt
import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from journal.errors import JournalCode, refused
from journal.records.moments import AtTime, parse_moment
from journal.records.settings import MEMBER_DEADLINES, Surroundings
from sos_client.clear_text import check_token_stays
from sos_client.command.connecting import (
    INSECURE_OPTION,
    TLS_CA_OPTION,
    TLS_CERT_OPTION,
    TLS_KEY_OPTION,
    TLS_OPTION,
    TOKEN_FILE_OPTION,
    decorated,
)
from sos_client.command.parameters import DIRECTORY, AddressList, Seconds
from sos_client.command.profiles import (
    PROFILE_OPTION,
    WAY_IN_OPTIONS,
    Credentials,
    Profile,
    chosen_profile,
    way_in_of_options,
)

if TYPE_CHECKING:
    from pathlib import Path

    from journal.records.moments import Moment
    from sos_client.command.connecting import Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where a volume is looked for, and how to get in."""

    services: tuple[str, ...]
    servers: tuple[str, ...]
    directory: Path | None
    to_services: Credentials = Credentials()  # noqa: RUF009 (frozen)
    to_servers: Credentials = Credentials()  # noqa: RUF009
    timeout: float | None = None  # how long who does not answer is waited for; None: a service as Spark does
    origins: tuple[str, ...] = ()  # what named the places, if not the command line: variables, or a profile

    @property
    def surroundings(self) -> Surroundings:
        """For who speaks to the servers as a service does."""
        shown = self.to_servers
        deadlines = MEMBER_DEADLINES.within(self.timeout)
        return Surroundings(token=shown.token, tls=shown.tls, insecure=shown.insecure, deadlines=deadlines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How to print."""

    json: bool
    zone: dt.tzinfo | None  # None: local


_PLACES: Final = {"service": "SOS_SERVICE", "servers": "SOS_SERVERS", "copy_directory": ""}
"""Options that say where a volume is, and the variables that stand in for them."""


def _places(options: dict[str, Any], profile: Profile) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Where to look, and what says so if it is not the command line. What the command line names stands alone: a
    backup is not read together with servers that some variable happens to name, or an empty directory would be
    restored from these."""
    context = click.get_current_context()
    sources = {option: context.get_parameter_source(option) for option in _PLACES}
    said = {option: options.pop(option) for option in _PLACES}
    if ParameterSource.COMMANDLINE in sources.values():
        return {o: value if sources[o] is ParameterSource.COMMANDLINE else None for o, value in said.items()}, ()
    variables = tuple(_PLACES[option] for option, source in sources.items() if source is ParameterSource.ENVIRONMENT)
    if variables and not profile.named:
        return said, variables
    if profile.services or profile.servers:
        return {"service": profile.services, "servers": profile.servers}, (f"profile {profile.name}",)
    return said, variables


def _access(options: dict[str, Any]) -> Access:
    profile = chosen_profile(options.pop("profile"))
    places, origins = _places(options, profile)
    ways = [way_in_of_options(options, way, named=profile.named) for way in (profile.to_services, profile.to_servers)]
    for option in WAY_IN_OPTIONS:
        options.pop(option, None)
    to_services, to_servers = (way.credentials() for way in ways)
    access = Access(
        services=places.get("service") or (),
        servers=places.get("servers") or (),
        directory=places.get("copy_directory"),
        to_services=to_services,
        to_servers=to_servers,
        timeout=options.pop("timeout"),
        origins=origins,
    )
    for addresses, shown in ((access.services, to_services), (access.servers, to_servers)):
        check_token_stays(addresses, token=shown.token, encrypted=shown.insecure or shown.tls is not None)
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
    PROFILE_OPTION,
    TOKEN_FILE_OPTION,
    INSECURE_OPTION,
    TLS_OPTION,
    TLS_CA_OPTION,
    TLS_CERT_OPTION,
    TLS_KEY_OPTION,
    click.option(
        "--timeout",
        type=Seconds(min=0, max=86_400),
        help="Seconds to wait for a service (default 120), or for one answer of a server (default 10).",
    ),
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
    help_text = "Moment: LSN, time (2026-05-01T12:30, 14:30, 'yesterday 14:30'), 15m (ago), or batch:N (as committed)."
    return decorated(function, (click.option("--at", metavar="MOMENT", default="now", help=help_text),))


def moment_of(text: str, style: Style) -> Moment:
    """The moment that `--at` says; times without a zone are local, or UTC with --utc."""
    zone = style.zone or dt.datetime.now().astimezone().tzinfo or dt.UTC
    now_ms = time.time_ns() // 1_000_000
    moment = parse_moment(text, now_ms=now_ms, zone=zone)
    if isinstance(moment, AtTime) and moment.time_ms > now_ms:
        raise refused(JournalCode.BAD_REQUEST, f"{text[:100]!a} has not come yet: a moment is in the past, or now")
    return moment


def is_now(text: str) -> bool:
    """Whether a moment is the present, which a service can show, too."""
    return text.strip() in ("", "now")
