"""The server's settings: what they are called, what they mean, and how file and flags come together.

A flag wins over the file, the file over the default. Paths in the file are relative to the file.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from sos_client.declarations import Form, Setting, said, values_of
from sos_client.net.addresses import Address, parse_address
from sos_client.serving.listener import ListenerLimits
from sos_client.serving.settings import CERTIFICATE, KEY, LOG_LEVELS, METRICS, TOKENS, WEB
from sos_client.serving.tls import TlsFiles, tls_files
from sos_client.settings import SettingsError, check_keys, read_settings, section
from sos_client.wire.errors import RefusedError
from sos_client.wire.limits import FRAME_BYTES_MAX, OFFSET_MAX
from sos_client.wire.names import check_name
from sos_server.store.settings import StorageSection

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_LISTEN: Final = "127.0.0.1:7400"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSection:
    """``[server]``: where it serves and what it writes."""

    root: Annotated[
        Path | None,
        Setting(
            "directory that holds everything; made when there is none", flag="--root", form=Form.DIRECTORY, fixed=True
        ),
    ] = None
    listen: Annotated[
        str,
        Setting("HOST:PORT to serve on; port 0 lets the system choose", flag="--listen", form=Form.ADDRESS, fixed=True),
    ] = DEFAULT_LISTEN
    metrics: Annotated[str, METRICS] = ""
    web: Annotated[str, WEB] = ""
    insecure: Annotated[
        bool,
        Setting("listen beyond loopback without TLS and tokens", flag="--insecure", form=Form.SWITCH, fixed=True),
    ] = False
    log_level: Annotated[str, Setting(f"{', '.join(LOG_LEVELS[:-1])} or {LOG_LEVELS[-1]}", choices=LOG_LEVELS)] = "info"
    shutdown_seconds: Annotated[float, Setting("how long SIGTERM may take", minimum=0.1, maximum=3600)] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSection:
    """``[access]``: who may come in. Read again at SIGHUP, with the files that it names."""

    certificate: Annotated[Path | None, CERTIFICATE] = None
    key: Annotated[Path | None, KEY] = None
    tokens: Annotated[Path | None, TOKENS] = None
    client_authority: Annotated[Path | None, Setting("who must have signed client certificates (PEM)")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSection:
    """``[limits]``: what slow and greedy peers can use up."""

    connections_max: Annotated[int, Setting("connections in all", minimum=1, maximum=1_000_000)] = (
        ListenerLimits().connections_max
    )
    connections_per_peer_max: Annotated[int, Setting("connections from one host", minimum=1, maximum=1_000_000)] = (
        ListenerLimits().connections_per_peer_max
    )
    handshake_seconds: Annotated[float, Setting("for TLS and for HELLO", minimum=0.01, maximum=3600)] = (
        ListenerLimits().handshake_seconds
    )
    idle_seconds: Annotated[float, Setting("connections that ask for nothing are closed then", minimum=0.1)] = 3600.0
    pace_seconds: Annotated[float, Setting("time over which a peer's pace is measured", minimum=0.1, maximum=3600)] = (
        30.0
    )
    pace_bytes_per_second_min: Annotated[float, Setting("least pace of a peer that owes bytes", minimum=0)] = 1024.0
    frame_bytes_max: Annotated[
        int, Setting("longest frame that is taken", minimum=1 << 20, maximum=FRAME_BYTES_MAX)
    ] = FRAME_BYTES_MAX
    read_bytes_max: Annotated[int, Setting("bytes in memory for all readers together", minimum=1 << 20)] = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that file and flags say. ``quotas`` (``[quotas]``: NAMESPACE = BYTES) go before ``quota_bytes``."""

    root: Path
    listen: Address
    metrics: Address | None
    web: Address | None
    tls: TlsFiles | None
    server: ServerSection
    access: AccessSection
    limits: LimitsSection
    storage: StorageSection
    quotas: dict[str, int]


SECTIONS: Final[dict[str, type[Any]]] = {
    "server": ServerSection,
    "access": AccessSection,
    "limits": LimitsSection,
    "storage": StorageSection,
}


def load_settings(config: Path | None = None, flags: Mapping[str, object] | None = None) -> Settings:
    """File and flags as one; a flag that is None says nothing. SettingsError says what has to be changed."""
    document = read_settings(config) if config else {}
    where = str(config)
    check_keys(document, allowed={**SECTIONS, "quotas": None}, where=where)
    home = config.parent if config else Path()
    parts = {}
    for name, kind in SECTIONS.items():
        part = _below(home, section(kind, document.get(name, {}), where=f"{where}: [{name}]"))
        parts[name] = dataclasses.replace(part, **said(kind, flags or {}))
    server: ServerSection = parts["server"]
    access: AccessSection = parts["access"]
    if server.root is None:
        raise SettingsError("--root DIR is missing: the directory that holds everything the server keeps")
    return Settings(
        root=server.root,
        listen=parse_address(server.listen, what="--listen"),
        metrics=parse_address(server.metrics, what="--metrics") if server.metrics else None,
        web=parse_address(server.web, what="--web") if server.web else None,
        tls=tls_files(access.certificate, access.key, access.client_authority),
        server=server,
        access=access,
        limits=parts["limits"],
        storage=parts["storage"],
        quotas=_quotas(document.get("quotas", {}), where=f"{where}: [quotas]"),
    )


def _below(home: Path, part: Any) -> Any:
    """The section with its relative paths taken from where the file is."""
    values = values_of(part).items()
    return dataclasses.replace(part, **{key: home / path for key, path in values if isinstance(path, Path)})


def _quotas(table: object, *, where: str) -> dict[str, int]:
    if not isinstance(table, dict):
        raise SettingsError(f"{where}: must be a table of NAMESPACE = BYTES")
    for name, quota in table.items():
        try:
            check_name(name)
        except RefusedError as error:
            raise SettingsError(f"{where}: {error.message}") from error
        if type(quota) is not int or not 0 <= quota <= OFFSET_MAX:
            raise SettingsError(f"{where}: {name}: must be a whole number of bytes, not {quota!r}")
    return table
