"""A profile of one run, so that commands and the data source find what runs beside the driver, and get in.

It lies in the run's folder, which only its user may read, and goes with it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from spark_integration.run_credentials import private_file

if TYPE_CHECKING:
    from pathlib import Path

    from spark_integration.beside_driver import BesideDriver

VARIABLE: Final = "SOS_PROFILES"
PROFILES_NAME: Final = "profiles.toml"
_NAMED_BY_HAND: Final = ("SOS_SERVERS", "SOS_SERVICE", "SOS_SERVER", "SOS_PROFILE")

_told: list[str] = []
"""The files that this process was told of by `tell_this_process`; the last one counts."""


def write_run_profile(running: BesideDriver) -> Path:
    """The file, which names the volume's servers and service as its default."""
    wanted, credentials = running.wanted, running.credentials
    servers = [running.server_address] if running.server_address is not None else list(wanted.servers)
    to_servers: dict[str, object] = {"insecure": wanted.insecure}
    if running.server_address is not None:
        to_servers["token_file"] = str(credentials.token_file)
    elif wanted.server_token is not None:
        token = private_file(running.folder / "servers.token", wanted.server_token.encode("utf-8"))
        to_servers["token_file"] = str(token)
    if wanted.server_authorities is not None:
        to_servers["tls_ca"] = str(running.folder / "authorities.pem")
    to_service: dict[str, object] = {"token_file": str(credentials.token_file)}
    if credentials.certificate is not None:
        to_service["tls_ca"] = str(credentials.certificate.file)
    name = json.dumps(wanted.volume)  # a basic string of TOML is one of JSON
    lines = [
        f"default = {name}",
        f"[{name}]",
        f"servers = {json.dumps(servers)}",
        f"services = {json.dumps(list(running.services))}",
        *(f"server.{key} = {json.dumps(value)}" for key, value in to_servers.items()),
        *(f"service.{key} = {json.dumps(value)}" for key, value in to_service.items()),
    ]
    return private_file(running.folder / PROFILES_NAME, ("\n".join(lines) + "\n").encode("utf-8"))


def tell_this_process(file: Path) -> None:
    """Let what this process starts (a notebook's commands, Spark's workers) use it, unless somebody named a place."""
    present = os.environ.get(VARIABLE)
    if (present is None or present in _told) and not any(os.environ.get(name) for name in _NAMED_BY_HAND):
        _told.append(str(file))
        os.environ[VARIABLE] = str(file)


def forget(file: Path) -> None:
    """That run is over."""
    if str(file) in _told:
        _told.remove(str(file))
    if os.environ.get(VARIABLE) == str(file):
        if _told:
            os.environ[VARIABLE] = _told[-1]
        else:
            del os.environ[VARIABLE]
