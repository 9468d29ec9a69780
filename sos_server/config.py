"""The server's settings: what they are called, what they mean, and how file and flags come together.

A flag wins over the file, the file over the default. Paths in the file are relative to the file.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from sos_client.net.addresses import Address, parse_address
from sos_client.serving.tls import TlsFiles, tls_files
from sos_client.settings import Setting, SettingsError, check_keys, read_settings, section
from sos_client.wire.errors import RefusedError
from sos_client.wire.limits import FRAME_BYTES_MAX, OFFSET_MAX
from sos_client.wire.names import check_name

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
DEFAULT_LISTEN: Final = "127.0.0.1:7400"
RETENTION_SECONDS_MAX: Final = 1e10
"""300 years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSection:
    """``[server]``: where it serves and what it writes."""

    root: Annotated[Path | None, Setting("directory that holds everything the server keeps")] = None
    listen: Annotated[str, Setting("HOST:PORT to serve on; port 0 lets the system choose")] = DEFAULT_LISTEN
    metrics: Annotated[str, Setting("HOST:PORT for Prometheus; empty: no metrics")] = ""
    web: Annotated[str, Setting("HOST:PORT for the page, /status.json, /readyz, /metrics; empty: none")] = ""
    insecure: Annotated[bool, Setting("listen beyond loopback without TLS and tokens")] = False
    log_level: Annotated[str, Setting("debug, info, warning or error")] = "info"
    shutdown_seconds: Annotated[float, Setting("how long SIGTERM may take", minimum=0.1, maximum=3600)] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSection:
    """``[access]``: who may come in. Read again at SIGHUP, with the files that it names."""

    tokens: Annotated[Path | None, Setting("tokens file; none: everyone may do everything")] = None
    certificate: Annotated[Path | None, Setting("certificate chain (PEM); only TLS is spoken then")] = None
    key: Annotated[Path | None, Setting("private key (PEM)")] = None
    client_authority: Annotated[Path | None, Setting("who must have signed client certificates (PEM)")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSection:
    """``[limits]``: what slow and greedy peers can use up."""

    connections_max: Annotated[int, Setting("connections in all", minimum=1, maximum=1_000_000)] = 4096
    connections_per_peer_max: Annotated[int, Setting("connections from one host", minimum=1, maximum=1_000_000)] = 2048
    handshake_seconds: Annotated[float, Setting("for TLS and for HELLO", minimum=0.01, maximum=3600)] = 10.0
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
class StorageSection:
    """``[storage]``: how much is kept, and for how long at least."""

    retention_seconds: Annotated[
        float, Setting("sealed objects cannot be deleted before that", minimum=0, maximum=RETENTION_SECONDS_MAX)
    ] = 0.0
    quota_bytes: Annotated[
        int | None, Setting("what each namespace may hold; none: all there is", minimum=0, maximum=OFFSET_MAX)
    ] = None
    objects_max: Annotated[int, Setting("objects of all namespaces together", minimum=1)] = 80_000
    namespace_objects_max: Annotated[int, Setting("objects of one namespace", minimum=1)] = 50_000
    namespaces_max: Annotated[int, Setting("namespaces of the server", minimum=1)] = 10_000
    reserve_bytes: Annotated[int, Setting("appends are refused when the disk has less room", minimum=0)] = 16 << 20
    log_bytes_max: Annotated[
        int, Setting("size of the commit log, which a start may have to read", minimum=64 << 20)
    ] = 512 << 20
    accept_log_damage: Annotated[
        bool,
        Setting("start although a part of the commit log is unreadable; what is not sealed counts as damaged then"),
    ] = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; None where it says nothing."""

    config: Path | None = None
    root: Path | None = None
    listen: str | None = None
    metrics: str | None = None
    web: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tokens: Path | None = None
    insecure: bool | None = None


SECTIONS: Final[dict[str, type[Any]]] = {
    "server": ServerSection,
    "access": AccessSection,
    "limits": LimitsSection,
    "storage": StorageSection,
}


def load_settings(flags: Flags) -> Settings:
    """File and flags as one. SettingsError says what has to be changed."""
    document = read_settings(flags.config) if flags.config else {}
    where = str(flags.config)
    check_keys(document, allowed={**SECTIONS, "quotas": None}, where=where)
    parts = {name: section(kind, document.get(name, {}), where=f"{where}: [{name}]") for name, kind in SECTIONS.items()}
    home = flags.config.parent if flags.config else Path()
    server: ServerSection = _with_flags(
        _below(home, parts["server"]),
        {
            "root": flags.root,
            "listen": flags.listen,
            "metrics": flags.metrics,
            "web": flags.web,
            "insecure": flags.insecure,
        },
    )
    access: AccessSection = _with_flags(
        _below(home, parts["access"]), {"tokens": flags.tokens, "certificate": flags.tls_cert, "key": flags.tls_key}
    )
    if server.log_level not in LOG_LEVELS:
        raise SettingsError(
            f"{where}: [server]: log_level: must be one of {', '.join(LOG_LEVELS)}, not {server.log_level!r}"
        )
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
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    return dataclasses.replace(part, **{key: home / path for key, path in values.items() if isinstance(path, Path)})


def _with_flags(part: Any, given: dict[str, object]) -> Any:
    return dataclasses.replace(part, **{key: value for key, value in given.items() if value is not None})


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
