"""What a relay is told when it starts. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from sos_client.net.addresses import Address
    from sos_client.serving.tls import TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccess:
    """The journal service that has the volumes of the checkpoints, and how to get in."""

    addresses: tuple[str, ...]
    token: bytes | None = None
    tls: ssl.SSLContext | None = None
    insecure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """What `sos-connector relay` is told."""

    listen: Address
    service: ServiceAccess
    spool: Path
    name: str
    """Of this process, for logs: host and process id."""
    spool_bytes_max: int
    sink_tls: ssl.SSLContext | None = None
    accept_duplicates: bool = False
    share_port: bool = False
    metrics: Address | None = None
    tls: TlsFiles | None = None
    tokens: Path | None = None
    insecure: bool = False
    exit_with_handle: int | None = None
    log_level: str = "info"
