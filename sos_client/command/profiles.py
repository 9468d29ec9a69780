"""Profiles: where a person's servers and services are and how to get in, by name, in `~/.config/sos/profiles.toml`.

    default = "prod"                          # what counts when no profile is named; optional

    [prod]
    servers = ["a:7400", "b:7400", "c:7400"]
    services = ["s:7420", "t:7420"]
    tls_ca = "ca.crt"                         # for servers and services; paths start at the file's directory
    server = { token_file = "journal.token" } # what is different towards the servers, and towards the services:
    service = { token_file = "spark.token" }  # any of token_file, tls, tls_ca, tls_cert, tls_key, insecure

SOS_PROFILES names another file. What stands on the command line wins over a profile, and so do variables of the
environment, unless --profile is given.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from sos_client.credentials import tls_context, token_of
from sos_client.net.addresses import split_addresses
from sos_client.settings import SettingsError, check_keys, read_settings
from sos_client.wire.errors import MisuseError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

PROFILE_OPTION: Final = click.option(
    "--profile", metavar="NAME", envvar="SOS_PROFILE", help="Addresses, tokens, TLS of this name [SOS_PROFILE]."
)
_PATHS: Final = ("token_file", "tls_ca", "tls_cert", "tls_key")
_FLAGS: Final = ("tls", "insecure")
WAY_IN_OPTIONS: Final = (*_PATHS, *_FLAGS)
"""What may be different towards servers and services, by the names of options and of a profile's keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayIn:
    """How to get in somewhere, as options, variables and a profile say it. None: not said."""

    token: str | None = None
    token_file: Path | None = None
    tls: bool | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool | None = None

    def over(self, other: WayIn) -> WayIn:
        """This, and where it says nothing the other. A certificate and its key come from one of them."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.token is not None or self.token_file is not None:
            other = other.without("token", "token_file")
        if self.tls_cert is not None or self.tls_key is not None:
            other = other.without("tls_cert", "tls_key")
        return WayIn(**{name: getattr(other, name) if value is None else value for name, value in said.items()})

    def without(self, *names: str) -> WayIn:
        return WayIn(**{f.name: None if f.name in names else getattr(self, f.name) for f in fields(self)})

    def credentials(self) -> Credentials:
        """Read the files. MisuseError if one is not what it should be."""
        wanted, ca, certificate = bool(self.tls), self.tls_ca, self.tls_cert
        return Credentials(
            token=token_of(self.token_file, self.token),
            tls=tls_context(ca, wanted=wanted, certificate=certificate, key=self.tls_key),
            insecure=bool(self.insecure),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What is shown to the other side, and how it is spoken to."""

    token: bytes | None = None
    tls: ssl.SSLContext | None = None
    insecure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One name's places, and the ways in."""

    servers: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    to_servers: WayIn = WayIn()
    to_services: WayIn = WayIn()
    name: str = ""
    named: bool = False
    """On the command line, hence before what the environment says."""


def profiles_path() -> Path:
    """Where profiles are kept; nowhere, if SOS_PROFILES is set and empty."""
    if (file := os.environ.get("SOS_PROFILES")) is not None:
        return Path(file or os.devnull)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sos" / "profiles.toml"


def chosen_profile(name: str | None) -> Profile:
    """The profile that the command line or SOS_PROFILE names, else the file's default; an empty one if there is none.

    SettingsError if it is named and is not there, or the file is not in order.
    """
    path = profiles_path()
    if not path.is_file():
        if name:
            raise SettingsError(f"there is no profile {name!r}: {path} does not exist")
        return Profile()
    file = read_settings(path, what="profiles")
    default = file.pop("default", None)
    wanted = name or default
    if wanted is None:
        return Profile()
    if not isinstance(wanted, str) or wanted not in file:
        known = ", ".join(sorted(file)) or "none"
        raise SettingsError(f"{path}: there is no profile {wanted!r}; there are: {known}")
    context = click.get_current_context(silent=True)
    named = context is not None and context.get_parameter_source("profile") is ParameterSource.COMMANDLINE
    return _profile(file[wanted], f"{path}: profile {wanted}", path.parent, named=named)


def _profile(table: Any, where: str, folder: Path, *, named: bool) -> Profile:
    _check_table(table, where, ("servers", "services", "server", "service", *WAY_IN_OPTIONS))
    both = _way_in({key: value for key, value in table.items() if key in WAY_IN_OPTIONS}, where, folder)
    return Profile(
        servers=_addresses(table.get("servers", ()), f"{where}: servers"),
        services=_addresses(table.get("services", ()), f"{where}: services"),
        to_servers=_way_in(table.get("server", {}), f"{where}: server", folder).over(both),
        to_services=_way_in(table.get("service", {}), f"{where}: service", folder).over(both),
        name=where.rpartition(" ")[2],
        named=named,
    )


def _way_in(table: Any, where: str, folder: Path) -> WayIn:
    _check_table(table, where, WAY_IN_OPTIONS)
    for key, value in table.items():
        kind, what = (bool, "true or false") if key in _FLAGS else (str, "a path")
        if not isinstance(value, kind):
            raise SettingsError(f"{where}: {key}: must be {what}, not {value!r}")
    said: dict[str, Any] = {
        key: folder / Path(value).expanduser() if key in _PATHS else value for key, value in table.items()
    }
    return WayIn(**said)


def _check_table(table: Any, where: str, keys: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise SettingsError(f"{where}: must be a table")
    check_keys(table, allowed=dict.fromkeys(keys), where=where)


def _addresses(value: Any, where: str) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise SettingsError(f"{where}: must be a list of HOST:PORT, not {value!r}")
    try:
        return tuple(split_addresses(",".join(texts)))
    except MisuseError as error:
        raise SettingsError(f"{where}: {error}") from error


def way_in_of_options(options: Mapping[str, Any], profile: WayIn, *, named: bool) -> WayIn:
    """The options of a command line, its environment and a profile as one."""
    said, of_environment = _way_in_of_context(options)
    return said.over(profile).over(of_environment) if named else said.over(of_environment).over(profile)


def _way_in_of_context(options: Mapping[str, Any]) -> tuple[WayIn, WayIn]:
    """What the command line says, and what the environment says."""
    context = click.get_current_context()
    line: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    for name in ("token", *WAY_IN_OPTIONS):
        if value := options.get(name):
            from_line = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
            (line if from_line else environment)[name] = value
    if token := os.environ.get("SOS_TOKEN", "").strip():
        environment["token"] = token
    elif file := os.environ.get("SOS_TOKEN_FILE"):
        environment["token_file"] = Path(file)
    return WayIn(**line), WayIn(**environment)
